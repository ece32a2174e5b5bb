package entity

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/store"
	"prosody/core/store/disk"
)

// record is what is known of a key. It holds what is durable, and the marks that are
// not written yet.
type record struct {
	keeper *Keeper
	key    store.Key
	gate   chan struct{} // held by the one that loads or writes
	stale  atomic.Bool   // what was loaded may not be trusted

	mutex   sync.Mutex
	loaded  bool
	last    int64 // the highest stamp used
	root    root
	timers  []timer
	ids     idset
	hints   map[store.Slab]struct{} // known to be written, under root.home
	notes   []note                  // by age
	flying  int                     // notes of a write that is under way
	shelf   Shelf
	mirror  *disk.Mirror // of the rows of collections
	tried   bool         // the disk cache was asked; under the gate
	changes uint64       // counts what the disk cache has to know

	// Under keeper.mutex.
	pins           int
	gone           bool // forgotten: another record may have taken its place
	size           int64
	leases, dirty  []*Lease
	next, previous *record
}

// note is a mark that is not written yet.
type note struct {
	lease *Lease
	mark  mark
	id    id
	until int64 // when the id is forgotten; 0: there is none
}

// maxNotes is the most notes of a key; more are written at once.
const maxNotes = 256

// acquire takes the gate.
func (r *record) acquire(ctx context.Context) error {
	select {
	case r.gate <- struct{}{}:
		return nil
	default:
	}
	select {
	case r.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Cancelled, context.Cause(ctx), "wait for the key's record")
	}
}

func (r *record) release() { <-r.gate }

// fresh tells whether memory can answer.
func (r *record) fresh() bool {
	if r.stale.Load() {
		return false
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.loaded
}

// ensure loads the record unless memory can answer.
func (r *record) ensure(ctx context.Context, lease *Lease) error {
	if r.fresh() {
		return nil
	}
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	return r.load(ctx, lease)
}

// load reads the record; with the gate.
func (r *record) load(ctx context.Context, lease *Lease) error {
	if r.fresh() {
		return nil
	}
	r.mutex.Lock()
	r.loaded = false
	last := r.last
	r.mutex.Unlock()
	r.stale.Store(false)
	loaded, kept := r.recall()
	if !kept {
		var err error
		if loaded, err = r.read(ctx, lease, last); err != nil {
			r.stale.Store(true)
			return err
		}
		loaded.mirror = r.mirrored(&loaded.root)
	}
	if kept {
		r.keeper.recalls.Add(1)
	}
	r.keeper.recognize(&loaded, lease)
	r.keep(&loaded, last)
	if !kept {
		r.found(lease)
	}
	return nil
}

// found lets the observer know what is due of a record that was read; with the gate. What
// is at home in another partition is for the one who has that.
func (r *record) found(lease *Lease) {
	o := r.keeper.options.Observer
	if o == nil || !r.root.homed || r.root.home != lease.name.Index || r.root.queue.Due == 0 && len(r.timers) == 0 {
		return
	}
	seconds := make([]int64, 0, len(r.timers))
	for _, t := range r.timers {
		seconds = append(seconds, int64(t.second))
	}
	o.Found(lease, r.key.Key, seconds, r.root.queue.Due)
}

// keep makes memory follow what was loaded; with the gate.
func (r *record) keep(loaded *content, last int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.shelf, r.mirror = nil, loaded.mirror
	r.changes++
	r.loaded, r.last = true, max(last, loaded.last, loaded.root.stamp)
	r.root, r.timers, r.ids, r.hints = loaded.root, loaded.timers, loaded.ids, loaded.hints
	now := r.keeper.options.Clock.Now().Unix()
	for _, n := range r.notes {
		if n.until > 0 && !n.lease.finished() {
			r.ids.add(n.id, n.until, now)
		}
	}
}

// content is what the store holds of a key.
type content struct {
	root   root
	timers []timer
	ids    idset
	hints  map[store.Slab]struct{}
	mirror *disk.Mirror
	last   int64 // the highest stamp used, where it is above that of the root
}

func (r *record) read(ctx context.Context, lease *Lease, last int64) (content, error) {
	var c content
	k := r.keeper
	ctx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	data, err := k.options.Store.Root(ctx, r.key)
	if err != nil {
		return c, err
	}
	if data == nil {
		c.root.version = k.version
		return c, nil
	}
	if c.root, err = decodeRoot(data); err != nil {
		return c, fault.Wrap(fault.Store, err, "read the root of a key")
	}
	if c.root.stage != (stage{}) {
		if err := r.settle(ctx, lease, &c.root, last); err != nil {
			return c, err
		}
	}
	if c.root.version != k.version {
		c.root.version, c.root.marks = k.version, nil
	}
	if c.timers, err = r.readTimers(ctx, &c.root); err != nil {
		return c, err
	}
	if now := k.options.Clock.Now().Unix(); c.root.ids > now {
		span := store.Range{Kind: store.Done}
		rows, more, err := k.options.Store.Scan(ctx, r.key, span, false, maxIDs)
		if err != nil && ctx.Err() != nil {
			return c, err
		}
		// Ids that cannot be listed can still be asked for, one by one.
		c.ids.more = more || err != nil
		if c.ids.fill(rows, now) > c.root.stamp {
			return c, errChanged
		}
	}
	return c, nil
}

// errChanged: a late write of a former owner came between two reads. Of what an event did
// only a part was seen; all of it is there when the record is read anew.
var errChanged = fault.New(fault.Store, "the record of the key has changed while it was read")

// recognize lists the hints that are written already.
func (k *Keeper) recognize(c *content, lease *Lease) {
	if !c.root.homed || c.root.home != lease.name.Index || c.root.slab != k.slab {
		return
	}
	for _, t := range c.timers {
		c.hint(k.cover(int64(t.second)))
	}
	if c.root.queue.Due > 0 {
		c.hint(k.cover(c.root.queue.Due / 1000))
	}
}

func (c *content) hint(slab store.Slab) {
	if c.hints == nil {
		c.hints = map[store.Slab]struct{}{}
	}
	c.hints[slab] = struct{}{}
}

// readTimers starts at what the root knows, so that it meets nothing that was deleted.
func (r *record) readTimers(ctx context.Context, root *root) ([]timer, error) {
	if root.timers == 0 {
		return nil, nil
	}
	timers := make([]timer, 0, root.timers)
	if int(root.timers) == len(root.seconds) {
		slots := make([]store.Slot, 0, len(root.seconds))
		for _, second := range root.seconds {
			slots = append(slots, at(second))
		}
		values, err := r.keeper.options.Store.Get(ctx, r.key, slots)
		if err != nil {
			return nil, err
		}
		for i, data := range values {
			if data == nil {
				r.keeper.options.Log.Error("the row of a timer is missing; the timer fires without its trace",
					"topic", r.key.Topic, "second", root.seconds[i])
			}
			timers = append(timers, decodeTimer(root.seconds[i], data))
		}
		return timers, nil
	}
	span := store.Range{Kind: store.Timer}
	if len(root.seconds) > 0 {
		span.From = at(root.seconds[0]).Coordinate
	}
	for {
		rows, more, err := r.keeper.options.Store.Scan(ctx, r.key, span, false, 1000)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if second, ok := instant(row.Coordinate); ok {
				timers = append(timers, decodeTimer(second, row.Data))
			}
		}
		if !more || len(rows) == 0 {
			return timers, r.same(ctx, root)
		}
		span.From = rows[len(rows)-1].Coordinate + "\x00"
	}
}

