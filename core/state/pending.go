package state

import (
	"context"
	"time"

	"github.com/google/btree"

	"prosody/core/config"
	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/store"
)

// pending is what an attempt has changed of a collection and not committed.
type pending struct {
	touched    bool
	cleared    bool // nothing of what is durable is there any more
	cells      *btree.BTreeG[entry]
	bytes      int
	moved      bool // the bounds of the deque are these
	head, tail int64
}

func newPending() *pending { return &pending{cells: btree.NewG(16, before)} }

// cost is what a change counts against the bound of a commit, besides its bytes.
const cost = 48

func (b *base) price(one entry) int {
	return cost + len(b.definition.Name) + len(one.coordinate) + len(one.data)
}

// put buffers a cell, or the absence of one.
func (v *view) put(one entry) error {
	p, s := v.pending, v.session
	delta := v.price(one)
	if old, replaces := p.cells.Get(one); replaces {
		delta -= v.price(old)
	}
	if s.bytes+delta > entity.MaxCommit {
		return fault.New(fault.TooLarge, "an event changes more than %d bytes of state", entity.MaxCommit)
	}
	p.cells.ReplaceOrInsert(one)
	p.touched = true
	p.bytes += delta
	s.bytes += delta
	return nil
}

func (v *view) unput(coordinate string) {
	if old, found := v.pending.cells.Delete(entry{coordinate: coordinate}); found {
		v.pending.bytes -= v.price(old)
		v.session.bytes -= v.price(old)
	}
}

// empty drops all, also what is durable.
func (v *view) empty() {
	v.drop()
	v.pending.touched = true
	if v.definition.Kind != config.KindDeque {
		v.pending.cleared = true
	}
}

// drop forgets the changes.
func (b *base) drop() {
	b.session.bytes -= b.pending.bytes
	b.pending = newPending()
}

// find tells what is at a coordinate, and whether that is known. With data it is known
// only when the data are.
func (v *view) find(coordinate string, data bool) (cell, bool) {
	if one, found := v.pending.cells.Get(entry{coordinate: coordinate}); found {
		return one.at(v.now), true
	}
	if v.pending.cleared {
		return cell{}, true
	}
	if v.book.until > 0 && v.book.until <= v.now {
		return cell{}, true
	}
	if c, known := v.book.find(coordinate); known {
		if c = c.at(v.now); c.form != listed || !data {
			return c, true
		}
	}
	if v.extra == nil {
		return cell{}, false
	}
	if c, known := v.extra.cells[coordinate]; known {
		return c.at(v.now), true
	}
	if p := v.extra.page; p != nil && p.has(coordinate) {
		return p.find(coordinate).at(v.now), true
	}
	return cell{}, false
}

// lack notes a cell that has to be read.
func (v *view) lack(coordinate string) {
	if v.left == nil {
		v.left = &need{}
	}
	if v.left.span != nil {
		return
	}
	if v.extra == nil && keyed(v.definition.Kind) && v.book.small() {
		v.left.span, v.left.limit, v.left.cells = &span{open: true}, wholeCount+1, nil
		return
	}
	v.left.cells = append(v.left.cells, coordinate)
}

// until is when a cell ends that is written now.
func (v *view) until() int64 {
	if ttl := v.definition.TTL(); ttl > 0 {
		return v.now + ttl.Milliseconds()
	}
	return 0
}

// Commit makes the changes durable at once.
func (b *base) Commit(ctx context.Context) (Outcome, error) {
	return b.finish(ctx, func() (Outcome, error) {
		if !b.pending.touched {
			return NoOp, nil
		}
		return Applied, nil
	}, true)
}

// Rollback drops the changes since the last commit.
func (b *base) Rollback(ctx context.Context) (Outcome, error) {
	return b.finish(ctx, func() (Outcome, error) {
		if !b.pending.touched {
			return NoOp, nil
		}
		b.drop()
		return Applied, nil
	}, false)
}

