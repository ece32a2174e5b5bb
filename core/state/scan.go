package state

import (
	"context"
	"math"
	"sort"

	"prosody/core/config"
	"prosody/core/fault"
)

// Scan gives the entries of a collection, some at a time. It sees what the attempt has
// changed when it gets there. Calls that come together are served one after another.
type Scan struct {
	base     *base
	gate     chan struct{}
	backward bool
	bare     bool // without items
	left     int64
	closed   bool // under the gate

	// Of a map or set: what is left of the range. Of a deque: the same, once begun.
	from, to string
	open     bool
	page     *page

	positions *positions // of a deque
}

// positions of a deque, with indexes from the front.
type positions struct {
	begun        bool
	given        bool   // an item; the range stays then
	shelf        *shelf // that the range is from
	first, front int64
	last         int64 // exclusive
}

// Scan begins a scan of the keys.
func (h *keys) Scan(query Query) (*Scan, error) {
	s, err := begin(h.base, query.Backward, query.Limit)
	if err != nil {
		return nil, err
	}
	s.bare = query.Keys || h.definition.Kind == config.KindSet
	s.from, s.to, s.open = query.bounds()
	return s, nil
}

func begin(b *base, backward bool, limit int64) (*Scan, error) {
	if limit < 0 {
		return nil, fault.New(fault.Argument, "limit must be at least 1")
	}
	if limit == 0 {
		limit = math.MaxInt64
	}
	return &Scan{base: b, gate: make(chan struct{}, 1), backward: backward, left: limit}, nil
}

// bounds are the half-open range of the keys that are wanted.
func (q *Query) bounds() (from, to string, open bool) {
	open = true
	low := func(key string, exclusive bool) {
		if exclusive {
			key += "\x00"
		}
		from = max(from, key)
	}
	high := func(key string, exclusive bool) {
		if !exclusive {
			key += "\x00"
		}
		if open || key < to {
			to, open = key, false
		}
	}
	if q.Prefix != "" {
		low(q.Prefix, false)
		high(q.Prefix+"\xff", true) // no UTF-8 has this byte
	}
	if q.Start != nil {
		low(*q.Start, false)
	}
	if q.Stop != nil {
		high(*q.Stop, true)
	}
	first, last := low, high
	if q.Backward {
		first, last = high, low
	}
	if q.First != nil {
		first(q.First.Key, q.First.Exclusive)
	}
	if q.Last != nil {
		last(q.Last.Key, q.Last.Exclusive)
	}
	return from, to, open
}

// Scan begins a scan of the items.
func (h *Deque) Scan(span Span) (*Scan, error) {
	s, err := begin(h.base, span.Backward, span.Limit)
	if err != nil {
		return nil, err
	}
	p := &positions{last: math.MaxInt64}
	if err := span.limits(p); err != nil {
		return nil, err
	}
	s.positions = p
	return s, nil
}

// limits sets the positions that are wanted.
func (s *Span) limits(p *positions) error {
	bad := false
	low := func(at int64, exclusive bool) {
		bad = bad || at < 0
		if exclusive && at < math.MaxInt64 {
			at++
		}
		p.first = max(p.first, at)
	}
	high := func(at int64, exclusive bool) {
		bad = bad || at < 0
		if !exclusive && at < math.MaxInt64 {
			at++
		}
		p.last = min(p.last, at)
	}
	if s.Start != nil {
		low(*s.Start, false)
	}
	if s.Stop != nil {
		high(*s.Stop, true)
	}
	first, last := low, high
	if s.Backward {
		first, last = high, low
	}
	if s.First != nil {
		first(s.First.Index, s.First.Exclusive)
	}
	if s.Last != nil {
		last(s.Last.Index, s.Last.Exclusive)
	}
	if bad {
		return fault.New(fault.Argument, "a position must not be negative")
	}
	return nil
}

