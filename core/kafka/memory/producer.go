package memory

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"prosody/core/kafka"
)

type producer struct {
	broker *Broker
	closed atomic.Bool
}

// Produce copies the record's key, value and headers, appends it and calls done before
// it returns. A record with a timestamp of 0 or less gets the present.
func (p *producer) Produce(record *kafka.Record, done func(kafka.Delivery)) error {
	if p.closed.Load() {
		return shut("producer")
	}
	if err := p.broker.fault("produce", record.Topic); err != nil {
		done(kafka.Delivery{Err: err})
		return nil //nolint:nilerr // done has it
	}
	added, err := p.add(record)
	if err != nil {
		return err
	}
	done(kafka.Delivery{Partition: added.Partition, Offset: added.Offset})
	return nil
}

func (p *producer) add(record *kafka.Record) (*kafka.Record, error) {
	hash := crc32.ChecksumIEEE(record.Key)
	bytes := size(record)
	copied := clone(record)
	if copied.Timestamp <= 0 {
		copied.Timestamp = p.broker.settings.Clock.Now().UnixMilli()
	}
	for {
		log, err := p.broker.log(record.Topic, hash)
		if err != nil {
			return nil, err
		}
		if bytes > log.topic.record {
			return nil, fail(kafka.TooLarge, fmt.Sprintf("a record of %d bytes is over the limit of %d of topic %s",
				bytes, log.topic.record, log.topic.name))
		}
		copied.Topic, copied.Partition = log.topic.name, log.index
		if log.add(copied) { // otherwise the topic was deleted just now
			return copied, nil
		}
	}
}

// clone copies what the caller may use again. Null and empty stay apart.
func clone(record *kafka.Record) *kafka.Record {
	total := len(record.Key) + len(record.Value)
	for _, header := range record.Headers {
		total += len(header.Value)
	}
	buffer := make([]byte, 0, total)
	keep := func(bytes []byte) []byte {
		if bytes == nil {
			return nil
		}
		from := len(buffer)
		buffer = append(buffer, bytes...)
		return buffer[from:len(buffer):len(buffer)]
	}
	copied := &kafka.Record{Timestamp: record.Timestamp, Key: keep(record.Key), Value: keep(record.Value)}
	if len(record.Headers) > 0 {
		copied.Headers = make([]kafka.Header, len(record.Headers))
		for i, header := range record.Headers {
			copied.Headers[i] = kafka.Header{Name: header.Name, Value: keep(header.Value)}
		}
	}
	return copied
}

// Close ends the producer; nothing is on its way.
func (p *producer) Close(context.Context) error {
	p.closed.Store(true)
	return nil
}