// same tells that the root is what it was before other rows were read.
func (r *record) same(ctx context.Context, read *root) error {
	data, err := r.keeper.options.Store.Root(ctx, r.key)
	if err != nil {
		return err
	}
	if now, err := decodeRoot(data); err != nil || now.stamp != read.stamp {
		return errChanged
	}
	return nil
}

// cover is the slab of a second.
func (k *Keeper) cover(second int64) store.Slab {
	return store.Slab{Start: second - second%k.slab, Size: k.slab}
}

// seen tells whether an event is known to be done. Unsure: its id has to be looked up.
func (r *record) seen(of *event.Event, ids bool) (seen, unsure bool, i id) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if of.Kind == event.Timer {
		_, exists := find(r.timers, uint32(of.Timestamp/1000))
		return !exists, false, i
	}
	m := marked(of)
	if slices.ContainsFunc(r.root.marks, func(old mark) bool { return old.covers(m) }) {
		return true, false, i
	}
	for j := len(r.notes) - 1; j >= 0; j-- {
		if r.notes[j].mark.covers(m) {
			return true, false, i
		}
	}
	if !ids || !of.HasID {
		return false, false, i
	}
	i = identify(r.keeper.options.Version, of.ID)
	if r.ids.has(i, r.keeper.options.Clock.Now().Unix()) {
		return true, false, i
	}
	return false, r.ids.more, i
}

func marked(of *event.Event) mark {
	return mark{partition: of.Partition, offset: of.Offset, latest: of.Timestamp}
}

// note keeps a mark to be written behind. False: there is no room; write it now.
func (r *record) note(lease *Lease, m Mark) (bool, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	k := r.keeper
	n := note{lease: lease, mark: marked(m.Event)}
	now := k.options.Clock.Now()
	if m.ID && m.Event.HasID {
		n.id = identify(k.options.Version, m.Event.ID)
		n.until = now.Add(k.options.TTL).Unix()
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err := lease.over(); err != nil {
		return false, err
	}
	if k.behind >= k.room && len(r.dirty) == 0 || len(r.notes) >= maxNotes {
		return false, nil
	}
	if n.until > 0 {
		r.ids.add(n.id, n.until, now.Unix())
	}
	if i := len(r.notes) - 1; i >= r.flying && r.notes[i].lease == lease && r.notes[i].mark.partition == n.mark.partition && n.until == 0 {
		r.notes[i].mark = r.notes[i].mark.with(n.mark)
	} else {
		r.notes = append(r.notes, n)
	}
	k.soil(r, lease)
	return true, nil
}

// weigh is about what the record needs in memory.
func (r *record) weigh() int64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	size := 640 + 2*len(r.key.Key) + 24*len(r.root.marks) + 4*len(r.root.seconds) +
		32*cap(r.timers) + r.ids.size() + 32*len(r.hints) + 80*cap(r.notes)
	for _, t := range r.timers {
		size += len(t.trace)
	}
	for _, header := range r.root.headers {
		size += 64 + len(header.Name) + len(header.Data)
	}
	total := int64(size) + r.mirror.Size()
	if r.shelf != nil {
		total += r.shelf.Size()
	}
	return total
}
