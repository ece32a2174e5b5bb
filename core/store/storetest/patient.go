package storetest

import (
	"context"
	"time"

	"prosody/core/fault"
	"prosody/core/store"
)

// Patient wraps a store so that it does again what a busy cluster does not take at once,
// as the chain does. A test that is about failures has no use for it.
func Patient(inner store.Store) *Patience {
	made := &Patience{Store: inner}
	made.catalog, _ = inner.(store.Catalog)
	made.directory, _ = inner.(store.Directory)
	return made
}

// Patience is a store that tries again.
type Patience struct {
	store.Store
	catalog   store.Catalog
	directory store.Directory
}

// again repeats a call while the store says that it may.
func again[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		made, err := call()
		if fault.Of(err) != fault.Store || ctx.Err() != nil || time.Now().After(end) {
			return made, err
		}
	}
}

func doAgain(ctx context.Context, call func() error) error {
	_, err := again(ctx, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// found is an answer of two parts.
type found[T any] struct {
	value T
	more  bool
}

// Root reads the root.
func (p *Patience) Root(ctx context.Context, key store.Key) ([]byte, error) {
	return again(ctx, func() ([]byte, error) { return p.Store.Root(ctx, key) })
}

// Get reads slots.
func (p *Patience) Get(ctx context.Context, key store.Key, slots []store.Slot) ([][]byte, error) {
	return again(ctx, func() ([][]byte, error) { return p.Store.Get(ctx, key, slots) })
}

// Scan reads a range.
func (p *Patience) Scan(ctx context.Context, key store.Key, span store.Range, backward bool, limit int) ([]store.Row, bool, error) {
	made, err := again(ctx, func() (made found[[]store.Row], err error) {
		made.value, made.more, err = p.Store.Scan(ctx, key, span, backward, limit)
		return made, err
	})
	return made.value, made.more, err
}

// Apply writes a batch.
func (p *Patience) Apply(ctx context.Context, key store.Key, batch store.Batch) error {
	return doAgain(ctx, func() error { return p.Store.Apply(ctx, key, batch) })
}

// AddHint adds a hint.
func (p *Patience) AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) error {
	return doAgain(ctx, func() error { return p.Store.AddHint(ctx, shard, slab, key, stamp, ttl) })
}

// DropHint removes a hint.
func (p *Patience) DropHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64) error {
	return doAgain(ctx, func() error { return p.Store.DropHint(ctx, shard, slab, key, stamp) })
}

// Hints reads hints.
func (p *Patience) Hints(ctx context.Context, shard store.Shard, slab store.Slab, after string, limit int) ([]string, error) {
	return again(ctx, func() ([]string, error) { return p.Store.Hints(ctx, shard, slab, after, limit) })
}

// Slabs reads slabs.
func (p *Patience) Slabs(ctx context.Context, shard store.Shard, until int64) ([]store.Slab, error) {
	return again(ctx, func() ([]store.Slab, error) { return p.Store.Slabs(ctx, shard, until) })
}

// DropSlab drops a slab.
func (p *Patience) DropSlab(ctx context.Context, shard store.Shard, slab store.Slab, stamp int64) error {
	return doAgain(ctx, func() error { return p.Store.DropSlab(ctx, shard, slab, stamp) })
}

// Identify records an identity.
func (p *Patience) Identify(ctx context.Context, group, name, identity string) (string, error) {
	return again(ctx, func() (string, error) { return p.catalog.Identify(ctx, group, name, identity) })
}

// Publish adds a publication.
func (p *Patience) Publish(ctx context.Context, publication store.Publication) error {
	return doAgain(ctx, func() error { return p.catalog.Publish(ctx, publication) })
}

// Retire removes publications.
func (p *Patience) Retire(ctx context.Context, subsystem, name, group string) error {
	return doAgain(ctx, func() error { return p.catalog.Retire(ctx, subsystem, name, group) })
}

// Publications lists publications.
func (p *Patience) Publications(ctx context.Context, subsystem, name string) ([]store.Publication, error) {
	return again(ctx, func() ([]store.Publication, error) { return p.catalog.Publications(ctx, subsystem, name) })
}

// Enroll adds a client.
func (p *Patience) Enroll(ctx context.Context, peer store.Peer, ttl time.Duration) error {
	return doAgain(ctx, func() error { return p.directory.Enroll(ctx, peer, ttl) })
}

// Withdraw removes a client.
func (p *Patience) Withdraw(ctx context.Context, id [16]byte) error {
	return doAgain(ctx, func() error { return p.directory.Withdraw(ctx, id) })
}

// Locate finds a client.
func (p *Patience) Locate(ctx context.Context, id [16]byte) (store.Peer, bool, error) {
	made, err := again(ctx, func() (made found[store.Peer], err error) {
		made.value, made.more, err = p.directory.Locate(ctx, id)
		return made, err
	})
	return made.value, made.more, err
}

// timely tries with a longer and longer time to live, until all was done before what was
// written may have ended; a store counts in whole seconds. Then judge looks at it.
func timely(try func(ttl time.Duration) (judge func())) time.Duration {
	for ttl := 3 * time.Second; ; ttl *= 2 {
		began := time.Now()
		if judge := try(ttl); time.Since(began) < ttl-time.Second {
			judge()
			return ttl
		}
	}
}
