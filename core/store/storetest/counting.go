// Package storetest owns the contract that every adapter of core/store fulfils, and the
// store that counts.
package storetest

import (
	"context"
	"maps"
	"sync"
	"time"

	"prosody/core/store"
)

// Counter is a store that counts the calls of another.
type Counter struct {
	store.Store
	store.Catalog // not counted; nil where the inner store has none
	mutex         sync.Mutex
	calls         map[string]int
}

// Counting wraps a store.
func Counting(inner store.Store) *Counter {
	catalog, _ := inner.(store.Catalog)
	return &Counter{Store: inner, Catalog: catalog, calls: map[string]int{}}
}

// Calls gives how often each method was called since Reset, by its name.
func (c *Counter) Calls() map[string]int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return maps.Clone(c.calls)
}

// Reads is how many calls read.
func (c *Counter) Reads() int { return c.sum("Root", "Get", "Scan", "Hints", "Slabs") }

// Writes is how many calls wrote.
func (c *Counter) Writes() int { return c.sum("Apply", "AddHint", "DropHint", "DropSlab") }

// Reset starts anew.
func (c *Counter) Reset() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	clear(c.calls)
}

func (c *Counter) sum(names ...string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	total := 0
	for _, name := range names {
		total += c.calls[name]
	}
	return total
}

func (c *Counter) count(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls[name]++
}

// Root counts.
func (c *Counter) Root(ctx context.Context, key store.Key) ([]byte, error) {
	c.count("Root")
	return c.Store.Root(ctx, key)
}

// Get counts.
func (c *Counter) Get(ctx context.Context, key store.Key, slots []store.Slot) ([][]byte, error) {
	c.count("Get")
	return c.Store.Get(ctx, key, slots)
}

// Scan counts.
func (c *Counter) Scan(ctx context.Context, key store.Key, span store.Range, backward bool, limit int) ([]store.Row, bool, error) {
	c.count("Scan")
	return c.Store.Scan(ctx, key, span, backward, limit)
}

// Apply counts.
func (c *Counter) Apply(ctx context.Context, key store.Key, batch store.Batch) error {
	c.count("Apply")
	return c.Store.Apply(ctx, key, batch)
}

// AddHint counts.
func (c *Counter) AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) error {
	c.count("AddHint")
	return c.Store.AddHint(ctx, shard, slab, key, stamp, ttl)
}

// DropHint counts.
func (c *Counter) DropHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64) error {
	c.count("DropHint")
	return c.Store.DropHint(ctx, shard, slab, key, stamp)
}

// Hints counts.
func (c *Counter) Hints(ctx context.Context, shard store.Shard, slab store.Slab, after string, limit int) ([]string, error) {
	c.count("Hints")
	return c.Store.Hints(ctx, shard, slab, after, limit)
}

// Slabs counts.
func (c *Counter) Slabs(ctx context.Context, shard store.Shard, until int64) ([]store.Slab, error) {
	c.count("Slabs")
	return c.Store.Slabs(ctx, shard, until)
}

// DropSlab counts.
func (c *Counter) DropSlab(ctx context.Context, shard store.Shard, slab store.Slab, stamp int64) error {
	c.count("DropSlab")
	return c.Store.DropSlab(ctx, shard, slab, stamp)
}
