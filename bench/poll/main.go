// Command poll measures a plain loop over confluent-kafka-go's Poll, the yardstick of
// the C benchmark. It fills a topic, reads it and prints JSON with the topic's name.
// When TOPIC names one, it reads that.
//
//	poll [RECORDS [BYTES [NAME=VALUE…]]]
//
// NAME=VALUE are librdkafka properties of the consumer. BENCH_KAFKA names the broker.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const partitions = 4

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "poll:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	numbers := [2]int{200_000, 100}
	for i := 0; i < len(numbers) && i < len(arguments); i++ {
		number, err := strconv.Atoi(arguments[i])
		if err != nil || number < 2 {
			return fmt.Errorf("usage: poll [RECORDS [BYTES [NAME=VALUE…]]]")
		}
		numbers[i] = number
	}
	records, size := numbers[0], numbers[1]
	servers := os.Getenv("BENCH_KAFKA")
	if servers == "" {
		servers = "localhost:9094"
	}
	group := fmt.Sprintf("bench-poll-%d", time.Now().UnixNano())
	topic := os.Getenv("TOPIC")
	if topic == "" {
		topic = group
		if err := fill(servers, topic, records, size); err != nil {
			return err
		}
	}
	settings := kafka.ConfigMap{
		"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.offset.store": false,
	}
	for _, argument := range arguments[min(2, len(arguments)):] {
		name, value, _ := strings.Cut(argument, "=")
		settings[name] = value
	}
	result, err := consume(settings, topic, records)
	if err != nil {
		return err
	}
	result["bytes"], result["topic"] = size, topic
	return json.NewEncoder(os.Stdout).Encode(result)
}

func fill(servers, topic string, records, size int) error {
	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": servers})
	if err != nil {
		return err
	}
	defer admin.Close()
	made, err := admin.CreateTopics(context.Background(), []kafka.TopicSpecification{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}})
	if err != nil {
		return err
	}
	if made[0].Error.Code() != kafka.ErrNoError {
		return made[0].Error
	}
	producer, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "lz4", "go.delivery.reports": false,
		"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1 << 20, "partitioner": "consistent",
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	payload := []byte(`"` + strings.Repeat("x", size-2) + `"`)
	for i := range records {
		for at := 1; at < size-1; at++ {
			payload[at] = "0123456789abcdef"[rand.IntN(16)]
		}
		err := producer.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny},
			Key:            fmt.Appendf(nil, "key-%d", i%1000), Value: payload, // librdkafka copies it
		}, nil)
		if err != nil {
			return err
		}
	}
	if left := producer.Flush(60_000); left > 0 {
		return fmt.Errorf("%d records were not sent", left)
	}
	return nil
}

func consume(settings kafka.ConfigMap, topic string, records int) (map[string]any, error) {
	consumer, err := kafka.NewConsumer(&settings)
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.Close() }()
	if err := consumer.Subscribe(topic, nil); err != nil {
		return nil, err
	}
	used := cpu()
	var first time.Time
	for got := 0; got < records; {
		switch event := consumer.Poll(100).(type) {
		case *kafka.Message:
			if got++; got == 1 {
				first = time.Now()
			}
		case kafka.Error:
			return nil, event
		}
	}
	span := time.Since(first)
	return map[string]any{
		"records": records, "consume_per_s": int(float64(records-1) / span.Seconds()),
		"cpu_us_per_record": float64((cpu() - used).Nanoseconds()) / float64(records) / 1e3,
	}, nil
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