// Next gives up to most entries, at least one unless the scan is over. Fewer than most
// does not mean that it is.
func (s *Scan) Next(ctx context.Context, most int) ([]Entry, error) {
	if now(ctx) {
		select {
		case s.gate <- struct{}{}:
		default:
			return nil, ErrPending
		}
	} else {
		select {
		case s.gate <- struct{}{}:
		case <-ctx.Done():
			return nil, fault.Wrap(fault.Cancelled, context.Cause(ctx), "wait for a scan")
		}
	}
	defer func() { <-s.gate }()
	if s.closed {
		return nil, fault.New(fault.Settled, "state cursor used after it was closed")
	}
	entries, err := act(ctx, s.base, false, func(v *view) ([]entry, error) {
		if v.extra != nil && v.extra.page != nil {
			s.page = v.extra.page
		}
		if s.page != nil && (s.page.shelf != v.book.shelf || s.page.version != v.book.version) {
			s.page = nil
		}
		return v.collect(s, most), nil
	})
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	return s.give(ctx, entries)
}

// give makes entries of cells and moves on. After an error the scan is where it was, or
// behind what it could read.
func (s *Scan) give(ctx context.Context, cells []entry) ([]Entry, error) {
	made := make([]Entry, 0, len(cells))
	var items []Item
	if !s.bare {
		contents := make([]cell, len(cells))
		for i, one := range cells {
			contents[i] = one.cell
		}
		var err error
		if items, err = s.base.items(ctx, contents); err != nil && len(items) == 0 {
			return nil, err
		}
		cells = cells[:len(items)]
	}
	for i, one := range cells {
		next := Entry{Key: one.coordinate}
		if s.positions != nil {
			next.Key, next.Index = "", number(one.coordinate)-s.positions.front
			s.positions.given = true
		}
		if !s.bare {
			next.Item = items[i]
		}
		made = append(made, next)
		s.left--
		s.pass(one.coordinate)
	}
	return made, nil
}

// pass leaves a coordinate behind.
func (s *Scan) pass(coordinate string) {
	switch {
	case s.backward:
		s.to, s.open = coordinate, false
	case s.positions != nil:
		s.from = index(number(coordinate) + 1)
	default:
		s.from = coordinate + "\x00"
	}
}

// Close ends the scan.
func (s *Scan) Close() {
	s.gate <- struct{}{}
	s.closed, s.page = true, nil
	<-s.gate
}

// collect finds the next cells, or notes what it lacks when there is none at hand.
func (v *view) collect(s *Scan, most int) []entry {
	cursor := *s // of this call
	if s.positions != nil && !v.begin(&cursor, s) {
		return nil
	}
	most = int(min(int64(max(most, 1)), s.left))
	var cells []entry
	for len(cells) < most && (cursor.open || cursor.from < cursor.to) {
		one, there, known := v.next(&cursor)
		if !known {
			if len(cells) == 0 {
				v.left = &need{span: &span{from: cursor.from, to: cursor.to, open: cursor.open, backward: cursor.backward}}
				// What comes before is not asked for again.
				s.from, s.to, s.open = cursor.from, cursor.to, cursor.open
			}
			break
		}
		if !there {
			break
		}
		cells = append(cells, one)
		cursor.pass(one.coordinate)
	}
	return cells
}

// begin fixes the range of a scan of a deque, which ends early when it shrinks.
func (v *view) begin(cursor, s *Scan) bool {
	head, tail := v.bounds()
	if p := s.positions; !p.begun || !p.given && p.shelf != v.book.shelf {
		p.begun, p.front, p.shelf = true, head, v.book.shelf
		size := tail - head
		s.from, s.to = index(head+min(p.first, size)), index(head+min(p.last, size))
		cursor.from, cursor.to = s.from, s.to
	}
	cursor.from, cursor.to = max(cursor.from, index(head)), min(cursor.to, index(tail))
	return cursor.from < cursor.to
}

// next finds the next cell of a range. Not known: it has to be read first, from where the
// cursor is then.
func (v *view) next(s *Scan) (one entry, there, known bool) {
	for s.open || s.from < s.to {
		written, writes := v.written(s)
		stored, stores, edge, sure := v.stored(s)
		switch {
		case writes && (stores && !s.after(written.coordinate, stored.coordinate) || !stores && (sure || s.beside(written.coordinate, edge) || v.book.form == line && written.coordinate == s.neighbour())):
			if written = (entry{written.coordinate, written.at(v.now)}); written.form != absent {
				return written, true, true
			}
			s.pass(written.coordinate)
		case stores:
			if stored = (entry{stored.coordinate, stored.at(v.now)}); stored.form == absent {
				s.pass(stored.coordinate)
				continue
			}
			if stored.form == listed && !s.bare {
				s.reach(stored.coordinate)
				return entry{}, false, false
			}
			return stored, true, true
		case !sure:
			s.skip(edge)
			return entry{}, false, false
		default:
			return entry{}, false, true
		}
	}
	return entry{}, false, true
}

