//go:build bench

package confluent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// TestRate compares Poll with a plain loop over confluent-kafka-go's Poll, in turns.
// It runs with -tags bench.
func TestRate(t *testing.T) {
	const rounds = 3
	for _, size := range []int{100, 1024} {
		count := 600_000 * 100 / max(100, size/4)
		topic := makeTopic(t, 4, nil)
		fill(t, topic, count, size)
		for range rounds {
			wall, cpu := measure(func() { plain(t, topic, count) })
			fmt.Printf("plain   %4d B  %7.0f/s  wall %4.0f ns  cpu %4.0f ns\n", size, float64(count)/wall.Seconds(), per(wall, count), per(cpu, count))
			wall, cpu = measure(func() { batched(t, topic, count) })
			fmt.Printf("batched %4d B  %7.0f/s  wall %4.0f ns  cpu %4.0f ns\n", size, float64(count)/wall.Seconds(), per(wall, count), per(cpu, count))
		}
	}
}

func per(span time.Duration, count int) float64 { return float64(span.Nanoseconds()) / float64(count) }

func measure(run func()) (wall, cpu time.Duration) {
	before, start := busy(), time.Now()
	run()
	return time.Since(start), busy() - before
}

func busy() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func fill(t *testing.T, topic string, count, size int) {
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t), Properties: map[string]string{"linger.ms": "5", "batch.size": "100000"}})
	require.NoError(t, err)
	value := make([]byte, size)
	for i := range value {
		value[i] = "abcdefghijklmnopqrstuvwxyz012345"[(i*7+i/9)%32]
	}
	for i := 0; i < count; {
		if producer.Produce(&kafka.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%5000), Value: value}, func(kafka.Delivery) {}) != nil {
			time.Sleep(time.Millisecond) // the queue is full
			continue
		}
		i++
	}
	require.NoError(t, producer.Close(context.Background()))
}

func plain(t *testing.T, topic string, count int) {
	consumer, err := library.NewConsumer(&library.ConfigMap{
		"bootstrap.servers": servers(t)[0], "group.id": fresh(), "auto.offset.reset": "earliest", "enable.auto.commit": false,
		"enable.auto.offset.store": false, "fetch.queue.backoff.ms": 10, "partition.assignment.strategy": "cooperative-sticky",
	})
	require.NoError(t, err)
	require.NoError(t, consumer.Subscribe(topic, nil))
	for got := 0; got < count; {
		if _, is := consumer.Poll(100).(*library.Message); is {
			got++
		}
	}
	require.NoError(t, consumer.Close())
}

func batched(t *testing.T, topic string, count int) {
	consumer, err := Cluster{}.Consumer(kafka.ConsumerConfig{Servers: servers(t), Group: fresh()})
	require.NoError(t, err)
	require.NoError(t, consumer.Subscribe([]string{topic}))
	for got := 0; got < count; {
		got += len(consumer.Poll(100*time.Millisecond, 500).Records)
	}
	require.NoError(t, consumer.Close())
}

// TestSendRate tells rate and latency of sends for some settings.
func TestSendRate(t *testing.T) {
	topic := makeTopic(t, 4, nil)
	for range 2 {
		for _, properties := range []map[string]string{
			{"linger.ms": "0", "batch.size": "1000000"},
			{"linger.ms": "0", "batch.size": "16384"},
			{"linger.ms": "0", "batch.size": "8192"},
			{"linger.ms": "0.2", "batch.size": "8192"},
			{"linger.ms": "0.5", "batch.size": "8192"},
			{"linger.ms": "1", "batch.size": "8192"},
			{"linger.ms": "5", "batch.size": "8192"},
		} {
			for _, flight := range []int{1, 64, 1024} {
				count := map[int]int{1: 500, 64: 40_000, 1024: 200_000}[flight]
				rate, p50, p99 := sends(t, topic, properties, flight, count)
				fmt.Printf("%v  %4d in flight  %7.0f/s  p50 %v  p99 %v\n", properties, flight, rate, p50, p99)
			}
		}
	}
}

func sends(t *testing.T, topic string, properties map[string]string, flight, count int) (rate float64, p50, p99 time.Duration) {
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t), Properties: properties})
	require.NoError(t, err)
	value := make([]byte, 100)
	send := func(i int, done func()) {
		require.NoError(t, producer.Produce(&kafka.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%5000), Value: value}, func(kafka.Delivery) { done() }))
	}
	var warm sync.WaitGroup
	for i := range 100 {
		warm.Add(1)
		send(i, warm.Done)
	}
	warm.Wait()
	permits := make(chan struct{}, flight)
	spans := make([]time.Duration, count)
	start := time.Now()
	for i := range count {
		permits <- struct{}{}
		began := time.Now()
		send(i, func() {
			spans[i] = time.Since(began)
			<-permits
		})
	}
	for range flight {
		permits <- struct{}{}
	}
	wall := time.Since(start)
	require.NoError(t, producer.Close(context.Background()))
	slices.Sort(spans)
	return float64(count) / wall.Seconds(), spans[count/2].Round(time.Microsecond), spans[count*99/100].Round(time.Microsecond)
}
