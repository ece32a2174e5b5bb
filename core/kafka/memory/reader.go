package memory

import (
	"context"
	"fmt"
	"sync/atomic"

	"prosody/core/kafka"
)

// reader reads single records again.
type reader struct {
	broker *Broker
	closed atomic.Bool
}

// Reader makes a reader. Its configuration is ignored: logs answer at once.
func (b *Broker) Reader(kafka.ReaderConfig) (kafka.Reader, error) { return &reader{broker: b}, nil }

func (r *reader) Read(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error) {
	if err := ended(ctx, "read"); err != nil {
		return nil, err
	}
	if r.closed.Load() {
		return nil, shut("reader")
	}
	if err := r.broker.fault("read", at.Topic); err != nil {
		return nil, err
	}
	r.broker.mutex.RLock()
	topic := r.broker.topics[at.Topic]
	r.broker.mutex.RUnlock()
	if topic == nil || at.Index < 0 || int(at.Index) >= len(topic.logs) {
		return nil, fail(kafka.UnknownTopic, fmt.Sprintf("%s:%d does not exist", at.Topic, at.Index))
	}
	found, _, _ := topic.logs[at.Index].read(nil, offset, 1)
	if len(found) == 0 || found[0].Offset != offset {
		return nil, fail(kafka.Gone, fmt.Sprintf("no record is at offset %d of %s:%d", offset, at.Topic, at.Index))
	}
	return found[0], nil
}

func (r *reader) Close() error {
	r.closed.Store(true)
	return nil
}
