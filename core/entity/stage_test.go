package entity_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/store"
)

func large(txn *entity.Txn, t *testing.T, count, size int) {
	for n := range count {
		require.NoError(t, txn.Put(cell(fmt.Sprintf("%05d", n), bytes.Repeat([]byte{byte(n)}, size))))
	}
}

// cells counts the rows, and what else is left of a large change.
func (w *world) cells() (cells, chunks int) {
	w.t.Helper()
	at := store.Key{Group: "g", Topic: home.Topic, Key: "a"}
	rows, more, err := w.memory.Scan(w.t.Context(), at, store.Range{Kind: store.Cell, Name: "cells"}, false, 10_000)
	require.NoError(w.t, err)
	require.False(w.t, more)
	for n := range int64(100) { // they are named by their stamp, which a manual clock keeps near
		name := fmt.Sprintf("%016x", w.clock.Now().UnixMicro()+n)
		staged, _, err := w.memory.Scan(w.t.Context(), at, store.Range{Kind: store.Staged, Name: name}, false, 1000)
		require.NoError(w.t, err)
		chunks += len(staged)
	}
	return len(rows), chunks
}

func TestALargeChange(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper().Assign(home)
	of := w.message("a")
	w.handle(lease, of, func(txn *entity.Txn) {
		large(txn, t, 5000, 1024)
		schedule(t, txn, 1)
	})
	cells, chunks := w.cells()
	assert.Equal(t, 5000, cells)
	assert.Zero(t, chunks)
	again := w.keeper().Assign(home)
	assert.True(t, w.seen(again, of))
	assert.Equal(t, []int64{1}, w.timers(again, "a"))
	w.handle(again, w.message("a"), func(txn *entity.Txn) {
		txn.Erase(store.Range{Kind: store.Cell, Name: "cells", From: "00001"})
		require.NoError(t, txn.Put(cell("new", nil)))
	})
	cells, _ = w.cells()
	assert.Equal(t, 2, cells)
}

func TestAChangeThatIsTooLarge(t *testing.T) {
	w := newWorld(t, store.Limits{})
	e := w.open(w.keeper().Assign(home), "a")
	defer e.Close()
	txn := e.Begin(nil)
	assert.Equal(t, fault.TooLarge, fault.Of(txn.Put(cell("x", make([]byte, store.MaxValue+1)))))
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = txn.Put(cell(key(n), make([]byte, 1<<20)))
	}
	assert.Equal(t, fault.TooLarge, fault.Of(err))
	assert.ErrorContains(t, err, fmt.Sprint(entity.MaxCommit))
	txn.Delete(cell(key(0), nil).Slot)
	require.NoError(t, txn.Put(cell("y", make([]byte, 1<<20))), "there is room again")
	assert.Zero(t, w.store.Writes())
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}), "63 MiB are not too many")
	cells, chunks := w.cells()
	assert.Equal(t, []int{63, 0}, []int{cells, chunks})
}

// Wherever a large change is cut off, all of it is there in the end, or nothing.
func TestALargeChangeIsAllOrNothing(t *testing.T) {
	limits := store.Limits{MaxBatch: 4096, MaxValue: 1024}
	for _, lost := range []bool{false, true} {
		decided := false
		for cut := 1; ; cut++ {
			w := newWorld(t, limits)
			lease := w.keeper().Assign(home)
			before := w.message("a")
			w.handle(lease, before, func(txn *entity.Txn) { require.NoError(t, txn.Put(cell("00007", []byte("old")))) })
			calls := 0
			w.memory.Fail(func(op string, _ store.Key) error {
				if op != "Apply" {
					return nil
				}
				if calls++; calls == cut && lost {
					return lostDown
				}
				if calls >= cut {
					return errDown
				}
				return nil
			})
			of := w.message("a")
			e := w.open(lease, "a")
			txn := e.Begin(of)
			large(txn, t, 20, 500)
			txn.Delete(cell("00007", nil).Slot)
			schedule(t, txn, 5)
			err := txn.Commit(context.Background(), entity.Mark{Event: of})
			txn.Discard()
			e.Close()
			w.memory.Fail(nil)
			if err == nil {
				assert.Greater(t, cut, 8, "it takes several writes")
				break
			}
			soon := w.clock.Now().Unix() + 30
			assert.Contains(t, w.hints(lease, "a"), store.Slab{Start: soon - soon%3600, Size: 3600}, "somebody will look")
			heir := w.keeper().Assign(home)
			done := w.seen(heir, of)
			assert.True(t, w.seen(heir, before))
			assert.False(t, decided && !done, "cut %d: later than the decision", cut)
			decided = done
			cells, chunks := w.cells()
			assert.Zero(t, chunks, "cut %d", cut)
			if done {
				assert.Equal(t, 19, cells)
				assert.Equal(t, []int64{5}, w.timers(heir, "a"))
			} else {
				assert.Equal(t, 1, cells)
				assert.Empty(t, w.timers(heir, "a"))
			}
			assert.Equal(t, done, w.seen(lease, of), "the one that failed comes to the same")
		}
		assert.True(t, decided)
	}
}

