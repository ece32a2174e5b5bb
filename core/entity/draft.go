package entity

import (
	"context"
	"slices"
	"time"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/store"
)

// changes are what one write is to change besides the notes that wait.
type changes struct {
	agenda  agenda
	puts    map[store.Slot]store.Put
	deletes map[store.Slot]struct{}
	ranges  []store.Range
	bytes   int
	base    Queue // the queue that the change of it rests on
	queue   *Queue
	rehome  bool
	headers map[string]Header
	done    []func()
}

// draft is one write. It stays the same however often it is tried.
type draft struct {
	lease  *Lease
	batch  store.Batch
	root   root
	shift  shift
	ids    []remembered
	notes  int // how many it makes durable
	moved  bool
	hints  []store.Slab // to be written first
	shown  int          // how many of them are
	asked  time.Time    // when the hints were listed
	change Change
	bare   bool     // it changes no header
	done   []func() // hear of it
	plan   *plan    // of a write that is too large for one batch
}

// margin keeps a slab's hint from counting as known near the slab's end: whoever clears
// the slab away then may not see a write that is under way.
const margin = 60

// prepare makes a draft; with the gate.
func (r *record) prepare(lease *Lease, c *changes, m Mark) (*draft, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	k := r.keeper
	if c.queue != nil && c.base != r.root.queue {
		return nil, fault.New(fault.Internal, "the deferred queue of a key has changed under an attempt")
	}
	now := k.options.Clock.Now()
	d := &draft{lease: lease, root: r.root, notes: len(r.notes)}
	r.last = max(now.UnixMicro(), r.last+2)
	d.batch.Stamp, d.root.stamp = r.last, r.last
	for _, n := range r.notes {
		if !n.lease.finished() {
			d.root.note(n.mark)
			d.remember(n.id, n.until, now)
		}
	}
	d.mark(k, m, now)
	if c.queue != nil {
		d.root.queue = *c.queue
		d.change.Moved = r.root.queue.Due != c.queue.Due || r.root.queue.Head != c.queue.Head
	}
	d.change.Due = d.root.queue.Due
	if err := d.schedule(r, &c.agenda); err != nil {
		return nil, err
	}
	d.moved = !d.root.homed || d.root.home != lease.name.Index || d.root.slab != k.slab
	d.root.homed, d.root.home, d.root.slab = true, lease.name.Index, k.slab
	d.announce(r, now, false)
	for _, put := range c.puts {
		// Where there are headers, they tell how long the cells stay.
		d.root.cells = d.root.cells || put.Kind == store.Cell && len(c.headers) == 0
		d.batch.Puts = append(d.batch.Puts, put)
	}
	for slot := range c.deletes {
		d.batch.Deletes = append(d.batch.Deletes, slot)
	}
	d.batch.Ranges = append(d.batch.Ranges, c.ranges...)
	d.label(r.root.headers, c.headers, now)
	d.bare, d.done = len(c.headers) == 0, c.done
	if err := d.seal(r, now); err != nil {
		return nil, err
	}
	r.flying = d.notes
	return d, nil
}

func (d *draft) mark(k *Keeper, m Mark, now time.Time) {
	if m.Event == nil || m.Event.Offset < 0 || m.Event.Kind != event.Message && m.Event.Kind != event.Excise {
		return
	}
	d.root.note(marked(m.Event))
	if m.ID && m.Event.HasID {
		d.remember(identify(k.options.Version, m.Event.ID), now.Add(k.options.TTL).Unix(), now)
	}
}

func (d *draft) remember(i id, until int64, now time.Time) {
	ttl := time.Unix(until, 0).Sub(now)
	if until == 0 || ttl <= 0 {
		return
	}
	d.ids = append(d.ids, remembered{i, until})
	d.root.ids = max(d.root.ids, until)
	d.batch.Puts = append(d.batch.Puts, i.put(until, d.batch.Stamp, ttl))
}

