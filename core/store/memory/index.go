package memory

import (
	"context"
	"sync"
	"time"

	"github.com/google/btree"

	"prosody/core/store"
)

// index is the hints by shard and slab.
type index struct {
	mutex  sync.RWMutex
	shards map[store.Shard]*shard
}

// shard is the registered slabs, by start and size. A slab is registered as long as it is
// here.
type shard struct{ slabs *btree.BTreeG[*slab] }

type slab struct {
	store.Slab
	life
	hints *btree.BTreeG[*hint]
}

type hint struct {
	key string
	life
}

func before(a, b *slab) bool {
	return a.Start < b.Start || a.Start == b.Start && a.Size < b.Size
}

func (i *index) find(shard store.Shard, span store.Slab) *slab {
	if found := i.shards[shard]; found != nil {
		it, _ := found.slabs.Get(&slab{Slab: span})
		return it
	}
	return nil
}

func of(shard store.Shard, key string) store.Key {
	return store.Key{Group: shard.Group, Topic: shard.Topic, Key: key}
}

// AddHint registers the slab and adds the hint.
func (s *Store) AddHint(ctx context.Context, at store.Shard, span store.Slab, key string, stamp int64, ttl time.Duration) error {
	return s.run(ctx, "AddHint", of(at, key), store.CheckKey(of(at, key)), func() {
		next := s.life(stamp, ttl)
		s.index.mutex.Lock()
		defer s.index.mutex.Unlock()
		found := s.index.shards[at]
		if found == nil {
			found = &shard{slabs: btree.NewG(8, before)}
			s.index.shards[at] = found
		}
		it, ok := found.slabs.Get(&slab{Slab: span})
		if !ok {
			it = &slab{Slab: span, life: next, hints: btree.NewG(16, func(a, b *hint) bool { return a.key < b.key })}
			found.slabs.ReplaceOrInsert(it)
		}
		it.stamp = max(it.stamp, stamp)
		if next.expires.IsZero() || !it.expires.IsZero() && it.expires.Before(next.expires) {
			it.expires = next.expires
		}
		if old, ok := it.hints.Get(&hint{key: key}); !ok || stamp >= old.stamp {
			it.hints.ReplaceOrInsert(&hint{key: key, life: next})
		}
	})
}

// DropHint removes a hint.
func (s *Store) DropHint(ctx context.Context, at store.Shard, span store.Slab, key string, stamp int64) error {
	return s.run(ctx, "DropHint", of(at, key), store.CheckKey(of(at, key)), func() {
		s.index.mutex.Lock()
		defer s.index.mutex.Unlock()
		it := s.index.find(at, span)
		if it == nil {
			return
		}
		if old, ok := it.hints.Get(&hint{key: key}); ok && old.stamp <= stamp {
			it.hints.Delete(old)
		}
	})
}

// Hints reads keys of a slab.
func (s *Store) Hints(ctx context.Context, at store.Shard, span store.Slab, after string, limit int) ([]string, error) {
	var keys []string
	err := s.run(ctx, "Hints", of(at, after), store.CheckKey(of(at, after)), func() {
		now := s.clock.Now()
		s.index.mutex.RLock()
		defer s.index.mutex.RUnlock()
		it := s.index.find(at, span)
		if it == nil {
			return
		}
		it.hints.AscendGreaterOrEqual(&hint{key: after}, func(found *hint) bool {
			if !found.over(now) && (after == "" || found.key != after) {
				keys = append(keys, found.key)
			}
			return len(keys) < max(limit, 2)
		})
	})
	return keys, err
}

// Slabs reads registered slabs.
func (s *Store) Slabs(ctx context.Context, at store.Shard, until int64) ([]store.Slab, error) {
	var slabs []store.Slab
	err := s.run(ctx, "Slabs", of(at, ""), store.CheckKey(of(at, "")), func() {
		now := s.clock.Now()
		s.index.mutex.Lock()
		defer s.index.mutex.Unlock()
		found := s.index.shards[at]
		if found == nil {
			return
		}
		var out []*slab
		found.slabs.AscendLessThan(&slab{Slab: store.Slab{Start: until}}, func(it *slab) bool {
			if it.over(now) {
				out = append(out, it)
			} else {
				slabs = append(slabs, it.Slab)
			}
			return true
		})
		for _, it := range out {
			found.slabs.Delete(it)
		}
	})
	return slabs, err
}

// DropSlab removes a slab with the hints up to stamp.
func (s *Store) DropSlab(ctx context.Context, at store.Shard, span store.Slab, stamp int64) error {
	return s.run(ctx, "DropSlab", of(at, ""), store.CheckKey(of(at, "")), func() {
		s.index.mutex.Lock()
		defer s.index.mutex.Unlock()
		it := s.index.find(at, span)
		if it == nil {
			return
		}
		var out []*hint
		it.hints.Ascend(func(found *hint) bool {
			if found.stamp <= stamp {
				out = append(out, found)
			}
			return true
		})
		for _, found := range out {
			it.hints.Delete(found)
		}
		if it.stamp <= stamp {
			s.index.shards[at].slabs.Delete(it)
		}
		if s.index.shards[at].slabs.Len() == 0 {
			delete(s.index.shards, at)
		}
	})
}
