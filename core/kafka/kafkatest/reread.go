package kafkatest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// reread reads records again, in any order and many at once, and tells what is not there
// without waiting for more.
func reread(t *testing.T, b *bench) {
	topic := b.topic(2)
	producer := b.producer()
	const count = 300
	type place struct {
		at     kafka.Partition
		offset int64
	}
	sent := map[place]*kafka.Record{}
	var mutex sync.Mutex
	var wait sync.WaitGroup
	for n := range count {
		record := &kafka.Record{
			Topic: topic, Key: fmt.Appendf(nil, "key-%d", n), Timestamp: 1_700_000_000_000 + int64(n),
			Headers: []kafka.Header{{Name: "a", Value: []byte{}}, {Name: "a", Value: []byte("2")}, {Name: "b"}},
		}
		switch n % 3 {
		case 0:
			record.Value = fmt.Appendf(nil, `{"n":%d}`, n)
		case 1:
			record.Value = []byte{}
		}
		wait.Add(1)
		require.NoError(t, producer.Produce(record, func(done kafka.Delivery) {
			defer wait.Done()
			mutex.Lock()
			defer mutex.Unlock()
			if assert.NoError(t, done.Err) {
				sent[place{kafka.Partition{Topic: topic, Index: done.Partition}, done.Offset}] = record
			}
		}))
	}
	wait.Wait()
	reader, err := b.Cluster.Reader(kafka.ReaderConfig{Servers: b.Servers, Timeout: time.Minute, Discard: 5})
	require.NoError(t, err)
	defer func() { assert.NoError(t, reader.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	limit := make(chan struct{}, 32)
	for where, record := range sent {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			found, err := reader.Read(ctx, where.at, where.offset)
			if !assert.NoError(t, err) {
				return
			}
			assert.Equal(t, where.offset, found.Offset)
			assert.Equal(t, where.at, kafka.Partition{Topic: found.Topic, Index: found.Partition})
			assert.Equal(t, record.Key, found.Key)
			assert.Equal(t, record.Value == nil, found.Value == nil)
			assert.Equal(t, string(record.Value), string(found.Value))
			assert.Equal(t, record.Timestamp, found.Timestamp)
			if assert.Len(t, found.Headers, 3) {
				for i, header := range record.Headers {
					assert.Equal(t, header.Name, found.Headers[i].Name)
					assert.Equal(t, header.Value == nil, found.Headers[i].Value == nil)
					assert.Equal(t, string(header.Value), string(found.Headers[i].Value))
				}
			}
		})
	}
	wait.Wait()
	at := kafka.Partition{Topic: topic, Index: 0}
	for _, offset := range []int64{count, count + 1000} {
		began := time.Now()
		_, err = reader.Read(ctx, at, offset)
		isGone(t, err)
		assert.Less(t, time.Since(began), 30*time.Second, "it does not wait for what may come")
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	_, err = reader.Read(ended, at, 0)
	require.Error(t, err)
	require.NoError(t, reader.Close())
	_, err = reader.Read(ctx, at, 0)
	var failure *kafka.Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, kafka.Closed, failure.Code)
}

func isGone(t *testing.T, err error) {
	t.Helper()
	var failure *kafka.Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, kafka.Gone, failure.Code, failure.Text)
}

// count tells how many partitions a topic has, also once it has more.
func count(t *testing.T, b *bench) {
	topic := b.topic(2)
	consumer, err := b.Cluster.Consumer(kafka.ConsumerConfig{Servers: b.Servers, Group: b.Topic()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, consumer.Close()) }()
	require.NoError(t, consumer.Subscribe([]string{topic}))
	expect := func(partitions int) {
		t.Helper()
		require.Eventually(t, func() bool {
			consumer.Poll(50*time.Millisecond, 10)
			found, known := consumer.Count(topic)
			return known && found == partitions
		}, b.Settle, 10*time.Millisecond)
	}
	expect(2)
	b.Grow(t, topic, 5)
	expect(5)
}
