package entity_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/store"
)

// Who cannot tell whether it still owns a key writes nothing of it, marks included, and
// what it tries then does not cover what the new owner has written.
func TestDoubtWritesNothing(t *testing.T) {
	w := newWorld(t, store.Limits{})
	var alive atomic.Bool
	alive.Store(true)
	old := w.keeper(func(o *entity.Options) { o.Alive = alive.Load })
	lease := old.Assign(home)
	first := w.message("a")
	w.handle(lease, first, nil)
	second := w.message("a")
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(second)
	schedule(t, txn, 5)
	alive.Store(false)
	writes := w.store.Writes()
	assert.Len(t, w.flush(old, home), 1)
	assert.Equal(t, fault.Kafka, fault.Of(txn.Commit(t.Context(), entity.Mark{Event: second})))
	assert.Equal(t, writes, w.store.Writes())

	w.clock.Advance(time.Second)
	next := w.keeper().Assign(home)
	w.handle(next, first, func(txn *entity.Txn) { schedule(t, txn, 7) })
	alive.Store(true)
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{Event: second}))
	next.End()
	assert.Equal(t, []int64{7}, w.timers(w.keeper().Assign(home), "a"))
}