// after tells whether the first coordinate comes after the second.
func (s *Scan) after(a, b string) bool {
	if s.backward {
		return a < b
	}
	return a > b
}

// beside tells whether a coordinate is in the part of the range that ends at an edge.
func (s *Scan) beside(coordinate, edge string) bool {
	if s.backward {
		return coordinate >= edge
	}
	return coordinate < edge
}

// reach leaves all before a coordinate behind.
func (s *Scan) reach(coordinate string) {
	if s.backward {
		s.to, s.open = coordinate+"\x00", false
	} else {
		s.from = coordinate
	}
}

// skip leaves all up to an edge behind.
func (s *Scan) skip(edge string) {
	if s.backward {
		if s.open || edge < s.to {
			s.to, s.open = edge, false
		}
		return
	}
	if s.positions != nil && len(edge) > 8 { // behind an index
		edge = index(number(edge[:8]) + 1)
	}
	s.from = max(s.from, edge)
}

// written finds the next change of the attempt in a range.
func (v *view) written(s *Scan) (one entry, found bool) {
	take := func(it entry) bool {
		one, found = it, true
		return false
	}
	tree := v.pending.cells
	switch {
	case !s.backward && s.open:
		tree.AscendGreaterOrEqual(entry{coordinate: s.from}, take)
	case !s.backward:
		tree.AscendRange(entry{coordinate: s.from}, entry{coordinate: s.to}, take)
	default:
		one, found = lastBelow(tree, s)
	}
	return one, found
}

// stored finds the next durable cell of a range. Without one the durable part is known up
// to the edge, or, sure, to the end.
func (v *view) stored(s *Scan) (one entry, found bool, edge string, sure bool) {
	b := v.book
	if v.pending.cleared || b.form == 0 || b.until > 0 && b.until <= v.now {
		return one, false, "", true
	}
	if b.form != line && b.complete {
		one, found = fromTree(b, s)
		// A page that was read for it has the data.
		if found && one.form == listed && s.page != nil && s.page.has(one.coordinate) {
			one.cell = s.page.find(one.coordinate)
		}
		return one, found, "", true
	}
	if b.form == line {
		part := *s
		part.from, part.to = max(s.from, index(b.head)), min(s.to, index(b.tail))
		if part.from >= part.to {
			return one, false, "", true
		}
		if one, found = b.cells.Get(entry{coordinate: part.neighbour()}); found {
			return one, true, "", true
		}
		s = &part
	}
	edge = s.from
	if s.backward {
		edge = s.to
	}
	if p := s.page; p != nil && p.holds(s) {
		return p.next(s)
	}
	if s.backward && s.open {
		edge = "\xff" // nothing is above
	}
	return one, false, edge, false
}

// neighbour is the very next index of a range of a deque.
func (s *Scan) neighbour() string {
	if s.backward {
		return index(number(s.to) - 1)
	}
	return s.from
}

// holds tells whether a page has what comes next in a range.
func (p *page) holds(s *Scan) bool {
	if s.backward {
		return s.open && p.open || !s.open && s.to > p.from && (p.open || s.to <= p.to)
	}
	return p.has(s.from)
}

// next finds the next row of a range.
func (p *page) next(s *Scan) (one entry, found bool, edge string, sure bool) {
	if s.backward {
		at := len(p.rows)
		if !s.open {
			at = p.search(s.to)
		}
		if at > 0 && p.rows[at-1].coordinate >= s.from {
			return p.rows[at-1], true, "", true
		}
		return one, false, p.from, p.from <= s.from
	}
	at := p.search(s.from)
	if at < len(p.rows) && (s.open || p.rows[at].coordinate < s.to) {
		return p.rows[at], true, "", true
	}
	return one, false, p.to, p.open || !s.open && p.to >= s.to
}

func (p *page) search(coordinate string) int {
	return sort.Search(len(p.rows), func(i int) bool { return p.rows[i].coordinate >= coordinate })
}

func (p *page) find(coordinate string) cell {
	if at := p.search(coordinate); at < len(p.rows) && p.rows[at].coordinate == coordinate {
		return p.rows[at].cell
	}
	return cell{}
}