// finish begins the end of the pending changes when no other end is under way.
func (b *base) finish(ctx context.Context, begin func() (Outcome, error), save bool) (Outcome, error) {
	s := b.session
	for {
		s.mutex.Lock()
		if s.over {
			s.mutex.Unlock()
			if save {
				return NoOp, errSettled()
			}
			return NoOp, nil
		}
		busy := b.busy
		if busy == nil {
			outcome, err := begin()
			if err != nil || outcome == NoOp || !save {
				s.mutex.Unlock()
				return outcome, err
			}
			if now(ctx) {
				s.mutex.Unlock()
				return NoOp, ErrPending
			}
			b.busy = make(chan struct{})
			s.mutex.Unlock()
			return outcome, b.save(ctx)
		}
		s.mutex.Unlock()
		if now(ctx) {
			return NoOp, ErrPending
		}
		if _, err := b.fetch(ctx, &need{wait: busy}); err != nil {
			return NoOp, err
		}
	}
}

// save writes the changes; busy is set.
func (b *base) save(ctx context.Context) (err error) {
	s := b.session
	saved := false
	defer func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if saved {
			b.drop()
		}
		close(b.busy)
		b.busy = nil
	}()
	if err := s.record.Load(ctx); err != nil {
		return err
	}
	part, err := b.part(nil)
	if err == nil && part != nil {
		err = s.record.Save(ctx, *part)
	}
	saved = err == nil
	return err
}

// part makes the change of the record that the pending changes are; nil when there is
// none. others are the bases of which the headers change with it.
func (b *base) part(others []*base) (*entity.Part, error) {
	s, p := b.session, b.pending
	if !p.touched {
		return nil, nil
	}
	known, _ := s.record.Shelf(newShelf).(*shelf)
	if known == nil {
		return nil, fault.New(fault.Internal, "the record of a key was forgotten during an attempt")
	}
	room := mostHeaders
	changed := map[string]bool{b.definition.Name: true}
	for _, other := range others {
		if other.header != nil {
			changed[other.header.Name] = true
			room -= len(other.header.Data)
		}
	}
	for _, header := range s.record.Headers() {
		if !changed[header.Name] {
			room -= len(header.Data)
		}
	}
	known.mutex.Lock()
	defer known.mutex.Unlock()
	book, err := known.book(b.definition.Kind, b.definition.Name)
	if err != nil {
		return nil, err
	}
	w := &writer{base: b, book: book, room: room, now: s.registry.options.Clock.Now().UnixMilli()}
	o := w.write()
	o.until = max(o.until, 0)
	if w.header == nil && book.form == 0 && len(w.part.Ranges)+len(w.part.Deletes) == 0 {
		return nil, nil
	}
	b.header = &entity.Header{Name: b.definition.Name, Data: w.header, Until: o.until}
	w.part.Headers = []entity.Header{*b.header}
	w.part.Done = func() { b.durable(p, o) }
	return &w.part, nil
}

// durable makes memory follow a change.
func (b *base) durable(p *pending, o outline) {
	known, _ := b.session.record.Shelf(newShelf).(*shelf)
	if known == nil {
		return
	}
	known.mutex.Lock()
	defer known.mutex.Unlock()
	book, err := known.book(b.definition.Kind, b.definition.Name)
	if err != nil {
		return
	}
	book.merge(p, o)
	if known.bytes.Load() > b.session.registry.options.Bytes {
		book.shed()
	}
}

// writer turns pending changes into rows and a header.
type writer struct {
	*base
	book   *book
	room   int // bytes for the header
	now    int64
	part   entity.Part
	header []byte
}

func (w *writer) write() outline {
	switch w.definition.Kind {
	case config.KindValue:
		return w.value()
	case config.KindDeque:
		return w.deque()
	}
	return w.keyed()
}

func (w *writer) put(coordinate string, c cell) {
	put := store.Put{Row: store.Row{Slot: slot(w.definition.Name, w.section(), coordinate), Data: c.encode()}}
	if c.until > 0 {
		// The row outlives the cell a little; what counts is the end in its data.
		put.TTL = max(time.Duration(c.until-w.now)*time.Millisecond, 0) + time.Second
	}
	w.part.Puts = append(w.part.Puts, put)
}

func (w *writer) remove(coordinate string) {
	w.part.Deletes = append(w.part.Deletes, slot(w.definition.Name, w.section(), coordinate))
}

// erase removes [from, to), or from to the end.
func (w *writer) erase(from, to string, open bool) {
	span := span{from: from, to: to, open: open}
	w.part.Ranges = append(w.part.Ranges, span.rows(w.definition.Name))
}

