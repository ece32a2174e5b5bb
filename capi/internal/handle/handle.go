// Package handle owns the opaque pointers that stand for long-lived objects in the host.
//
// A handle is issued by go-pointer, knows its kind, and is safe to use when stale: the
// address of a freed one stays reserved for a long while, so that no new handle gets it.
package handle

import (
	"sync"
	"unsafe"

	pointer "github.com/mattn/go-pointer"
)

// Reserved is the number of freed addresses that are not used again.
const Reserved = 4096

// Table issues handles. It is safe for use by many goroutines.
type Table struct {
	mutex     sync.RWMutex
	low, high uintptr // all addresses ever issued are between these
	freed     []unsafe.Pointer
	oldest    int
	live      map[string]int
}

// cell is what go-pointer keeps for a handle.
type cell struct {
	mutex sync.RWMutex
	value any // nil once freed
}

// New makes an empty table.
func New() *Table { return &Table{low: ^uintptr(0), live: map[string]int{}} }

// Open issues a handle for a value.
func Open[T any](table *Table, kind string, value *T) uintptr {
	address := uintptr(pointer.Save(&cell{value: value}))
	table.mutex.Lock()
	defer table.mutex.Unlock()
	table.low, table.high = min(table.low, address), max(table.high, address)
	table.live[kind]++
	return address
}

// Get gives the value of a live handle of type T; nil for anything else.
func Get[T any](table *Table, address uintptr) *T {
	cell := table.find(address)
	if cell == nil {
		return nil
	}
	cell.mutex.RLock()
	defer cell.mutex.RUnlock()
	value, _ := cell.value.(*T)
	return value
}

// Close frees a live handle of type T and gives its value; nil for anything else.
func Close[T any](table *Table, kind string, address uintptr) *T {
	cell := table.find(address)
	if cell == nil {
		return nil
	}
	cell.mutex.Lock()
	value, _ := cell.value.(*T)
	if value != nil {
		cell.value = nil
	}
	cell.mutex.Unlock()
	if value != nil {
		table.retire(kind, address)
	}
	return value
}

// Live counts the handles of each kind.
func (t *Table) Live() map[string]int {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	live := make(map[string]int, len(t.live))
	for kind, count := range t.live {
		live[kind] = count
	}
	return live
}

// find looks an address up. One that malloc never gave us is no handle; the check also
// keeps made-up addresses inside the Go heap away from the garbage collector.
func (t *Table) find(address uintptr) *cell {
	t.mutex.RLock()
	ours := t.low <= address && address <= t.high
	t.mutex.RUnlock()
	if !ours {
		return nil
	}
	found, _ := pointer.Restore(foreign(address)).(*cell)
	return found
}

func (t *Table) retire(kind string, address uintptr) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.live[kind]--
	if len(t.freed) < Reserved {
		t.freed = append(t.freed, foreign(address))
		return
	}
	pointer.Unref(t.freed[t.oldest])
	t.freed[t.oldest] = foreign(address)
	t.oldest = (t.oldest + 1) % Reserved
}

// foreign makes a pointer of an address outside the Go heap.
func foreign(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
