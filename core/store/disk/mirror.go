package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/syndtr/goleveldb/leveldb"

	"prosody/core/store"
)

// Mirror keeps rows of collections as the store has them. It belongs to one key as it was
// loaded once. Reads may come together; writes come one after another. A nil one keeps
// nothing.
//
// It knows single rows, and ranges in which there is nothing but the rows that it has.
type Mirror struct {
	cache *Cache

	mutex      sync.Mutex
	generation *generation // nil: nothing is written yet
	id         uint64      // begins the keys of the rows
	fresh      bool        // collections are known as a whole, but for the old ones
	old        []string    // ascending
	spans      map[string][]span
	changes    uint64 // counts the writes; odd: one is under way
}

// Mirror makes the mirror of a key that was just loaded. old are the collections that are
// there, ascending: nothing is known of them yet, and all of the others.
func (c *Cache) Mirror(old []string) *Mirror {
	if c == nil {
		return nil
	}
	return &Mirror{cache: c, id: c.last.Add(1), fresh: true, old: old}
}

// Blind makes a mirror that knows nothing.
func (c *Cache) Blind() *Mirror {
	m := c.Mirror(nil)
	if m != nil {
		m.fresh = false
	}
	return m
}

// Size is about the bytes in memory.
func (m *Mirror) Size() int64 {
	if m == nil {
		return 0
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	size := int64(128)
	for _, name := range m.old {
		size += int64(16 + len(name))
	}
	for name, spans := range m.spans {
		size += int64(48 + len(name))
		for _, s := range spans {
			size += int64(40 + len(s.from) + len(s.to))
		}
	}
	return size
}

// known are the ranges that the mirror knows of a collection; under the mutex.
func (m *Mirror) known(name string) []span {
	if m.fresh {
		if _, old := slices.BinarySearch(m.old, name); !old {
			return []span{{open: true}}
		}
	}
	return m.spans[name]
}

// snapshot is what a read needs. Without a generation there are no rows.
func (m *Mirror) snapshot(name string) (g *generation, id uint64, spans []span, changes uint64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.generation, m.id, m.known(name), m.changes
}

// Kept gives rows of one collection where all of them are known without the store; nil where
// there is none.
func (m *Mirror) Kept(slots []store.Slot) ([][]byte, bool) {
	if m == nil || len(slots) == 0 || slots[0].Kind != store.Cell {
		return nil, false
	}
	values := make([][]byte, len(slots))
	g, id, spans, _ := m.snapshot(slots[0].Name)
	for i, slot := range slots {
		var known bool
		if values[i], known = m.find(g, id, spans, slot); !known {
			return nil, false
		}
	}
	m.cache.rows.note(len(slots), 0)
	return values, true
}

func (m *Mirror) find(g *generation, id uint64, spans []span, slot store.Slot) (value []byte, known bool) {
	if g != nil {
		packed, ok := m.cache.read(g, place(id, slot.Name, slot.Coordinate))
		if !ok {
			return nil, false
		}
		if len(packed) > 0 {
			return content(packed), true
		}
	}
	_, known = around(spans, slot.Coordinate)
	return nil, known
}

// Get gives rows of one kind as Store.Get does. read asks the store for those that are not
// known.
func (m *Mirror) Get(ctx context.Context, slots []store.Slot, read func(context.Context, []store.Slot) ([][]byte, error)) ([][]byte, error) {
	if m == nil || len(slots) == 0 || slots[0].Kind != store.Cell {
		return read(ctx, slots)
	}
	values := make([][]byte, len(slots))
	var missing []int
	var asked []store.Slot
	_, _, _, changes := m.snapshot("")
	for i, slot := range slots {
		g, id, spans, _ := m.snapshot(slot.Name)
		var known bool
		if values[i], known = m.find(g, id, spans, slot); !known {
			missing, asked = append(missing, i), append(asked, slot)
		}
	}
	m.cache.rows.note(len(slots)-len(missing), len(missing))
	if len(missing) == 0 {
		return values, nil
	}
	found, err := read(ctx, asked)
	if err != nil {
		return nil, err
	}
	batch := &leveldb.Batch{}
	id := m.identity()
	for i, data := range found {
		values[missing[i]] = data
		packed := absent
		if data != nil {
			packed = present(data)
		}
		batch.Put(place(id, asked[i].Name, asked[i].Coordinate), packed)
	}
	m.learn(changes, id, batch, "", nil)
	return values, nil
}

// Scan gives rows as Store.Scan does. read asks the store when the mirror knows none of them.
func (m *Mirror) Scan(ctx context.Context, over store.Range, backward bool, limit int, read func(context.Context) ([]store.Row, bool, error)) ([]store.Row, bool, error) {
	if m == nil || over.Kind != store.Cell {
		return read(ctx)
	}
	rows, more, changes, known := m.scan(over, backward, limit)
	if known {
		m.cache.rows.note(1, 0)
		return rows, more, nil
	}
	m.cache.rows.note(0, 1)
	id := m.identity()
	rows, more, err := read(ctx)
	if err != nil {
		return nil, false, err
	}
	batch := &leveldb.Batch{}
	for _, row := range rows {
		batch.Put(place(id, over.Name, row.Coordinate), present(row.Data))
	}
	learned := span{from: over.From, to: over.To, open: over.To == ""}
	if more && len(rows) > 0 {
		if end := rows[len(rows)-1].Coordinate; backward {
			learned.from = end
		} else {
			learned.to, learned.open = end+"\x00", false
		}
	}
	if !more || len(rows) > 0 {
		m.learn(changes, id, batch, over.Name, &learned)
	}
	return rows, more, nil
}

func (m *Mirror) scan(over store.Range, backward bool, limit int) (rows []store.Row, more bool, changes uint64, known bool) {
	g, id, spans, changes := m.snapshot(over.Name)
	wanted := span{from: over.From, to: over.To, open: over.To == ""}
	part, found := around(spans, over.From)
	if backward {
		part, found = below(spans, wanted)
	}
	if !found {
		return nil, false, changes, false
	}
	cut := false // the mirror does not know all that is wanted
	if backward && part.from > wanted.from {
		wanted.from, cut = part.from, true
	}
	if !backward && wanted.beyond(part) {
		wanted.to, wanted.open, cut = part.to, false, true
	}
	if g != nil {
		from, to := place(id, over.Name, wanted.from), place(id, over.Name, wanted.to)
		if wanted.open {
			to = end(id, over.Name)
		}
		prefix := len(from) - len(wanted.from)
		err := g.walk(from, to, backward, func(key, packed []byte) bool {
			if data := content(packed); data != nil {
				if len(rows) == limit {
					more = true
					return false
				}
				slot := store.Slot{Kind: store.Cell, Name: over.Name, Coordinate: string(key[prefix:])}
				rows = append(rows, store.Row{Slot: slot, Data: data})
			}
			return true
		})
		if err != nil {
			if !errors.Is(err, errGone) {
				m.cache.fail(err)
			}
			return nil, false, changes, false
		}
	}
	return rows, more || cut, changes, !cut || len(rows) > 0
}

// identity gives the mirror a generation, if there is one.
func (m *Mirror) identity() uint64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.generation == nil {
		m.generation = m.cache.current()
	}
	return m.id
}

