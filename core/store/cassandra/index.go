package cassandra

import (
	"cmp"
	"context"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/store"
)

const (
	addHint  = "INSERT INTO hint (group_id, topic, partition, slab_start, slab_size, key) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
	dropHint = "DELETE FROM hint USING TIMESTAMP ? WHERE group_id = ? AND topic = ? AND partition = ? AND slab_start = ? AND slab_size = ? AND key = ?"
	allHints = "SELECT key FROM hint WHERE group_id = ? AND topic = ? AND partition = ? AND slab_start = ? AND slab_size = ?"
	someHint = allHints + " AND key > ?"

	addSlab  = "INSERT INTO slab (group_id, topic, partition, slab_start, slab_size) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
	readSlab = "SELECT slab_start, slab_size FROM slab WHERE group_id = ? AND topic = ? AND partition = ? AND slab_start < ?"
	dropSlab = "DELETE FROM slab USING TIMESTAMP ? WHERE group_id = ? AND topic = ? AND partition = ? AND slab_start = ? AND slab_size = ?"
	emptied  = "DELETE FROM hint USING TIMESTAMP ? WHERE group_id = ? AND topic = ? AND partition = ? AND slab_start = ? AND slab_size = ?"
)

// registered is how many registrations of slabs are remembered.
const registered = 16384

// skew is how far clocks may be apart.
const skew = time.Minute

// registration is a slab that this process has registered.
type registration struct {
	store.Shard
	store.Slab
}

// AddHint writes the hint and, unless it is known to be there, the slab.
func (s *Store) AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) error {
	if err := store.CheckKey(store.Key{Group: shard.Group, Topic: shard.Topic, Key: key}); err != nil {
		return err
	}
	hint := s.session.Query(addHint, shard.Group, shard.Topic, shard.Partition, slab.Start, slab.Size, key, stamp, s.ttl(ttl))
	it := registration{Shard: shard, Slab: slab}
	// Nobody drops a slab that is not over, so only then a memory of it is worth something.
	lasting := stamp < (slab.Start+slab.Size)*1e6-skew.Microseconds()
	if lasting && s.known(it, ttl) {
		return exec(ctx, "AddHint", hint)
	}
	longer := ttl
	if ttl > 0 {
		longer += time.Duration(slab.Size) * time.Second // for the slab's later hints
	}
	var first, second error
	var both sync.WaitGroup
	both.Go(func() {
		first = exec(ctx, "AddHint", s.session.Query(addSlab, shard.Group, shard.Topic, shard.Partition, slab.Start, slab.Size, stamp, s.ttl(longer)))
	})
	second = exec(ctx, "AddHint", hint)
	both.Wait()
	if err := cmp.Or(first, second); err != nil {
		return err
	}
	if lasting {
		s.slabs.Add(it, s.end(longer))
	}
	return nil
}

// known says whether a slab is registered for at least as long as a hint lives.
func (s *Store) known(it registration, ttl time.Duration) bool {
	until, ok := s.slabs.Get(it)
	end := s.end(ttl)
	return ok && (until == forever || end != forever && end <= until)
}

// forever is the end of what has no time to live.
const forever = int64(0)

func (s *Store) end(ttl time.Duration) int64 {
	if seconds := s.ttl(ttl); seconds > 0 {
		return s.clock.Now().Unix() + seconds
	}
	return forever
}

// DropHint removes a hint.
func (s *Store) DropHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64) error {
	if err := store.CheckKey(store.Key{Group: shard.Group, Topic: shard.Topic, Key: key}); err != nil {
		return err
	}
	return exec(ctx, "DropHint", s.session.Query(dropHint, stamp, shard.Group, shard.Topic, shard.Partition, slab.Start, slab.Size, key))
}

// Hints reads keys of a slab.
func (s *Store) Hints(ctx context.Context, shard store.Shard, slab store.Slab, after string, limit int) ([]string, error) {
	if err := store.CheckKey(store.Key{Group: shard.Group, Topic: shard.Topic, Key: after}); err != nil {
		return nil, err
	}
	limit = max(limit, 2)
	statement := allHints
	values := []any{shard.Group, shard.Topic, shard.Partition, slab.Start, slab.Size}
	if after != "" {
		statement = someHint
		values = append(values, after)
	}
	query := s.session.Query(statement+limited, append(values, limit)...).PageSize(min(limit, page))
	var keys []string
	err := scan(ctx, "Hints", query, func(iter *gocql.Iter) bool {
		var key string
		if !iter.Scan(&key) {
			return false
		}
		keys = append(keys, key)
		return true
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// Slabs reads registered slabs.
func (s *Store) Slabs(ctx context.Context, shard store.Shard, until int64) ([]store.Slab, error) {
	if err := store.CheckKey(store.Key{Group: shard.Group, Topic: shard.Topic}); err != nil {
		return nil, err
	}
	query := s.session.Query(readSlab, shard.Group, shard.Topic, shard.Partition, until).PageSize(page)
	var slabs []store.Slab
	err := scan(ctx, "Slabs", query, func(iter *gocql.Iter) bool {
		var slab store.Slab
		if !iter.Scan(&slab.Start, &slab.Size) {
			return false
		}
		slabs = append(slabs, slab)
		return true
	})
	if err != nil {
		return nil, err
	}
	return slabs, nil
}

// DropSlab removes the slab's hints with one tombstone, then its registration.
func (s *Store) DropSlab(ctx context.Context, shard store.Shard, slab store.Slab, stamp int64) error {
	if err := store.CheckKey(store.Key{Group: shard.Group, Topic: shard.Topic}); err != nil {
		return err
	}
	s.slabs.Remove(registration{Shard: shard, Slab: slab})
	for _, statement := range []string{emptied, dropSlab} {
		err := exec(ctx, "DropSlab", s.session.Query(statement, stamp, shard.Group, shard.Topic, shard.Partition, slab.Start, slab.Size))
		if err != nil {
			return err
		}
	}
	return nil
}
