package confluent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// What a producer starts from. Batches are small so that a record over the topic's
// limit goes alone: a broker refuses a whole batch, librdkafka does not split it.
// The limit of a record is the topic's: the client's own one is far above.
var producerDefaults = map[string]string{
	"compression.codec":                  "lz4",
	"partitioner":                        "consistent",
	"linger.ms":                          "0",
	"batch.size":                         "8192",
	"message.max.bytes":                  "67108864",
	"topic.metadata.refresh.interval.ms": "5000",
}

// latest is the last timestamp that confluent-kafka-go carries: it counts nanoseconds.
const latest = math.MaxInt64 / int64(time.Millisecond)

// purging bounds how long Close waits for the reports of purged records.
const purging = 5 * time.Second

// producer writes records.
type producer struct {
	*client
	mutex   sync.RWMutex // closed, against calls of Produce
	closed  bool
	timeout time.Duration

	state   sync.Mutex
	pending int
	idle    chan struct{} // set by Close; closed when nothing is pending
}

// sending travels with a record to its report.
type sending struct {
	topic string
	size  int
	done  func(kafka.Delivery)
}

// Producer makes a producer.
func (Cluster) Producer(config kafka.ProducerConfig) (kafka.Producer, error) {
	properties, err := settings(config.Servers, producerDefaults, config.Properties, ownedProducer)
	if err != nil {
		return nil, err
	}
	properties["enable.idempotence"], properties["acks"] = "true", "all"
	if config.Lossy {
		properties["enable.idempotence"], properties["acks"] = "false", "1"
	}
	properties["message.timeout.ms"] = strconv.Itoa(math.MaxInt32)
	if config.SendTimeout > 0 {
		millis := min(int64((config.SendTimeout+time.Millisecond-1)/time.Millisecond), math.MaxInt32)
		properties["message.timeout.ms"] = strconv.FormatInt(millis, 10)
		if _, given := config.Properties["topic.metadata.propagation.max.ms"]; !given {
			// A topic that is not there is told before the record times out.
			properties["topic.metadata.propagation.max.ms"] = strconv.FormatInt(min(max(millis/2, 1), 30000), 10)
		}
	}
	p := &producer{timeout: config.SendTimeout}
	p.client, err = connect("producer", properties, config.OnLog, p.report)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *producer) Produce(record *kafka.Record, done func(kafka.Delivery)) error {
	if err := checkTopic(record.Topic); err != nil {
		return err
	}
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	if p.closed {
		return fail(kafka.Closed, "the producer is closed")
	}
	if fatal := p.fatal.Load(); fatal != nil {
		return fatal
	}
	message := &library.Message{
		TopicPartition: library.TopicPartition{Topic: &record.Topic, Partition: library.PartitionAny},
		Key:            record.Key,
		Value:          record.Value,
		Opaque:         &sending{topic: record.Topic, size: len(record.Key) + len(record.Value), done: done},
	}
	if record.Timestamp > latest {
		return fail(kafka.BadRecord, fmt.Sprintf("timestamp %d: it is after the year 2262", record.Timestamp))
	}
	if record.Timestamp > 0 {
		message.Timestamp = time.UnixMilli(record.Timestamp)
	}
	if len(record.Headers) > 0 {
		message.Headers = make([]library.Header, len(record.Headers))
		for i, header := range record.Headers {
			message.Headers[i] = library.Header{Key: header.Name, Value: header.Value}
		}
	}
	p.add(1)
	if err := p.library.Produce(message, nil); err != nil {
		p.add(-1)
		return p.refusal(message.Opaque.(*sending), err)
	}
	return nil
}

// report takes the end of a record.
func (p *producer) report(message *library.Message) {
	sent, known := message.Opaque.(*sending)
	if !known {
		return
	}
	delivery := kafka.Delivery{Partition: message.TopicPartition.Partition, Offset: int64(message.TopicPartition.Offset)}
	if err := message.TopicPartition.Error; err != nil {
		delivery = kafka.Delivery{Partition: -1, Offset: -1, Err: p.refusal(sent, err)}
	} else if p.trouble.Load() != nil {
		p.trouble.Store(nil)
	}
	sent.done(delivery)
	p.add(-1)
}

// refusal is the error of a record.
func (p *producer) refusal(sent *sending, err error) *kafka.Error {
	problem := translate("send to topic "+sent.topic, err)
	var code library.ErrorCode
	if known, is := errors.AsType[library.Error](err); is {
		code = known.Code()
	}
	switch {
	case code == library.ErrPurgeQueue || code == library.ErrPurgeInflight:
		problem.Code = kafka.Closed
		problem.Text += "; the producer was closed before the broker answered"
	case problem.Code == kafka.TooLarge:
		problem.Text += fmt.Sprintf("; the record has %d bytes of key and value", sent.size)
	case problem.Code == kafka.UnknownTopic:
		problem.Text += "; the topic does not exist"
	case problem.Code == kafka.TimedOut:
		problem = p.explain(fail(kafka.TimedOut, fmt.Sprintf("%s; not acknowledged within %v", problem.Text, p.timeout)))
	}
	return problem
}

// add counts records on their way.
func (p *producer) add(n int) {
	p.state.Lock()
	defer p.state.Unlock()
	p.pending += n
	if p.pending == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

func (p *producer) Close(ctx context.Context) error {
	p.mutex.Lock()
	if p.closed {
		p.mutex.Unlock()
		return nil
	}
	p.closed = true
	p.mutex.Unlock()

	idle := make(chan struct{})
	p.state.Lock()
	if p.pending == 0 {
		close(idle)
	} else {
		p.idle = idle
	}
	p.state.Unlock()

	var late error
	select {
	case <-idle:
	case <-ctx.Done():
		late = translate("close of the producer", ctx.Err())
		_ = p.library.Purge(library.PurgeQueue | library.PurgeInFlight)
		select {
		case <-idle:
		case <-time.After(purging):
		}
	}
	if err := p.close(); err != nil {
		return err
	}
	return late
}
