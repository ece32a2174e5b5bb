package memory

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/google/btree"

	"prosody/core/store"
)

// stripe is a share of the entities under one lock: readers see a batch or nothing.
type stripe struct {
	mutex    sync.RWMutex
	entities map[store.Key]*entity
	rows     int // an upper bound
	writes   int // since the last sweep
}

type entity struct {
	root *row
	rows *btree.BTreeG[*row] // nil until the first row
	high int64               // the highest stamp of a batch
	gone []deletion          // the latest deletions; batches below high have to respect them
}

type row struct {
	slot store.Slot
	data []byte
	life
}

type deletion struct {
	span  store.Range
	stamp int64
}

// remembered is how many deletions of an entity late batches are checked against.
const remembered = 256

// Root reads the root.
func (s *Store) Root(ctx context.Context, key store.Key) ([]byte, error) {
	var data []byte
	err := s.run(ctx, "Root", key, store.CheckKey(key), func() {
		now := s.clock.Now()
		part := s.part(key)
		part.mutex.RLock()
		defer part.mutex.RUnlock()
		if found := part.entities[key]; found != nil && found.root != nil && !found.root.over(now) {
			data = bytes.Clone(found.root.data)
		}
	})
	return data, err
}

// Get reads the data at slots.
func (s *Store) Get(ctx context.Context, key store.Key, slots []store.Slot) ([][]byte, error) {
	invalid := store.CheckKey(key)
	if invalid == nil {
		invalid = store.CheckSlots(slots...)
	}
	result := make([][]byte, len(slots))
	err := s.run(ctx, "Get", key, invalid, func() {
		now := s.clock.Now()
		part := s.part(key)
		part.mutex.RLock()
		defer part.mutex.RUnlock()
		found := part.entities[key]
		if found == nil || found.rows == nil {
			return
		}
		for i, slot := range slots {
			if it, ok := found.rows.Get(&row{slot: slot}); ok && !it.over(now) {
				result[i] = bytes.Clone(it.data)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Scan reads rows of a range.
func (s *Store) Scan(ctx context.Context, key store.Key, span store.Range, backward bool, limit int) ([]store.Row, bool, error) {
	invalid := store.CheckKey(key)
	if invalid == nil {
		invalid = store.CheckRange(span)
	}
	var rows []store.Row
	more := false
	err := s.run(ctx, "Scan", key, invalid, func() {
		now := s.clock.Now()
		part := s.part(key)
		part.mutex.RLock()
		defer part.mutex.RUnlock()
		found := part.entities[key]
		if found == nil || found.rows == nil {
			return
		}
		found.walk(span, backward, func(it *row) bool {
			switch {
			case it.over(now):
			case len(rows) >= limit:
				more = true
				return false
			default:
				rows = append(rows, store.Row{Slot: it.slot, Data: bytes.Clone(it.data)})
			}
			return true
		})
	})
	if err != nil {
		return nil, false, err
	}
	return rows, more, nil
}

// walk visits the rows of a range until visit says no.
func (e *entity) walk(span store.Range, backward bool, visit func(*row) bool) {
	first := &row{slot: store.Slot{Kind: span.Kind, Name: span.Name, Coordinate: span.From}}
	last := &row{slot: store.Slot{Kind: span.Kind, Name: span.Name, Coordinate: span.To}}
	if span.To == "" {
		last.slot.Name += "\x00" // the next name there can be
	}
	inside := func(it *row) bool {
		return span.Has(it.slot) && visit(it)
	}
	if !backward {
		e.rows.AscendRange(first, last, inside)
		return
	}
	e.rows.DescendLessOrEqual(last, func(it *row) bool {
		if !it.slot.Before(last.slot) {
			return true // last itself is outside
		}
		return inside(it)
	})
}

// Apply writes a batch under one lock.
func (s *Store) Apply(ctx context.Context, key store.Key, batch store.Batch) error {
	return s.run(ctx, "Apply", key, store.CheckBatch(key, batch, s.limits), func() {
		if batch.Empty() {
			return
		}
		part := s.part(key)
		part.mutex.Lock()
		defer part.mutex.Unlock()
		found := part.entities[key]
		if found == nil {
			found = &entity{}
			part.entities[key] = found
		}
		late := batch.Stamp <= found.high
		found.high = max(found.high, batch.Stamp)
		for _, slot := range batch.Deletes {
			end := slot.Coordinate + "\x00"
			found.remove(store.Range{Kind: slot.Kind, Name: slot.Name, From: slot.Coordinate, To: end}, batch.Stamp-1)
		}
		for _, span := range batch.Ranges {
			found.remove(span, batch.Stamp-1)
		}
		if batch.Root != nil {
			next := &row{data: bytes.Clone(batch.Root), life: s.life(batch.Stamp, batch.RootTTL)}
			if found.root == nil || store.Later(next.stamp, next.data, found.root.stamp, found.root.data) {
				found.root = next
			}
		}
		for i := range batch.Puts {
			put := &batch.Puts[i]
			found.put(&row{slot: put.Slot, data: append([]byte{}, put.Data...), life: s.life(batch.Stamp, put.TTL)}, late)
		}
		part.rows += len(batch.Puts)
		part.writes++
		part.sweep(s.clock.Now())
	})
}

func (e *entity) put(next *row, late bool) {
	if late {
		for _, it := range e.gone {
			if it.stamp >= next.stamp && it.span.Has(next.slot) {
				return
			}
		}
	}
	if e.rows == nil {
		e.rows = tree()
	}
	if old, ok := e.rows.Get(next); ok && !store.Later(next.stamp, next.data, old.stamp, old.data) {
		return
	}
	e.rows.ReplaceOrInsert(next)
}

func (e *entity) remove(span store.Range, stamp int64) {
	if len(e.gone) >= remembered {
		e.gone = append(e.gone[:0], e.gone[remembered/2:]...)
	}
	e.gone = append(e.gone, deletion{span: span, stamp: stamp})
	if e.rows == nil {
		return
	}
	var out []*row
	e.walk(span, false, func(it *row) bool {
		if it.stamp <= stamp {
			out = append(out, it)
		}
		return true
	})
	for _, it := range out {
		e.rows.Delete(it)
	}
}

// sweep removes what has expired, once there were as many writes as there are rows.
func (p *stripe) sweep(now time.Time) {
	if p.writes < p.rows+1000 {
		return
	}
	p.writes, p.rows = 0, 0
	for key, it := range p.entities {
		if it.root != nil && it.root.over(now) {
			it.root = nil
		}
		if it.rows != nil {
			var out []*row
			it.rows.Ascend(func(r *row) bool {
				if r.over(now) {
					out = append(out, r)
				}
				return true
			})
			for _, r := range out {
				it.rows.Delete(r)
			}
			p.rows += it.rows.Len()
		}
		if it.root == nil && (it.rows == nil || it.rows.Len() == 0) {
			delete(p.entities, key)
		}
	}
}