// schedule adds the rows of timers.
func (d *draft) schedule(r *record, a *agenda) error {
	if a.empty() {
		return nil
	}
	d.shift = a.apply(r.timers)
	d.change.Added, d.change.Removed = d.shift.added, d.shift.removed
	var count int
	d.root.seconds, count = d.shift.first(r.timers, maxInline)
	d.root.timers = int64(count)
	if count > MaxTimers && len(d.shift.added) > 0 {
		return fault.New(fault.TooLarge, "a key has at most %d timers", MaxTimers)
	}
	for _, t := range d.shift.puts {
		d.batch.Puts = append(d.batch.Puts, t.put())
	}
	const few = 16
	if n := len(d.shift.drops); n > few && a.clear && (a.final || a.firing == never) {
		d.batch.Ranges = append(d.batch.Ranges, store.Range{
			Kind: store.Timer,
			From: at(d.shift.drops[0]).Coordinate,
			To:   at(d.shift.drops[n-1]).Coordinate + "\x00",
		})
		return nil
	}
	for _, second := range d.shift.drops {
		d.batch.Deletes = append(d.batch.Deletes, at(second))
	}
	return nil
}

// announce lists the hints that have to be written first; anew: also those that were there.
func (d *draft) announce(r *record, now time.Time, anew bool) {
	k := r.keeper
	d.hints, d.shown, d.asked = nil, 0, now
	seen := map[store.Slab]struct{}{}
	need := func(second int64) {
		slab := k.cover(second)
		if _, known := r.hints[slab]; known && !d.moved && !anew && slab.Start+slab.Size > now.Unix()+margin {
			return
		}
		if _, listed := seen[slab]; !listed {
			seen[slab] = struct{}{}
			d.hints = append(d.hints, slab)
		}
	}
	for _, t := range d.shift.puts {
		need(int64(t.second))
	}
	if d.root.queue.Due > 0 && (d.moved || d.change.Moved) {
		need(d.root.queue.Due / 1000)
	}
	if !d.moved {
		return
	}
	drops := d.shift.drops
	for _, t := range r.timers {
		if len(drops) > 0 && drops[0] == t.second {
			drops = drops[1:]
			continue
		}
		need(int64(t.second))
	}
}

// seal encodes the root, and plans a write that is too large for one batch.
func (d *draft) seal(r *record, now time.Time) error {
	k := r.keeper
	limits := k.options.Store.Limits()
	for i := range d.batch.Puts {
		if size := len(d.batch.Puts[i].Data); size > limits.MaxValue {
			return fault.New(fault.TooLarge, "a value has %d bytes; at most %d are allowed", size, limits.MaxValue)
		}
	}
	d.batch.Root = d.root.encode()
	if !d.root.lasting() && limits.Retention > 0 {
		d.batch.RootTTL = max(limits.Retention, k.options.TTL, time.Duration(d.root.headed()-now.UnixMilli())*time.Millisecond)
	}
	if d.batch.Size(r.key) <= limits.MaxBatch {
		return nil
	}
	var err error
	d.plan, err = r.stage(d, limits, now)
	return err
}

// light tells that a draft without marks and queue changes nothing that is durable.
func (d *draft) light() bool {
	return d.notes == 0 && d.bare && len(d.batch.Puts)+len(d.batch.Deletes)+len(d.batch.Ranges) == 0
}

// write makes a draft durable; with the gate. It may be repeated after an error.
func (r *record) write(ctx context.Context, d *draft) (err error) {
	defer func() { r.keeper.wrote(err) }()
	// While the store was down, slabs may have become past and been cleared away.
	if now := r.keeper.options.Clock.Now(); now.Sub(d.asked) > margin*time.Second {
		r.mutex.Lock()
		d.announce(r, now, true)
		r.mutex.Unlock()
		if d.plan != nil {
			d.plan.slab, d.plan.shown = r.keeper.cover(now.Add(r.keeper.options.Recovery).Unix()), false
		}
	}
	stamp := max(d.batch.Stamp, d.asked.UnixMicro())
	for d.shown < len(d.hints) {
		if err := r.hint(ctx, d.lease, d.hints[d.shown], stamp); err != nil {
			return err
		}
		d.shown++
	}
	if d.plan != nil {
		return r.carry(ctx, d, stamp)
	}
	return r.apply(ctx, d.lease, d.batch)
}