func (w *writer) value() outline {
	one, found := w.pending.cells.Get(entry{})
	if !found {
		if w.book.form == apart {
			w.remove("")
		}
		return outline{}
	}
	if len(one.data) <= mostInline && len(one.data) < w.room {
		if w.book.form == apart {
			w.remove("")
		}
		w.header = append([]byte{inline}, one.data...)
		return outline{form: inline, until: one.until, value: one.cell}
	}
	w.put("", one.cell)
	w.header = appendSize([]byte{apart}, len(one.data))
	return outline{form: apart, until: one.until, value: cell{until: one.until, size: len(one.data), form: listed}}
}

func (w *writer) keyed() outline {
	p, b := w.pending, w.book
	over := b.until > 0 && b.until <= w.now
	fresh := p.cleared || b.form == 0 || over
	until := int64(-1)
	if !fresh {
		until = b.until
	}
	p.cleared = p.cleared || over
	if b.form != 0 && p.cleared {
		w.erase("", "", true)
	}
	p.cells.Ascend(func(one entry) bool {
		if one.form == absent {
			if known, sure := b.find(one.coordinate); !fresh && (!sure || known.form != absent) {
				w.remove(one.coordinate)
			}
			return true
		}
		w.put(one.coordinate, one.cell)
		if until < 0 {
			until = one.until
		} else {
			until = later(until, one.until)
		}
		return true
	})
	o := outline{form: untracked, until: until}
	if !fresh && !b.complete {
		w.header = []byte{untracked}
		return o
	}
	list, count := w.list(fresh)
	switch {
	case count == 0:
		return outline{}
	case list != nil:
		o.form, w.header = tracked, list
	default:
		w.header = []byte{untracked}
	}
	return o
}

// list makes a list of the keys after the changes, and tells whether there are any. It is
// nil when they are too many.
func (w *writer) list(fresh bool) (list []byte, count int) {
	most, limit := min(mostTracked, w.room), w.definition.Keys()
	list = []byte{tracked}
	add := func(one entry) bool {
		if one.at(w.now).form == absent {
			return true
		}
		if count++; count > limit {
			list = nil
			return false
		}
		if list = appendKey(list, one); len(list) > most {
			list = nil
			return false
		}
		return true
	}
	if fresh {
		w.pending.cells.Ascend(add)
		return list, count
	}
	// Both trees in order; what is pending goes before what is durable.
	var changed []entry
	w.pending.cells.Ascend(func(one entry) bool { changed = append(changed, one); return true })
	full := false
	w.book.cells.Ascend(func(one entry) bool {
		for len(changed) > 0 && changed[0].coordinate < one.coordinate {
			if full = !add(changed[0]); full {
				return false
			}
			changed = changed[1:]
		}
		if len(changed) > 0 && changed[0].coordinate == one.coordinate {
			one, changed = changed[0], changed[1:]
		}
		full = !add(one)
		return !full
	})
	for ; !full && len(changed) > 0; changed = changed[1:] {
		full = !add(changed[0])
	}
	return list, count
}

func (w *writer) deque() outline {
	p, b := w.pending, w.book
	old, end := b.bounds(w.now)
	if b.head != b.tail && old == end {
		w.erase(index(b.head), index(b.tail), false) // it is over
	}
	head, tail := old, end
	if p.moved {
		head, tail = p.head, p.tail
	}
	w.trim(old, min(head, end))
	w.trim(max(tail, old), end)
	until := int64(-1)
	if old != end {
		until = b.until
	}
	// What is outside was passed by because it was over.
	p.cells.AscendRange(entry{coordinate: index(head)}, entry{coordinate: index(tail)}, func(one entry) bool {
		w.put(one.coordinate, one.cell)
		if until < 0 {
			until = one.until
		} else {
			until = later(until, one.until)
		}
		return true
	})
	if head == tail {
		return outline{}
	}
	w.header = encodeLine(head, tail)
	return outline{form: line, until: until, head: head, tail: tail}
}

// trim removes [from, to) of a deque.
func (w *writer) trim(from, to int64) {
	switch {
	case from >= to:
	case from+1 == to:
		w.remove(index(from))
	default:
		w.erase(index(from), index(to), false)
	}
}
