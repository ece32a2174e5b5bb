package entity

import (
	"context"
	"math"
	"sync"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/observe/trace"
	"prosody/core/store"
)

// Txn buffers what one attempt changes of its key. The methods for hosts return
// fault.Settled after Seal. It needs a Commit that succeeds, or a Discard. It is safe
// for use by many goroutines; Commit and Discard are for one.
type Txn struct {
	// Trace is kept with the timers that are scheduled, unless the call has a context of
	// its own.
	Trace trace.Context

	entity *Entity
	draft  *draft // of a Commit that failed; then the gate is held
	ended  bool

	mutex   sync.Mutex
	sealed  bool
	changes changes
}

// act does what a host asks for: in the buffer, or durably first.
func (t *Txn) act(ctx context.Context, immediate bool, seconds []int64, change func(*agenda)) error {
	for _, second := range seconds {
		if second < 0 || second > math.MaxUint32 {
			return fault.New(fault.Argument, "time is out of range: %d is not within 0 and %d seconds", second, math.MaxUint32)
		}
	}
	t.mutex.Lock()
	sealed, firing := t.sealed, t.changes.agenda.firing
	t.mutex.Unlock()
	if sealed {
		return errSealed()
	}
	if immediate {
		c := changes{agenda: agenda{firing: firing}}
		change(&c.agenda)
		if err := t.entity.record.now(ctx, t.entity.lease, &c); err != nil {
			return err
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !t.sealed {
		change(&t.changes.agenda)
	}
	return nil
}

func errSealed() error {
	return fault.New(fault.Settled, "the context is no longer valid: the event has already been processed")
}

// Schedule adds a timer; immediate: at once and durably.
func (t *Txn) Schedule(ctx context.Context, second int64, immediate bool) error {
	cause := t.cause(ctx)
	return t.act(ctx, immediate, []int64{second}, func(a *agenda) { a.schedule(uint32(second), cause) })
}

// Replace removes all timers and adds one.
func (t *Txn) Replace(ctx context.Context, second int64, immediate bool) error {
	cause := t.cause(ctx)
	return t.act(ctx, immediate, []int64{second}, func(a *agenda) {
		a.all()
		a.schedule(uint32(second), cause)
	})
}

// cause gives the trace context to keep with a timer, as text.
func (t *Txn) cause(ctx context.Context) string {
	return trace.Text(trace.First(trace.From(ctx), t.Trace))
}

// Unschedule removes a timer, if there is one.
func (t *Txn) Unschedule(ctx context.Context, second int64, immediate bool) error {
	return t.act(ctx, immediate, []int64{second}, func(a *agenda) { a.unschedule(uint32(second)) })
}

// Clear removes all timers.
func (t *Txn) Clear(ctx context.Context, immediate bool) error {
	return t.act(ctx, immediate, nil, (*agenda).all)
}

// Scheduled lists the seconds of the timers as the attempt sees them, ascending.
func (t *Txn) Scheduled(ctx context.Context) ([]int64, error) {
	r := t.entity.record
	if err := r.ensure(ctx, t.entity.lease); err != nil {
		return nil, err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.sealed {
		return nil, errSealed()
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return t.changes.agenda.view(r.timers), nil
}

// Seal ends the use by the host.
func (t *Txn) Seal() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.sealed = true
}

// Put buffers a row.
func (t *Txn) Put(put store.Put) error {
	limits := t.entity.record.keeper.options.Store.Limits()
	if size := len(put.Data); size > limits.MaxValue {
		return fault.New(fault.TooLarge, "a value has %d bytes; at most %d are allowed", size, limits.MaxValue)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	size := len(put.Data) + len(put.Name) + len(put.Coordinate)
	if old, found := t.changes.puts[put.Slot]; found {
		size -= len(old.Data) + len(old.Name) + len(old.Coordinate)
	}
	if t.changes.bytes+size > MaxCommit {
		return fault.New(fault.TooLarge, "an event changes more than %d bytes", MaxCommit)
	}
	t.changes.put(put)
	return nil
}

func (c *changes) put(put store.Put) {
	c.drop(put.Slot)
	if c.puts == nil {
		c.puts = map[store.Slot]store.Put{}
	}
	delete(c.deletes, put.Slot)
	c.puts[put.Slot] = put
	c.bytes += len(put.Data) + len(put.Name) + len(put.Coordinate)
}

// Delete buffers the removal of a row.
func (t *Txn) Delete(slot store.Slot) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.changes.remove(slot)
}

func (c *changes) remove(slot store.Slot) {
	c.drop(slot)
	if c.deletes == nil {
		c.deletes = map[store.Slot]struct{}{}
	}
	c.deletes[slot] = struct{}{}
}

// Erase buffers the removal of a range of rows. What is put later stays.
func (t *Txn) Erase(span store.Range) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.changes.erase(span)
}

func (c *changes) erase(span store.Range) {
	for slot := range c.puts {
		if span.Has(slot) {
			c.drop(slot)
		}
	}
	c.ranges = append(c.ranges, span)
}

func (c *changes) drop(slot store.Slot) {
	if old, found := c.puts[slot]; found {
		c.bytes -= len(old.Data) + len(old.Name) + len(old.Coordinate)
		delete(c.puts, slot)
	}
}

// Append buffers a row at the tail of the deferred queue, and gives its sequence.
func (t *Txn) Append(data []byte) (uint64, error) {
	queue := t.Queue()
	if err := t.Put(store.Put{Row: store.Row{Slot: queued(queue.Tail), Data: data}}); err != nil {
		return 0, err
	}
	sequence := queue.Tail
	queue.Tail++
	t.setQueue(queue)
	return sequence, nil
}

// Advance buffers the removal of the queue's head. Due and count begin anew.
func (t *Txn) Advance() {
	queue := t.Queue()
	if queue.Head == queue.Tail {
		return
	}
	t.Delete(queued(queue.Head))
	queue.Head, queue.Due, queue.Count = queue.Head+1, 0, 0
	t.setQueue(queue)
}

// Retry buffers when the head is to be retried, in ms, and how often it has failed.
func (t *Txn) Retry(due int64, count uint32) {
	queue := t.Queue()
	queue.Due, queue.Count = due, count
	t.setQueue(queue)
}

// Queue is the deferred queue as the transaction sees it. The record has to be loaded,
// as it is in an attempt.
func (t *Txn) Queue() Queue {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.changes.queue != nil {
		return *t.changes.queue
	}
	r := t.entity.record
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.root.queue
}

func (t *Txn) setQueue(queue Queue) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.changes.queue == nil {
		r := t.entity.record
		r.mutex.Lock()
		t.changes.base = r.root.queue
		r.mutex.Unlock()
	}
	t.changes.queue = &queue
}

// Dirty tells whether there is anything to commit.
func (t *Txn) Dirty() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.changes.dirty()
}