func TestALargeChangeGoesOnWhereItFailed(t *testing.T) {
	w := newWorld(t, store.Limits{MaxBatch: 4096, MaxValue: 1024})
	lease := w.keeper().Assign(home)
	of := w.message("a")
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(of)
	large(txn, t, 20, 500)
	calls := 0
	w.memory.Fail(func(op string, _ store.Key) error {
		if calls++; calls%3 != 0 {
			return lostDown
		}
		return nil
	})
	tries := 0
	for err := errDown; err != nil; tries++ {
		err = txn.Commit(t.Context(), entity.Mark{Event: of})
	}
	w.memory.Fail(nil)
	assert.Greater(t, tries, 10)
	cells, chunks := w.cells()
	assert.Equal(t, []int{20, 0}, []int{cells, chunks})
	assert.True(t, w.seen(w.keeper().Assign(home), of))
}

// blocked lets a number of calls pass, and then holds one up until it may go on.
func (w *world) blocked(op string, pass int) (arrived, goOn chan struct{}) {
	arrived, goOn = make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	w.memory.Fail(func(called string, _ store.Key) error {
		if called == op && calls.Add(1) == int64(pass)+1 {
			close(arrived)
			<-goOn
		}
		return nil
	})
	return arrived, goOn
}

// A writer whose key was given to another owner amid a large change, wherever it was, leaves
// the key as the new owner has found it.
func TestALargeChangeOfADeposedOwner(t *testing.T) {
	for _, told := range []bool{false, true} {
		decided, pass := 0, 1 // before the first write the new owner finds nothing
		for whole := false; !whole; pass++ {
			whole = deposed(t, pass, told, &decided)
		}
		assert.Greater(t, pass, 8, "it takes several writes")
		assert.Greater(t, decided, 1)
	}
}

// deposed gives a key to another owner after a number of writes; whole: there were no more.
func deposed(t *testing.T, pass int, told bool, decided *int) (whole bool) {
	w := newWorld(t, store.Limits{MaxBatch: 4096, MaxValue: 1024})
	lease := w.keeper().Assign(home)
	of := w.message("a")
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(of)
	defer txn.Discard()
	large(txn, t, 20, 500)
	schedule(t, txn, 5)
	arrived, goOn := w.blocked("Apply", pass)
	ended := make(chan error, 1)
	go func() { ended <- txn.Commit(context.Background(), entity.Mark{Event: of}) }()
	select {
	case err := <-ended:
		require.NoError(t, err)
		return true
	case <-arrived:
	}
	done := w.seen(w.keeper().Assign(home), of)
	if told {
		lease.End()
	}
	close(goOn)
	err := <-ended
	if done {
		*decided++
	} else {
		assert.Equal(t, fault.Revoked, fault.Of(err), "told %v, after %d writes", told, pass)
	}
	cells, _ := w.cells()
	again := w.keeper().Assign(home)
	assert.Equal(t, done, w.seen(again, of), "told %v, after %d writes", told, pass)
	assert.Equal(t, map[bool]int{true: 20}[done], cells, "told %v, after %d writes", told, pass)
	assert.Equal(t, done, len(w.timers(again, "a")) == 1, "told %v, after %d writes", told, pass)
	return false
}
