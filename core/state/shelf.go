package state

import (
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"prosody/core/config"
	"prosody/core/entity"
)

// shelf is what is known in memory of the durable collections of a key.
type shelf struct {
	bytes atomic.Int64

	mutex   sync.Mutex
	headers map[string]entity.Header // of collections without a book
	books   map[string]*book
}

func newShelf(headers []entity.Header) entity.Shelf {
	s := &shelf{headers: make(map[string]entity.Header, len(headers)), books: map[string]*book{}}
	for _, header := range headers {
		s.headers[header.Name] = header
	}
	return s
}

// Size is about the bytes in use.
func (s *shelf) Size() int64 { return s.bytes.Load() }

// book is what is known of one collection.
type book struct {
	shelf   *shelf
	version uint64 // changes with each change of the durable content
	outline        // as the header says
	cells   *btree.BTreeG[entry]
	bytes   int64
	// complete: what has no cell is absent, of a map. reached: so is what is below it.
	complete bool
	reached  string
	width    int // bytes of a usual row; 0: not known
}

// weight is about what a cell needs in memory.
func (e entry) weight() int64 { return int64(96 + len(e.coordinate) + len(e.data)) }

// book gives what is known of a collection.
func (s *shelf) book(kind, name string) (*book, error) {
	if found := s.books[name]; found != nil {
		return found, nil
	}
	made := &book{shelf: s, cells: btree.NewG(16, before)}
	if header, exists := s.headers[name]; exists {
		var err error
		if made.outline, err = decodeOutline(kind, header.Data, header.Until); err != nil {
			return nil, err
		}
	}
	delete(s.headers, name)
	s.books[name] = made
	made.begin()
	return made, nil
}

// begin sets the cells to what the header tells.
func (b *book) begin() {
	b.cells.Clear(false)
	b.shelf.bytes.Add(-b.bytes)
	b.bytes, b.reached = 0, ""
	b.complete = b.form != untracked
	switch b.form {
	case inline, apart:
		b.keep(entry{cell: b.value})
	case tracked:
		for _, one := range b.keys {
			b.keep(one)
		}
		b.keys = nil
	}
}

func (b *book) keep(one entry) {
	delta := one.weight()
	if old, replaced := b.cells.ReplaceOrInsert(one); replaced {
		delta -= old.weight()
	}
	b.bytes += delta
	b.shelf.bytes.Add(delta)
}

func (b *book) forget(coordinate string) {
	if old, found := b.cells.Delete(entry{coordinate: coordinate}); found {
		b.bytes -= old.weight()
		b.shelf.bytes.Add(-old.weight())
	}
}

// shed drops what can be read again.
func (s *shelf) shed() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, b := range s.books {
		b.shed()
	}
}

// shed drops what can be read again. Of a map whose keys are listed they stay.
func (b *book) shed() {
	if b.form != tracked {
		b.begin()
		return
	}
	var all []entry
	b.cells.Ascend(func(one entry) bool {
		if one.form == present && one.size > 0 {
			one.form, one.data = listed, nil
			all = append(all, one)
		}
		return true
	})
	for _, one := range all {
		b.keep(one)
	}
}

// find tells what is known of a coordinate.
func (b *book) find(coordinate string) (cell, bool) {
	if one, found := b.cells.Get(entry{coordinate: coordinate}); found {
		return one.cell, true
	}
	return cell{}, b.form == 0 || b.form != line && (b.complete || coordinate < b.reached)
}

// bounds are the indexes of a deque, at a time.
func (b *book) bounds(now int64) (head, tail int64) {
	if b.until > 0 && b.until <= now {
		return b.tail, b.tail
	}
	return b.head, b.tail
}

// take keeps what was read from the store.
func (b *book) take(f *fetched) {
	if f.version != b.version || f.shelf != b.shelf {
		return
	}
	for coordinate, c := range f.cells {
		if c.form == absent && b.complete && b.form != line {
			b.forget(coordinate)
		} else {
			b.keep(entry{coordinate, c})
		}
	}
	p := f.page
	if p == nil {
		return
	}
	bytes := 0
	for _, one := range p.rows {
		b.keep(one)
		bytes += len(one.data) + len(one.coordinate)
	}
	if len(p.rows) > 0 {
		b.width = max(1, bytes/len(p.rows))
	}
	if b.form == line {
		return
	}
	switch {
	case p.from > b.reached:
	case p.open:
		b.complete = true
	default:
		b.reached = max(b.reached, p.to)
	}
}

// batch is how many rows to read at once.
func (b *book) batch() int {
	const bytes, first, least, most = 1 << 20, 32, 2, 1000
	if b.width == 0 {
		return first
	}
	return min(max(bytes/b.width, least), most)
}

// small tells that a map can be read as a whole.
func (b *book) small() bool {
	if b.form != tracked || !b.complete {
		return false
	}
	size, count, unread := 0, 0, 0
	b.cells.Ascend(func(one entry) bool {
		if one.form == listed {
			unread++
		}
		size += one.size
		count++
		return size <= wholeBytes && count <= wholeCount
	})
	return unread > 1 && size <= wholeBytes && count <= wholeCount
}

// What is read as a whole at the first touch.
const wholeBytes, wholeCount = 64 << 10, 128

// merge makes the book follow a change that is durable.
func (b *book) merge(p *pending, o outline) {
	b.version++
	deque := o.form == line || b.form == line
	b.outline = o
	if p.cleared {
		b.cells.Clear(false)
		b.shelf.bytes.Add(-b.bytes)
		b.bytes, b.complete, b.reached = 0, true, ""
	}
	p.cells.Ascend(func(one entry) bool {
		if one.form == absent && (b.complete || deque) {
			b.forget(one.coordinate)
		} else {
			b.keep(one)
		}
		return true
	})
	if deque {
		b.trim()
	}
	if o.form == 0 {
		b.begin()
	}
}

// trim drops the cells outside of a deque.
func (b *book) trim() {
	var out []string
	low, high := entry{coordinate: index(b.head)}, entry{coordinate: index(b.tail)}
	b.cells.AscendLessThan(low, func(one entry) bool { out = append(out, one.coordinate); return true })
	b.cells.AscendGreaterOrEqual(high, func(one entry) bool { out = append(out, one.coordinate); return true })
	for _, coordinate := range out {
		b.forget(coordinate)
	}
}

func keyed(kind string) bool { return kind == config.KindMap || kind == config.KindSet }
