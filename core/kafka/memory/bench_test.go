package memory

import (
	"strconv"
	"testing"
	"time"

	"prosody/core/kafka"
)

// One goroutine produces, the benchmark polls: the time for one record through both.
func BenchmarkProducePoll(b *testing.B) {
	broker := NewRegistry(Settings{Retention: 1 << 30}).Broker("bench")
	consumer, _ := broker.Consumer(kafka.ConsumerConfig{Group: "g"})
	defer consumer.Close()
	_ = consumer.Subscribe([]string{"t"})
	producer, _ := broker.Producer(kafka.ProducerConfig{})
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = strconv.AppendInt(nil, int64(i), 10)
	}
	value := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range b.N {
			_ = producer.Produce(&kafka.Record{Topic: "t", Key: keys[i%len(keys)], Value: value}, func(kafka.Delivery) {})
		}
	}()
	for got := 0; got < b.N; {
		got += len(consumer.Poll(100*time.Millisecond, 500).Records)
	}
	<-done
}
