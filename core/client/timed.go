package client

import (
	"context"
	"time"

	"prosody/core/fault"
	"prosody/core/observe"
	"prosody/core/store"
	"prosody/core/tally"
)

// timed is a backend whose calls are timed.
type timed struct {
	backend
	calls tally.Family[observe.Call]
}

// note counts a call that began then.
func (t *timed) note(operation string, began time.Time, err error) {
	call := observe.Call{Operation: operation}
	if err != nil {
		call.Fault = fault.Of(err).String()
	}
	t.calls.Of(call).Note(time.Since(began))
}

func (t *timed) Root(ctx context.Context, key store.Key) (data []byte, err error) {
	defer func(began time.Time) { t.note("root", began, err) }(time.Now())
	return t.backend.Root(ctx, key)
}

func (t *timed) Get(ctx context.Context, key store.Key, slots []store.Slot) (rows [][]byte, err error) {
	defer func(began time.Time) { t.note("get", began, err) }(time.Now())
	return t.backend.Get(ctx, key, slots)
}

func (t *timed) Scan(ctx context.Context, key store.Key, span store.Range, backward bool, limit int) (rows []store.Row, more bool, err error) {
	defer func(began time.Time) { t.note("scan", began, err) }(time.Now())
	return t.backend.Scan(ctx, key, span, backward, limit)
}

func (t *timed) Apply(ctx context.Context, key store.Key, batch store.Batch) (err error) {
	defer func(began time.Time) { t.note("apply", began, err) }(time.Now())
	return t.backend.Apply(ctx, key, batch)
}

func (t *timed) AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) (err error) {
	defer func(began time.Time) { t.note("add_hint", began, err) }(time.Now())
	return t.backend.AddHint(ctx, shard, slab, key, stamp, ttl)
}

func (t *timed) Hints(ctx context.Context, shard store.Shard, slab store.Slab, after string, limit int) (keys []string, err error) {
	defer func(began time.Time) { t.note("hints", began, err) }(time.Now())
	return t.backend.Hints(ctx, shard, slab, after, limit)
}

func (t *timed) Slabs(ctx context.Context, shard store.Shard, until int64) (slabs []store.Slab, err error) {
	defer func(began time.Time) { t.note("slabs", began, err) }(time.Now())
	return t.backend.Slabs(ctx, shard, until)
}
