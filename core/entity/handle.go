package entity

import (
	"context"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"prosody/core/event"
	"prosody/core/store"
)

// Entity is a key's record in use.
type Entity struct {
	record *record
	lease  *Lease
	closed atomic.Bool
}

// Close ends the use.
func (e *Entity) Close() {
	if !e.closed.Swap(true) {
		e.record.keeper.unpin(e.record, e.record.weigh())
	}
}

// Lease is the assignment under which the record was opened.
func (e *Entity) Lease() *Lease { return e.lease }

// Key is the key of the record.
func (e *Entity) Key() string { return e.record.key.Key }

// Seen tells whether an event was done before: by its offset and, where ids count, by
// its id. A timer was when it is not there any more.
func (e *Entity) Seen(ctx context.Context, of *event.Event, ids bool) (bool, error) {
	r := e.record
	if err := r.ensure(ctx, e.lease); err != nil {
		return false, err
	}
	seen, unsure, i := r.seen(of, ids)
	if seen || !unsure {
		return seen, nil
	}
	values, err := e.Get(ctx, i.slot())
	if err != nil || values[0] == nil {
		return false, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	until, stamp, _ := dated(values[0])
	if stamp > r.root.stamp {
		r.stale.Store(true)
		return false, errChanged
	}
	now := r.keeper.options.Clock.Now().Unix()
	r.ids.add(i, until, now)
	r.changes++
	return true, nil
}

// Timers lists the durable timers by ascending second.
func (e *Entity) Timers(ctx context.Context) ([]Timer, error) {
	r := e.record
	if err := r.ensure(ctx, e.lease); err != nil {
		return nil, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	list := make([]Timer, 0, len(r.timers))
	for _, t := range r.timers {
		list = append(list, Timer{Second: int64(t.second), Trace: t.trace})
	}
	return list, nil
}

// Trace gives the trace context that is kept with a timer.
func (e *Entity) Trace(second int64) string {
	r := e.record
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if second >= 0 && second <= math.MaxUint32 {
		if i, exists := find(r.timers, uint32(second)); exists {
			return r.timers[i].trace
		}
	}
	return ""
}

// Queue tells the durable state of the deferred queue.
func (e *Entity) Queue(ctx context.Context) (Queue, error) {
	r := e.record
	if err := r.ensure(ctx, e.lease); err != nil {
		return Queue{}, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.root.queue, nil
}

// Get reads rows from the store; nil where there is none.
func (e *Entity) Get(ctx context.Context, slots ...store.Slot) ([][]byte, error) {
	r := e.record
	ctx, cancel := context.WithTimeout(ctx, r.keeper.options.Timeout)
	defer cancel()
	return r.rows().Get(ctx, slots, func(ctx context.Context, slots []store.Slot) ([][]byte, error) {
		return r.keeper.options.Store.Get(ctx, r.key, slots)
	})
}

// Head reads the queue and the row at its head; nil when the queue is empty or the row is
// gone.
func (e *Entity) Head(ctx context.Context) (queue Queue, row []byte, err error) {
	queue, err = e.Queue(ctx)
	if err != nil || queue.Head == queue.Tail {
		return queue, nil, err
	}
	values, err := e.Get(ctx, queued(queue.Head))
	if err != nil {
		return queue, nil, err
	}
	if values[0] != nil {
		return queue, values[0], nil
	}
	// A late write of a former owner may have taken it off: then the root tells.
	r := e.record
	if err := r.acquire(ctx); err != nil {
		return queue, nil, err
	}
	defer r.release()
	ctx, cancel := context.WithTimeout(ctx, r.keeper.options.Timeout)
	defer cancel()
	if err := r.same(ctx, &r.root); err != nil {
		r.stale.Store(true)
		return queue, nil, err
	}
	return queue, nil, nil
}

func queued(sequence uint64) store.Slot {
	return store.Slot{Kind: store.Deferred, Coordinate: string(binary.BigEndian.AppendUint64(nil, sequence))}
}

// Tidy removes the hint of a slab of the lease's shard when nothing of the key is due in
// it, and tells whether it has.
func (e *Entity) Tidy(ctx context.Context, slab store.Slab) (bool, error) {
	r := e.record
	if err := r.acquire(ctx); err != nil {
		return false, err
	}
	defer r.release()
	if err := r.load(ctx, e.lease); err != nil {
		return false, err
	}
	stamp, needed := r.idle(slab)
	if needed {
		return false, nil
	}
	if err := e.lease.enter(); err != nil {
		return false, err
	}
	defer e.lease.leave()
	if err := e.lease.lasts(); err != nil {
		return false, err
	}
	ctx, cancel := r.keeper.bound(ctx)
	defer cancel()
	return true, r.keeper.options.Store.DropHint(ctx, e.lease.Shard(), slab, r.key.Key, stamp)
}

// skew is how far the clocks of owners may be apart.
const skew = 10 * time.Minute

// idle tells whether something is due in a slab. If not, the hint is not known any more,
// and a later one, by whatever owner, gets a higher stamp than the one that is returned.
func (r *record) idle(slab store.Slab) (stamp int64, needed bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	end := slab.Start + slab.Size
	if i, exists := find(r.timers, uint32(max(0, slab.Start))); exists || i < len(r.timers) && int64(r.timers[i].second) < end {
		return 0, true
	}
	if due := r.root.queue.Due / 1000; r.root.queue.Due > 0 && due >= slab.Start && due < end {
		return 0, true
	}
	delete(r.hints, slab)
	return max(r.root.stamp, r.keeper.options.Clock.Now().Add(-skew).UnixMicro()), false
}

// Rehome writes hints for all that is due under the lease's partition. It is done
// already where the record was last written under it.
func (e *Entity) Rehome(ctx context.Context) error {
	t := e.Begin(nil)
	defer t.Discard()
	t.changes.rehome = true
	return t.Commit(ctx, Mark{})
}

// Begin starts a transaction. of is the event that is handled: when it is a timer that
// fires, the transaction does not see it any more. nil: none.
func (e *Entity) Begin(of *event.Event) *Txn {
	t := &Txn{entity: e}
	t.changes.agenda.firing = never
	if of == nil {
		return t
	}
	if of.Kind == event.Timer {
		t.changes.agenda.firing = of.Timestamp / 1000
	}
	return t
}
