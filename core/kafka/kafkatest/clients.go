package kafkatest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// flush: Close waits for what is on its way, and every done is called once.
func flush(t *testing.T, b *bench) {
	topic := b.topic(2)
	producer, err := b.Cluster.Producer(kafka.ProducerConfig{Servers: b.Servers})
	require.NoError(t, err)
	const count = 1000
	var calls, failures atomic.Int64
	for _, record := range series(topic, 10, 0, count) {
		require.NoError(t, producer.Produce(record, func(d kafka.Delivery) {
			calls.Add(1)
			if d.Err != nil {
				failures.Add(1)
			}
		}))
	}
	require.NoError(t, producer.Close(t.Context()))
	assert.EqualValues(t, count, calls.Load())
	assert.Zero(t, failures.Load())
	m := b.member(b.Topic(), topic)
	b.until("all records", has(m, count), m)

	// With a context that has ended, what is left ends with an error.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	producer, err = b.Cluster.Producer(kafka.ProducerConfig{Servers: b.Servers})
	require.NoError(t, err)
	calls.Store(0)
	for _, record := range series(topic, 10, 0, count) {
		require.NoError(t, producer.Produce(record, func(kafka.Delivery) { calls.Add(1) }))
	}
	start := time.Now()
	_ = producer.Close(ended)
	assert.Less(t, time.Since(start), 30*time.Second)
	assert.EqualValues(t, count, calls.Load())
}

// admin: topics are made, listed and removed; each failure is told.
func admin(t *testing.T, b *bench) {
	client := b.admin()
	name := b.Topic()
	topics, err := client.Topics(t.Context())
	require.NoError(t, err)
	require.NotContains(t, topics, name)

	require.NoError(t, client.Create(t.Context(), kafka.Topic{
		Name: name, Partitions: 5, Replication: 1,
		Config: map[string]string{"cleanup.policy": "compact", "retention.ms": "60000"},
	}))
	b.send(b.producer(), series(name, 5, 0, 5)...) // usable at once
	topics, err = client.Topics(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 5, topics[name])
	for topic, partitions := range topics {
		assert.Falsef(t, strings.HasPrefix(topic, "__"), "%s", topic)
		assert.Positive(t, partitions)
	}

	problem := failure(t, client.Create(t.Context(), kafka.Topic{Name: name}))
	assert.Equal(t, kafka.Exists, problem.Code)
	assert.Contains(t, problem.Text, "exists")
	assert.Contains(t, problem.Text, name)

	require.NoError(t, client.Delete(t.Context(), name))
	topics, err = client.Topics(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, topics, name)
	require.NoError(t, client.Delete(t.Context(), name), "an absent topic is no error")

	// The same name again, with the broker's defaults.
	require.NoError(t, client.Create(t.Context(), kafka.Topic{Name: name}))
	topics, err = client.Topics(t.Context())
	require.NoError(t, err)
	assert.Positive(t, topics[name])
	require.NoError(t, client.Delete(t.Context(), name))

	for _, bad := range []string{"", ".", "..", "a b", "日本", strings.Repeat("a", 250)} {
		assert.Equalf(t, kafka.BadTopic, failure(t, client.Create(t.Context(), kafka.Topic{Name: bad, Partitions: 1, Replication: 1})).Code, "%q", bad)
	}
	wrong := failure(t, client.Create(t.Context(), kafka.Topic{
		Name: b.Topic(), Partitions: 1, Replication: 1, Config: map[string]string{"retention.ms": "soon"},
	}))
	assert.Equal(t, kafka.BadConfig, wrong.Code)
	assert.Contains(t, wrong.Text, "retention.ms")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	require.Error(t, client.Create(ended, kafka.Topic{Name: b.Topic(), Partitions: 1}))
	_, err = client.Topics(ended)
	require.Error(t, err)
	assert.Less(t, time.Since(start), 20*time.Second)
}
