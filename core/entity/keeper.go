package entity

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/disk"
)

// Keeper keeps the records of one consumer.
type Keeper struct {
	options Options
	version uint64
	slab    int64 // seconds
	held    atomic.Bool

	hits, loads, recalls, commits, failures atomic.Int64

	mutex  sync.Mutex // after record.mutex
	leases map[kafka.Partition]*Lease
	keys   map[place]*record
	idle   list // records that may be forgotten, the one used last in front
	bytes  int64
	number uint64        // of the lease that was assigned last
	behind int           // records with unwritten marks
	room   int           // the most of them
	write  time.Duration // that one mark took lately; 0: nobody knows
}

// place finds a record. Partitions of a topic share it: a key may move between them.
type place struct{ topic, key string }

// New makes a Keeper.
func New(options Options) *Keeper {
	options.fill()
	k := &Keeper{
		options: options,
		version: xxh3.HashString(options.Version),
		slab:    max(1, int64(options.Slab/time.Second)),
		leases:  map[kafka.Partition]*Lease{},
		keys:    map[place]*record{},
		room:    min(fair, options.Behind),
	}
	k.idle.init()
	return k
}

// Hold refuses commits while the group may not know this member any more: they fail
// with fault.Kafka and can be tried again.
func (k *Keeper) Hold(held bool) { k.held.Store(held) }

// doubt tells that the group may not know this member any more.
func (k *Keeper) doubt() error {
	if k.held.Load() || !k.options.Alive() {
		return fault.New(fault.Kafka, "the group may not know this member any more")
	}
	return nil
}

// Facts are the records in memory and what was counted of them.
type Facts struct {
	Loaded    int   `json:"loaded"`
	Bytes     int64 `json:"bytes"`
	Unwritten int   `json:"unwritten"` // that have marks which are not written yet
	Hits      int64 `json:"hits"`      // uses of a record that memory answered
	Loads     int64 `json:"loads"`     // those that read it from the store or the disk cache
	Recalls   int64 `json:"recalls"`   // those of the disk cache
	Commits   int64 `json:"commits"`   // writes of changes
	Failures  int64 `json:"failures"`  // of these writes

	Disk *disk.Facts `json:"disk,omitempty"` // nil: there is no disk cache
}

// Stats tells how many keys are in memory, their bytes, and how many have marks that
// are not written yet.
func (k *Keeper) Stats() (keys int, bytes int64, behind int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.keys), k.bytes, k.behind
}

// Snapshot reads the state.
func (k *Keeper) Snapshot() Facts {
	keys, bytes, behind := k.Stats()
	return Facts{
		Loaded: keys, Bytes: bytes, Unwritten: behind,
		Recalls: k.recalls.Load(), Disk: k.options.Disk.Snapshot(),
		Hits: k.hits.Load(), Loads: k.loads.Load(), Commits: k.commits.Load(), Failures: k.failures.Load(),
	}
}

// wrote counts a write of changes.
func (k *Keeper) wrote(err error) {
	k.commits.Add(1)
	if err != nil {
		k.failures.Add(1)
	}
}

// Open gives the record of a key, loaded. It needs a Close.
func (k *Keeper) Open(ctx context.Context, lease *Lease, key string) (*Entity, error) {
	r, err := k.pin(lease, key)
	if err != nil {
		return nil, err
	}
	e := &Entity{record: r, lease: lease}
	if r.fresh() {
		k.hits.Add(1)
		return e, nil
	}
	k.loads.Add(1)
	if err := r.ensure(ctx, lease); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Open gives the record of a key, loaded. It needs a Close.
func (l *Lease) Open(ctx context.Context, key string) (*Entity, error) {
	return l.keeper.Open(ctx, l, key)
}

func (k *Keeper) pin(lease *Lease, key string) (*record, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err := lease.over(); err != nil {
		return nil, err
	}
	at := place{lease.name.Topic, key}
	r := k.keys[at]
	if r == nil {
		r = &record{
			keeper: k, gate: make(chan struct{}, 1),
			key: store.Key{Group: k.options.Group, Topic: at.topic, Key: at.key},
		}
		r.stale.Store(true)
		k.keys[at] = r
	}
	r.pins++
	r.unlink()
	if !slices.Contains(r.leases, lease) {
		r.leases = append(r.leases, lease)
	}
	return r, nil
}

// unpin ends a use; size is what the record needs in memory.
func (k *Keeper) unpin(r *record, size int64) {
	k.mutex.Lock()
	r.pins--
	if !r.gone {
		k.bytes += size - r.size
		r.size = size
		k.rest(r)
	}
	k.mutex.Unlock()
	k.shrink()
}

// rest lets a record be forgotten when nothing needs it; under the mutex.
func (k *Keeper) rest(r *record) {
	if r.gone || r.pins > 0 || len(r.dirty) > 0 || r.next != nil {
		return
	}
	k.idle.push(r)
}

// shrink forgets what was not used for the longest time, or moves it to the disk cache.
func (k *Keeper) shrink() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for len(k.keys) > k.options.Cache || k.bytes > k.options.Bytes {
		oldest := k.idle.last()
		if oldest == nil {
			return
		}
		if k.options.Disk == nil {
			k.forget(oldest)
			continue
		}
		k.leave(oldest)
	}
}

// leave moves a record to the disk cache, unless somebody uses it meanwhile. It gives the
// mutex away for that time.
func (k *Keeper) leave(r *record) {
	r.pins++
	r.unlink()
	leases := slices.Clone(r.leases)
	k.mutex.Unlock()
	changes := r.save(leases)
	r.mutex.Lock()
	k.mutex.Lock()
	same := r.changes == changes
	r.mutex.Unlock()
	r.pins--
	if !r.gone && r.pins == 0 && len(r.dirty) == 0 && same {
		k.forget(r)
		return
	}
	k.rest(r)
}

// forget is under the mutex.
func (k *Keeper) forget(r *record) {
	r.unlink()
	r.gone = true
	k.bytes -= r.size
	delete(k.keys, place{r.key.Topic, r.key.Key})
}

// list is a ring of records.
type list struct{ root record }

func (l *list) init() { l.root.next, l.root.previous = &l.root, &l.root }

func (l *list) push(r *record) {
	r.next, r.previous = l.root.next, &l.root
	l.root.next.previous = r
	l.root.next = r
}

func (l *list) last() *record {
	if l.root.previous == &l.root {
		return nil
	}
	return l.root.previous
}

func (r *record) unlink() {
	if r.next == nil {
		return
	}
	r.next.previous, r.previous.next = r.previous, r.next
	r.next, r.previous = nil, nil
}

func revoked(lease *Lease) error {
	return fault.New(fault.Revoked, "partition %s:%d has been given up", lease.name.Topic, lease.name.Index)
}
