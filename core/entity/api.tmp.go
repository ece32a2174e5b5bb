package entity

import (
	"context"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
)

var errUnbuilt = fault.New(fault.Internal, "not built yet")

// Keeper keeps the records of one consumer.
type Keeper struct{ options Options }

// New makes a Keeper.
func New(options Options) *Keeper { return &Keeper{options: options} }

// Lease is one assignment of a partition.
type Lease struct{ name kafka.Partition }

// Assign begins an assignment; one of the same partition that is still there ends.
func (k *Keeper) Assign(name kafka.Partition) *Lease { return &Lease{name: name} }

// Partition names what is assigned.
func (l *Lease) Partition() kafka.Partition { return l.name }

// Shard names the lease's part of the time index.
func (l *Lease) Shard() store.Shard { return store.Shard{} }

// Fence ends the right to commit. What is marked already can still be flushed.
func (l *Lease) Fence() {}

// End gives the assignment up: nothing of it is written any more.
func (l *Lease) End() {}

// Flush writes the marks that wait, and of a fenced lease also waits for commits that
// are on their way. It lists the partitions of which something could not be written.
func (k *Keeper) Flush(ctx context.Context, names []kafka.Partition) (failed []kafka.Partition, err error) {
	return nil, errUnbuilt
}

// Open gives the record of a key, loaded. It needs a Close.
func (k *Keeper) Open(ctx context.Context, lease *Lease, key string) (*Entity, error) {
	return nil, errUnbuilt
}

// Entity is a key's record in use.
type Entity struct{}

// Close ends the use.
func (e *Entity) Close() {}

// Lease is the assignment under which the record was opened.
func (e *Entity) Lease() *Lease { return nil }

// Key is the key of the record.
func (e *Entity) Key() string { return "" }

// Seen tells whether an event was done before: by its offset and, where ids count, by
// its id. A timer was when it is not there any more.
func (e *Entity) Seen(ctx context.Context, of *event.Event, ids bool) (bool, error) {
	return false, errUnbuilt
}

// Timers lists the durable timers by ascending second.
func (e *Entity) Timers(ctx context.Context) ([]Timer, error) { return nil, errUnbuilt }

// Queue tells the durable state of the deferred queue.
func (e *Entity) Queue(ctx context.Context) (Queue, error) { return Queue{}, errUnbuilt }

// Get reads rows from the store.
func (e *Entity) Get(ctx context.Context, slots ...store.Slot) ([][]byte, error) {
	return nil, errUnbuilt
}

// Head reads the row at the head of the queue; nil when it is empty or the row is gone.
func (e *Entity) Head(ctx context.Context) ([]byte, error) { return nil, errUnbuilt }

// Tidy removes the hint of a slab of the lease's shard when nothing of the key is due in
// it, and tells whether it has.
func (e *Entity) Tidy(ctx context.Context, slab store.Slab) (bool, error) { return false, errUnbuilt }

// Rehome writes hints for all that is due under the lease's partition.
func (e *Entity) Rehome(ctx context.Context) error { return errUnbuilt }

// Begin starts a transaction. of is the event that is handled: when it is a timer that
// fires, the transaction does not see it any more. nil: none.
func (e *Entity) Begin(of *event.Event) *Txn { return &Txn{} }

// Txn buffers what one attempt changes of its key. The methods for hosts return
// fault.Settled after Seal. It needs a Commit that succeeds, or a Discard.
type Txn struct {
	// Trace is kept with the timers that are scheduled.
	Trace string
}

// Schedule adds a timer, or does so at once and durably.
func (t *Txn) Schedule(ctx context.Context, second int64, immediate bool) error { return errUnbuilt }

// Replace removes all timers and adds one.
func (t *Txn) Replace(ctx context.Context, second int64, immediate bool) error { return errUnbuilt }

// Unschedule removes a timer, if there is one.
func (t *Txn) Unschedule(ctx context.Context, second int64, immediate bool) error { return errUnbuilt }

// Clear removes all timers.
func (t *Txn) Clear(ctx context.Context, immediate bool) error { return errUnbuilt }

// Scheduled lists the seconds of the timers as the attempt sees them, ascending.
func (t *Txn) Scheduled(ctx context.Context) ([]int64, error) { return nil, errUnbuilt }

// Seal ends the use by the host.
func (t *Txn) Seal() {}

// Put buffers a row; Delete and Erase the removal of rows.
func (t *Txn) Put(put store.Put) error { return errUnbuilt }

// Delete buffers the removal of a row.
func (t *Txn) Delete(slot store.Slot) {}

// Erase buffers the removal of a range of rows.
func (t *Txn) Erase(span store.Range) {}

// Append buffers a row at the tail of the deferred queue, and gives its sequence.
func (t *Txn) Append(data []byte) (uint64, error) { return 0, errUnbuilt }

// Advance buffers the removal of the queue's head. Due and count begin anew.
func (t *Txn) Advance() {}

// Retry buffers when the head is to be retried, in ms, and how often it has failed.
func (t *Txn) Retry(due int64, count uint32) {}

// Queue is the deferred queue as the transaction sees it.
func (t *Txn) Queue() Queue { return Queue{} }

// Dirty tells whether there is anything to commit.
func (t *Txn) Dirty() bool { return false }

// Commit makes all of it durable, with the mark, in one write. Without changes the mark
// is written behind. After fault.Store it can be called again, and repeats the same
// write only; after other errors nothing was written.
func (t *Txn) Commit(ctx context.Context, mark Mark) error { return errUnbuilt }

// Discard drops what is not committed. After a failed Commit the record is read anew
// at its next use. It does nothing after a Commit that succeeded.
func (t *Txn) Discard() {}