func (r *record) hint(ctx context.Context, lease *Lease, slab store.Slab, stamp int64) error {
	if err := lease.lasts(); err != nil {
		return err
	}
	ctx, cancel := r.keeper.bound(ctx)
	defer cancel()
	return r.keeper.options.Store.AddHint(ctx, lease.Shard(), slab, r.key.Key, stamp, 0)
}

// apply writes a batch. That the lease lasts is looked at after the batch got its stamp, so
// that what others have written meanwhile has a later one.
func (r *record) apply(ctx context.Context, lease *Lease, batch store.Batch) error {
	if err := lease.lasts(); err != nil {
		return err
	}
	ctx, cancel := r.keeper.bound(ctx)
	defer cancel()
	return r.rows().Apply(batch, func() error { return r.keeper.options.Store.Apply(ctx, r.key, batch) })
}

// bound gives a write its time. A handler's end must not cut it off half-way; the
// deadline of a flush holds.
func (k *Keeper) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(k.options.Timeout)
	if given, ok := ctx.Deadline(); ok && given.Before(end) {
		end = given
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// install makes memory follow a draft that is durable; with the gate.
func (r *record) install(d *draft) {
	defer d.tell()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	k := r.keeper
	now := k.options.Clock.Now().Unix()
	r.root = d.root
	r.timers = d.shift.install(r.timers)
	for _, one := range d.ids {
		r.ids.add(one.id, one.until, now)
	}
	r.learn(d, now)
	r.notes = slices.Delete(r.notes, 0, d.notes)
	r.flying = 0
	r.changes++
	if len(r.notes) == 0 {
		r.notes = nil
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, lease := range slices.Clone(r.dirty) {
		if !slices.ContainsFunc(r.notes, func(n note) bool { return n.lease == lease }) {
			k.clean(r, lease)
		}
	}
}

// tell lets those know whose changes are durable.
func (d *draft) tell() {
	for _, done := range d.done {
		done()
	}
}

// learn keeps which hints are written. What is long over is forgotten.
func (r *record) learn(d *draft, now int64) {
	if d.moved {
		r.hints = nil
	}
	if len(d.hints) == 0 {
		return
	}
	if r.hints == nil {
		r.hints = map[store.Slab]struct{}{}
	}
	for _, slab := range d.hints {
		r.hints[slab] = struct{}{}
	}
	if len(r.hints) > 64 {
		for slab := range r.hints {
			if slab.Start+slab.Size < now {
				delete(r.hints, slab)
			}
		}
	}
}

// doubt makes the next use read the record anew; with the gate.
func (r *record) doubt() {
	r.stale.Store(true)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.flying = 0
}

// tell lets the observer know; with the gate, so that it hears in the order of commits.
func (r *record) tell(d *draft) {
	o := r.keeper.options.Observer
	if o != nil && (d.change.Moved || len(d.change.Added)+len(d.change.Removed) > 0) {
		o.Changed(d.lease, r.key.Key, d.change)
	}
}

// flush writes the notes that wait.
func (r *record) flush(ctx context.Context, lease *Lease) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	if err := r.load(ctx, lease); err != nil {
		return err
	}
	r.mutex.Lock()
	waiting := len(r.notes)
	r.mutex.Unlock()
	if waiting == 0 || lease.finished() {
		return nil
	}
	d, err := r.prepare(lease, &changes{agenda: agenda{firing: never}}, Mark{})
	if err != nil {
		return err
	}
	if err := r.write(ctx, d); err != nil {
		r.mutex.Lock()
		r.flying = 0
		r.mutex.Unlock()
		return err
	}
	r.install(d)
	r.tell(d)
	return nil
}
