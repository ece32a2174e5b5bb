// Package memory is the store of mock mode behind the port core/store. It opens no
// socket and starts no goroutine.
//
// Clients of one name share one Store, found through the process's Registry, so rows
// survive rebalances and restarts of clients in the process. They stay for as long as the
// Registry, without a bound: only TTLs, deletions and Reset shrink them.
package memory

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"prosody/core/clock"
	"prosody/core/store"
)

// Settings say how stores behave. Zero values mean the defaults.
type Settings struct {
	// Clock tells when rows expire; the real one.
	Clock clock.Clock
	// Limits; 4 MiB a batch, as the Cassandra adapter has.
	Limits store.Limits
}

// Registry finds stores by name. A process has one, made by its composition root.
type Registry struct {
	settings Settings
	mutex    sync.Mutex
	stores   map[string]*Store
}

// NewRegistry makes a registry whose stores follow settings.
func NewRegistry(settings Settings) *Registry {
	if settings.Clock == nil {
		settings.Clock = clock.Real{}
	}
	if settings.Limits.MaxBatch == 0 {
		settings.Limits.MaxBatch = store.MaxBatch
	}
	if settings.Limits.MaxValue == 0 {
		settings.Limits.MaxValue = store.MaxValue
	}
	return &Registry{settings: settings, stores: map[string]*Store{}}
}

// Store finds or makes the store of a name: a list of servers, joined by commas. Its
// order, spaces and empty items make no difference.
func (r *Registry) Store(name string) *Store {
	name = normal(name)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found := r.stores[name]
	if found == nil {
		found = newStore(r.settings)
		r.stores[name] = found
	}
	return found
}

// Reset empties the store of a name and removes its fault.
func (r *Registry) Reset(name string) {
	r.mutex.Lock()
	found := r.stores[normal(name)]
	r.mutex.Unlock()
	if found != nil {
		found.reset()
	}
}

func normal(name string) string {
	var servers []string
	for server := range strings.SplitSeq(name, ",") {
		if server = strings.TrimSpace(server); server != "" {
			servers = append(servers, server)
		}
	}
	slices.Sort(servers)
	return strings.Clone(strings.Join(slices.Compact(servers), ","))
}

// stripes is how many locks the entities share.
const stripes = 64

// Store keeps everything in memory.
type Store struct {
	clock   clock.Clock
	limits  store.Limits
	seed    maphash.Seed
	hook    hook
	parts   [stripes]stripe
	index   index
	catalog catalog
}

func newStore(settings Settings) *Store {
	s := &Store{clock: settings.Clock, limits: settings.Limits, seed: maphash.MakeSeed()}
	s.reset()
	return s
}

func (s *Store) reset() {
	s.Fail(nil)
	for i := range s.parts {
		part := &s.parts[i]
		part.mutex.Lock()
		part.entities, part.rows, part.writes = map[store.Key]*entity{}, 0, 0
		part.mutex.Unlock()
	}
	s.index.mutex.Lock()
	s.index.shards = map[store.Shard]*shard{}
	s.index.mutex.Unlock()
	s.catalog.reset()
}

func (s *Store) part(key store.Key) *stripe {
	return &s.parts[maphash.Comparable(s.seed, key)%stripes]
}

// Limits tells what the store accepts.
func (s *Store) Limits() store.Limits { return s.limits }

// Close does nothing: others may use the store, and the rows are to stay.
func (s *Store) Close() error { return nil }

var _ store.Store = (*Store)(nil)

// life is when something was written and when it ends.
type life struct {
	stamp   int64
	expires time.Time // zero for never
}

func (l life) over(now time.Time) bool { return !l.expires.IsZero() && !now.Before(l.expires) }

func (s *Store) life(stamp int64, ttl time.Duration) life {
	if ttl <= 0 || ttl > store.MaxTTL {
		return life{stamp: stamp}
	}
	whole := (ttl + time.Second - 1).Truncate(time.Second)
	return life{stamp: stamp, expires: s.clock.Now().Add(whole)}
}

func tree() *btree.BTreeG[*row] {
	return btree.NewG(16, func(a, b *row) bool { return a.slot.Before(b.slot) })
}