// learn keeps what was read from the store, unless it may have changed since.
func (m *Mirror) learn(changes, id uint64, batch *leveldb.Batch, name string, learned *span) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.changes != changes || m.changes%2 == 1 || m.id != id || m.generation == nil {
		return
	}
	if !m.cache.write(m.generation, batch, batch.Len()) {
		m.forget()
		return
	}
	if learned != nil {
		m.add(name, *learned)
	}
}

// add remembers a range; under the mutex.
func (m *Mirror) add(name string, s span) {
	if m.fresh {
		if _, old := slices.BinarySearch(m.old, name); !old {
			return
		}
	}
	if m.spans == nil {
		m.spans = map[string][]span{}
	}
	m.spans[name] = join(m.spans[name], s)
	total := 0
	for _, spans := range m.spans {
		total += len(spans)
	}
	if total > mostSpans {
		m.spans = map[string][]span{name: {s}}
	}
}

// forget knows nothing any more; under the mutex.
func (m *Mirror) forget() {
	m.generation, m.id = nil, m.cache.last.Add(1)
	m.fresh, m.old, m.spans = false, nil, nil
}

// Apply makes a write of the key, and follows it where it changes rows of collections.
func (m *Mirror) Apply(batch store.Batch, write func() error) error {
	if m == nil || !touches(batch) {
		return write()
	}
	m.mutex.Lock()
	m.changes++
	m.mutex.Unlock()
	err := write()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.changes++
	if err != nil || !m.follow(batch) {
		m.forget()
	}
	return err
}

func touches(batch store.Batch) bool {
	return slices.ContainsFunc(batch.Puts, func(p store.Put) bool { return p.Kind == store.Cell }) ||
		slices.ContainsFunc(batch.Deletes, func(s store.Slot) bool { return s.Kind == store.Cell }) ||
		slices.ContainsFunc(batch.Ranges, func(r store.Range) bool { return r.Kind == store.Cell })
}

// follow does to the rows what a batch did to the store; under the mutex. False: it cannot.
func (m *Mirror) follow(batch store.Batch) bool {
	if m.generation == nil {
		m.generation = m.cache.current()
	}
	g := m.generation
	if g == nil {
		return false
	}
	made, entries := &leveldb.Batch{}, 0
	for _, over := range batch.Ranges {
		if over.Kind != store.Cell {
			continue
		}
		from, to := place(m.id, over.Name, over.From), place(m.id, over.Name, over.To)
		if over.To == "" {
			to = end(m.id, over.Name)
		}
		err := g.walk(from, to, false, func(key, _ []byte) bool { made.Delete(key); return true })
		if err != nil {
			if !errors.Is(err, errGone) {
				m.cache.fail(err)
			}
			return false
		}
		m.add(over.Name, span{from: over.From, to: over.To, open: over.To == ""})
	}
	for _, slot := range batch.Deletes {
		if slot.Kind == store.Cell {
			made.Delete(place(m.id, slot.Name, slot.Coordinate))
		}
	}
	for _, put := range batch.Puts {
		if put.Kind == store.Cell {
			made.Put(place(m.id, put.Name, put.Coordinate), present(put.Data))
			entries++
		}
	}
	return m.cache.write(g, made, entries)
}

// place is the key of a row. Rows of a collection are in the order of their coordinates.
func place(id uint64, name, coordinate string) []byte {
	b := make([]byte, 0, len(rowOf)+8+binary.MaxVarintLen32+len(name)+1+len(coordinate))
	b = append(b, rowOf...)
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.AppendUvarint(b, uint64(len(name)))
	b = append(append(b, name...), 0)
	return append(b, coordinate...)
}

// end comes after all rows of a collection.
func end(id uint64, name string) []byte {
	b := place(id, name, "")
	b[len(b)-1] = 1
	return b
}

// absent is the value of a row that is known not to be there.
var absent = []byte{0}

// present makes the value of a row.
func present(data []byte) []byte { return append([]byte{1}, data...) }

// content gives the data of a value; nil when it is absent.
func content(value []byte) []byte {
	if len(value) == 0 || value[0] == 0 {
		return nil
	}
	return value[1:]
}
