package producer_test

import (
	"context"
	"sync"

	"prosody/core/kafka"
)

// fake is a Kafka whose reports the test gives, or that gives them at once.
type fake struct {
	mutex   sync.Mutex
	config  kafka.ProducerConfig
	records []*kafka.Record
	open    []func(kafka.Delivery)
	refusal error // of Produce
	room    int   // records on their way before it is full; 0: no limit
	auto    bool  // reports success at once
	closed  bool
	trouble string
}

func (f *fake) Trouble() string { return f.trouble }

func (f *fake) Producer(config kafka.ProducerConfig) (kafka.Producer, error) {
	f.config = config
	return f, f.refusal
}

func (f *fake) Consumer(kafka.ConsumerConfig) (kafka.Consumer, error) { return nil, nil }

func (f *fake) Admin([]string, map[string]string) (kafka.Admin, error) { return nil, nil }

func (f *fake) Reader(kafka.ReaderConfig) (kafka.Reader, error) { return nil, nil }

func (f *fake) Produce(record *kafka.Record, done func(kafka.Delivery)) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	switch {
	case f.closed:
		return &kafka.Error{Code: kafka.Closed, Text: "closed"}
	case f.refusal != nil:
		return f.refusal
	case f.room > 0 && f.waiting() >= f.room:
		return &kafka.Error{Code: kafka.Full, Text: "queue full"}
	}
	f.records = append(f.records, record)
	report := f.open
	f.open = append(report, done)
	if f.auto {
		f.open = report
		f.mutex.Unlock()
		done(kafka.Delivery{Offset: int64(len(f.records) - 1)})
		f.mutex.Lock()
	}
	return nil
}

// waiting needs the mutex.
func (f *fake) waiting() (count int) {
	for _, done := range f.open {
		if done != nil {
			count++
		}
	}
	return count
}

// report ends the n-th record.
func (f *fake) report(n int, delivery kafka.Delivery) {
	f.mutex.Lock()
	done := f.open[n]
	f.open[n] = nil
	f.mutex.Unlock()
	done(delivery)
}

func (f *fake) produced() []*kafka.Record {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]*kafka.Record(nil), f.records...)
}

// Close ends nothing, like a broker that is gone.
func (f *fake) Close(context.Context) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.closed = true
	return nil
}