func (c *changes) dirty() bool {
	return !c.agenda.empty() || len(c.puts)+len(c.deletes)+len(c.ranges)+len(c.headers) > 0 || c.queue != nil
}

// Commit makes all of it durable, with the mark, in one write. Without changes the mark
// is written behind. After fault.Store it can be called again, and repeats the same
// write only. After fault.TooLarge or fault.Invalid nothing was written.
func (t *Txn) Commit(ctx context.Context, mark Mark) error {
	if t.ended {
		return nil
	}
	t.Seal()
	r, lease := t.entity.record, t.entity.lease
	if t.draft == nil {
		if done, err := t.light(mark); done || err != nil {
			t.ended = done
			return err
		}
		if err := r.acquire(ctx); err != nil {
			return err
		}
		draft, err := t.prepare(ctx, mark)
		if err != nil || draft == nil {
			r.release()
			t.ended = err == nil
			return err
		}
		t.draft = draft
	}
	if err := lease.enter(); err != nil {
		return err
	}
	err := r.write(ctx, t.draft)
	lease.leave()
	switch {
	case err == nil:
		r.install(t.draft)
		r.tell(t.draft)
	case final(err):
		r.mutex.Lock()
		r.flying = 0
		r.mutex.Unlock()
	default:
		return err
	}
	t.draft, t.ended = nil, err == nil
	r.release()
	return err
}

// final tells whether an error means that nothing was written and never will be.
func final(err error) bool {
	kind := fault.Of(err)
	return kind == fault.TooLarge || kind == fault.Invalid
}

// light notes a mark without changes; then nothing is left to commit.
func (t *Txn) light(mark Mark) (done bool, err error) {
	c := &t.changes
	if c.rehome {
		return false, nil
	}
	if mark.Event != nil && mark.Event.Kind == event.Timer {
		c.agenda.final = c.agenda.firing == mark.Event.Timestamp/1000
	}
	if c.dirty() {
		return false, nil
	}
	if mark.Event == nil || mark.Event.Offset < 0 || mark.Event.Kind != event.Message && mark.Event.Kind != event.Excise {
		return true, nil
	}
	return t.entity.record.note(t.entity.lease, mark)
}

// prepare is with the gate. Without a draft there is nothing to do.
func (t *Txn) prepare(ctx context.Context, mark Mark) (*draft, error) {
	r, lease := t.entity.record, t.entity.lease
	if err := lease.over(); err != nil {
		return nil, err
	}
	if err := r.load(context.WithoutCancel(ctx), lease); err != nil {
		return nil, err
	}
	if t.changes.rehome {
		r.mutex.Lock()
		home := r.root.homed && r.root.home == lease.name.Index && r.root.slab == r.keeper.slab || r.root.stamp == 0
		r.mutex.Unlock()
		if home {
			return nil, nil
		}
	}
	return r.prepare(lease, &t.changes, mark)
}

// Discard drops what is not committed. After a Commit that failed, nobody knows whether
// it was written: the record is read anew at its next use. It does nothing after a
// Commit that succeeded.
func (t *Txn) Discard() {
	t.Seal()
	if t.draft != nil {
		t.draft = nil
		t.entity.record.doubt()
		t.entity.record.release()
	}
	t.ended = true
}

// now makes changes durable at once.
func (r *record) now(ctx context.Context, lease *Lease, c *changes) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	if err := r.load(ctx, lease); err != nil {
		return err
	}
	if err := lease.enter(); err != nil {
		return err
	}
	defer lease.leave()
	d, err := r.prepare(lease, c, Mark{})
	if err != nil {
		return err
	}
	if d.light() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.timers, r.flying = d.shift.install(r.timers), 0
		r.changes++
		return nil
	}
	if err := r.write(ctx, d); err != nil {
		r.doubt()
		return err
	}
	r.install(d)
	r.tell(d)
	return nil
}
