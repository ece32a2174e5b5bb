package confluent

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

func readCode(t *testing.T, reader kafka.Reader, at kafka.Partition, offset int64) kafka.Code {
	t.Helper()
	began := time.Now()
	record, err := reader.Read(t.Context(), at, offset)
	assert.Less(t, time.Since(began), 25*time.Second, "it has 30 s")
	var failure *kafka.Error
	if errors.As(err, &failure) {
		return failure.Code
	}
	require.NoError(t, err)
	assert.Equal(t, offset, record.Offset)
	return -1
}

// What retention has deleted is told at once, also while other records are read.
func TestReaderOfACutLog(t *testing.T) {
	topic := makeTopic(t, 1, nil)
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t)})
	require.NoError(t, err)
	for n := range 60 {
		require.NoError(t, producer.Produce(&kafka.Record{Topic: topic, Key: []byte("k"), Value: fmt.Append(nil, n)},
			func(done kafka.Delivery) { assert.NoError(t, done.Err) }))
	}
	require.NoError(t, producer.Close(t.Context()))
	_, err = tools(t).DeleteRecords(t.Context(), []library.TopicPartition{{Topic: &topic, Partition: 0, Offset: 20}})
	require.NoError(t, err)

	reader, err := Cluster{}.Reader(kafka.ReaderConfig{Servers: servers(t), Discard: 3})
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	at := kafka.Partition{Topic: topic, Index: 0}
	assert.Equal(t, kafka.Gone, readCode(t, reader, at, 5))
	assert.EqualValues(t, -1, readCode(t, reader, at, 20))
	var wait sync.WaitGroup
	for _, offset := range []int64{3, 59, 20, 19, 40, 60, 41, 1000} {
		wait.Go(func() {
			code := readCode(t, reader, at, offset)
			if offset < 20 || offset >= 60 {
				assert.Equal(t, kafka.Gone, code, offset)
			} else {
				assert.EqualValues(t, -1, code, offset)
			}
		})
	}
	wait.Wait()
}

// No broker, no answer: the call ends by its time.
func TestReaderWithoutBroker(t *testing.T) {
	reader, err := Cluster{}.Reader(kafka.ReaderConfig{Servers: []string{"127.0.0.1:1"}, Timeout: 500 * time.Millisecond})
	require.NoError(t, err)
	began := time.Now()
	_, err = reader.Read(t.Context(), kafka.Partition{Topic: "orders"}, 0)
	var failure *kafka.Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, kafka.TimedOut, failure.Code)
	assert.Less(t, time.Since(began), 20*time.Second)
	require.NoError(t, reader.Close())
}
