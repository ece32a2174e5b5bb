// Package store owns the port to durable storage: what is known about one key, written
// atomically, and the index by time that finds the keys with something due.
package store

import (
	"context"
	"time"
)

// Key names an entity: everything durable about one key of a topic, for one group.
type Key struct{ Group, Topic, Key string }

// Kind tells apart the rows of an entity.
type Kind int8

// The kinds of rows.
const (
	Done     Kind = 1
	Timer    Kind = 2
	Deferred Kind = 3
	Cell     Kind = 4
	Staged   Kind = 5
)

// Slot is the place of a row. Rows of one kind and name are in the byte order of their
// coordinates; a coordinate is any bytes, also none.
type Slot struct {
	Kind       Kind
	Name       string // UTF-8
	Coordinate string
}

// Row is a slot with its data. Empty data are data: Get gives them as non-nil. A store
// copies what it is given and what it gives.
type Row struct {
	Slot
	Data []byte
}

// Put is a row to write. TTL is rounded up to whole seconds; none when it is zero or
// longer than MaxTTL.
type Put struct {
	Row
	TTL time.Duration
}

// Range is the rows of a kind and name with coordinates in [From, To); "" is open.
type Range struct {
	Kind     Kind
	Name     string
	From, To string
}

// Batch is one atomic change of an entity. Stamp (µs) orders it: of two writes to a
// slot the one with the higher stamp stays, in whatever order they arrive. Root and Puts
// are written at Stamp, Deletes and Ranges at Stamp-1, so stamps of a key grow by two.
// Puts name a slot at most once.
type Batch struct {
	Stamp   int64
	Root    []byte // nil leaves it; not empty otherwise
	RootTTL time.Duration
	Puts    []Put
	Deletes []Slot
	Ranges  []Range
}

// Shard is the part of the time index that belongs to a partition.
type Shard struct {
	Group, Topic string
	Partition    int32
}

// Slab is a span of seconds, [Start, Start+Size).
type Slab struct{ Start, Size int64 }

// Limits are what a store accepts. Apply refuses a batch whose Size is over MaxBatch
// and data over MaxValue, before it writes anything.
type Limits struct {
	MaxBatch int
	MaxValue int
	// Retention is how long rows that follow no other rule are kept. The caller
	// turns it into TTLs; a store does not apply it by itself.
	Retention time.Duration
}

// Bounds of every store.
const (
	// MaxTTL is the longest time to live; a longer one means none.
	MaxTTL = 20 * 365 * 24 * time.Hour
	// MaxKey is the most bytes of group, topic and key together.
	MaxKey = 65000
	// MaxCoordinate is the most bytes of a name or a coordinate.
	MaxCoordinate = 65000
	// MaxBatch is the usual limit of a batch; larger changes are staged.
	MaxBatch = 4 << 20
	// MaxValue is the usual limit of a value: it fits in a batch with any slot.
	MaxValue = MaxBatch - MaxKey - 2*MaxCoordinate - 1024
)

// Store keeps entities and the time index. It is safe for use by many goroutines. Its
// errors are *fault.Error: Store for what may work later (the write may have been
// applied), TooLarge or Invalid for what never will. A cancelled ctx ends only its own
// call.
type Store interface {
	// Root reads the root; nil when there is none. Its cost does not depend on the
	// rows, nor on rows that were deleted.
	Root(ctx context.Context, key Key) ([]byte, error)
	// Get reads the data at slots, in their order; nil where there is no row.
	Get(ctx context.Context, key Key, slots []Slot) ([][]byte, error)
	// Scan reads up to limit rows of a range, ascending or backward, and whether there
	// are more. The next page starts at From = last coordinate + "\x00", or backward
	// at To = last coordinate. Deleted rows inside the range cost time: start at a
	// known bound. With a limit below 5,000 the rows are those of one moment.
	Scan(ctx context.Context, key Key, span Range, backward bool, limit int) (rows []Row, more bool, err error)
	// Apply writes a batch: readers see all of it or nothing. The same batch may be
	// applied again.
	Apply(ctx context.Context, key Key, batch Batch) error

	// AddHint notes that a key has something due in a slab, and registers the slab. Both
	// are durable when it returns. Stamp is that of the batch that the hint precedes.
	AddHint(ctx context.Context, shard Shard, slab Slab, key string, stamp int64, ttl time.Duration) error
	// DropHint removes a hint that was added at or before stamp. Give the entity's
	// last stamp: a hint that another owner adds later then stays. Where a whole slab
	// is over, DropSlab alone is cheaper and leaves no tombstones under a scan.
	DropHint(ctx context.Context, shard Shard, slab Slab, key string, stamp int64) error
	// Hints reads up to limit (at least 2) keys of a slab, ascending in byte order, that
	// come after a key; from the first one when after is "".
	Hints(ctx context.Context, shard Shard, slab Slab, after string, limit int) ([]string, error)
	// Slabs reads the registered slabs that start before until, by ascending start.
	Slabs(ctx context.Context, shard Shard, until int64) ([]Slab, error)
	// DropSlab forgets a slab and its hints that were added at or before stamp: the
	// time (µs) at which the caller began to check that nothing in it is left. It
	// must not be before the slab's end. With newer hints the slab stays registered.
	DropSlab(ctx context.Context, shard Shard, slab Slab, stamp int64) error

	Limits() Limits
	Close() error
}

// statement is what a statement costs beside its bytes.
const statement = 80

// Size is what counts against MaxBatch. It includes the key once for each statement, as
// requests to Cassandra do.
func (b Batch) Size(key Key) int {
	each := statement + len(key.Group) + len(key.Topic) + len(key.Key)
	size := 0
	if b.Root != nil {
		size = each + len(b.Root)
	}
	for i := range b.Puts {
		size += each + b.Puts[i].Slot.size() + len(b.Puts[i].Data)
	}
	for i := range b.Deletes {
		size += each + b.Deletes[i].size()
	}
	for i := range b.Ranges {
		size += each + len(b.Ranges[i].Name) + len(b.Ranges[i].From) + len(b.Ranges[i].To)
	}
	return size
}

func (s Slot) size() int { return len(s.Name) + len(s.Coordinate) }
