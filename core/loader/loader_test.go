package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster counts what is read.
type cluster struct {
	kafka.Cluster
	made, reads, closed int
	refuse              error
}

func (c *cluster) Reader(kafka.ReaderConfig) (kafka.Reader, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	c.made++
	return c, nil
}

func (c *cluster) Read(_ context.Context, at kafka.Partition, offset int64) (*kafka.Record, error) {
	c.reads++
	if offset > 100 {
		return nil, &kafka.Error{Code: kafka.Gone, Text: "gone"}
	}
	return &kafka.Record{Topic: at.Topic, Partition: at.Index, Offset: offset, Value: fmt.Append(nil, offset)}, nil
}

func (c *cluster) Close() error { c.closed++; return nil }

var at = kafka.Partition{Topic: "orders", Index: 1}

func read(t *testing.T, l *loader.Loader, at kafka.Partition, offset int64) {
	t.Helper()
	record, err := l.Read(t.Context(), at, offset)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(offset), string(record.Value))
}

func TestLastRecordsAreKept(t *testing.T) {
	c := &cluster{}
	l := loader.New(loader.Options{Cluster: c, Cache: 2, Log: slog.New(slog.DiscardHandler)})
	assert.Zero(t, c.made, "the client is made at the first use")
	for _, offset := range []int64{1, 2, 1, 3, 1} {
		read(t, l, at, offset)
	}
	assert.Equal(t, 3, c.reads)
	read(t, l, at, 2)
	assert.Equal(t, 4, c.reads, "the one used longest ago is gone")
	read(t, l, kafka.Partition{Topic: "orders", Index: 2}, 2)
	assert.Equal(t, 5, c.reads, "each partition has its own")
	l.Drop(at)
	read(t, l, kafka.Partition{Topic: "orders", Index: 2}, 2)
	assert.Equal(t, 5, c.reads)
	read(t, l, at, 2)
	assert.Equal(t, 6, c.reads)
	assert.Equal(t, 1, c.made)
	require.NoError(t, l.Close())
	assert.Equal(t, 1, c.closed)
	_, err := l.Read(t.Context(), at, 1)
	assert.Equal(t, fault.Closed, fault.Of(err))
}

func TestFailuresPassAndAreNotKept(t *testing.T) {
	c := &cluster{refuse: errors.New("no")}
	l := loader.New(loader.Options{Cluster: c, Cache: 2, Log: slog.New(slog.DiscardHandler)})
	_, err := l.Read(t.Context(), at, 1)
	assert.Equal(t, fault.Kafka, fault.Of(err))
	c.refuse = nil
	for range 2 {
		_, err = l.Read(t.Context(), at, 101)
		var failure *kafka.Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, kafka.Gone, failure.Code)
	}
	assert.Equal(t, 2, c.reads)
	require.NoError(t, l.Close())
}
