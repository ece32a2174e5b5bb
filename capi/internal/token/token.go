// Package token owns the 64-bit names of what an invocation or a reader has for the host:
// collections and scans. A name has a generation, so that a stale one is known as such.
//
// It upholds I4: a place is used again as soon as its value is dropped.
package token

import (
	"sync"
	"sync/atomic"
)

// A token is mark | generation | place. Invocations have no mark: their generations do
// not reach it.
const (
	placeBits      = 30
	generationBits = 30
	chunkBits      = 8

	chunk = 1 << chunkBits
	most  = 1<<generationBits - 1
)

// Mark tells tables apart.
type Mark uint64

// The marks.
const (
	Collection Mark = 0b10 << (placeBits + generationBits)
	Scan       Mark = 0b11 << (placeBits + generationBits)
)

// Table names values of type T. It is safe for use by many goroutines.
type Table[T any] struct {
	mark   Mark
	chunks atomic.Pointer[[]*[chunk]cell[T]] // copied when it grows
	used   atomic.Int64

	mutex sync.Mutex
	free  []*cell[T]
	count uint64
}

type cell[T any] struct {
	place uint64
	held  atomic.Pointer[held[T]]
	last  uint64 // generation; of the table's mutex
	past  atomic.Uint64
}

// held is a value under its generation.
type held[T any] struct {
	generation uint64
	value      *T
}

// New makes an empty table.
func New[T any](mark Mark) *Table[T] { return &Table[T]{mark: mark} }

// Used counts the names in use.
func (t *Table[T]) Used() int64 { return t.used.Load() }

// Issue names a value.
func (t *Table[T]) Issue(value *T) uint64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if len(t.free) == 0 {
		t.grow()
	}
	last := len(t.free) - 1
	cell := t.free[last]
	t.free = t.free[:last]
	cell.last = cell.last%most + 1
	cell.held.Store(&held[T]{cell.last, value})
	t.used.Add(1)
	return uint64(t.mark) | cell.last<<placeBits | cell.place
}

// Find gives the value of a name: nil when there is none any more, which stale tells, or
// never was.
func (t *Table[T]) Find(name uint64) (value *T, stale bool) {
	cell, generation := t.cell(name)
	if cell == nil {
		return nil, false
	}
	held := cell.held.Load()
	if held != nil && held.generation == generation {
		return held.value, false
	}
	return nil, generation <= cell.past.Load()
}

// Drop ends a name and gives what it named; nil when it named nothing.
func (t *Table[T]) Drop(name uint64) *T {
	cell, generation := t.cell(name)
	if cell == nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	held := cell.held.Load()
	if held == nil || held.generation != generation {
		return nil
	}
	cell.past.Store(max(cell.past.Load(), generation))
	cell.held.Store(nil)
	t.free = append(t.free, cell)
	t.used.Add(-1)
	return held.value
}

// cell gives the cell of a name and the generation that it asks for.
func (t *Table[T]) cell(name uint64) (*cell[T], uint64) {
	if Mark(name)&Scan != t.mark {
		return nil, 0
	}
	place, generation := name&(1<<placeBits-1), name>>placeBits&most
	chunks := t.chunks.Load()
	if generation == 0 || chunks == nil || place>>chunkBits >= uint64(len(*chunks)) {
		return nil, 0
	}
	return &(*chunks)[place>>chunkBits][place%chunk], generation
}

func (t *Table[T]) grow() {
	var old []*[chunk]cell[T]
	if chunks := t.chunks.Load(); chunks != nil {
		old = *chunks
	}
	added := new([chunk]cell[T])
	for i := range added {
		added[i].place = t.count
		t.count++
		t.free = append(t.free, &added[i])
	}
	chunks := append(old[:len(old):len(old)], added)
	t.chunks.Store(&chunks)
}
