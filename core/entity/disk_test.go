package entity_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/disk"
)

func cache(t *testing.T, dir string) *disk.Cache {
	c, err := disk.Open(disk.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func on(c *disk.Cache) func(*entity.Options) {
	return func(o *entity.Options) { o.Disk, o.Cache = c, 10 }
}

// rows reads cells as an attempt does.
func (w *world) rows(lease *entity.Lease, key string) (found []string) {
	w.t.Helper()
	e := w.open(lease, key)
	defer e.Close()
	txn := e.Begin(nil)
	defer txn.Discard()
	rows, _, err := txn.Scan(w.t.Context(), store.Range{Kind: store.Cell, Name: "cells"}, false, 100)
	require.NoError(w.t, err)
	for _, row := range rows {
		found = append(found, row.Coordinate+"="+string(row.Data))
	}
	return found
}

// header makes the cells known to be there.
var header = entity.Part{Headers: []entity.Header{{Name: "cells", Data: []byte{1}}}}

// What was loaded once is never read from the store again, however little memory there is.
func TestAnOwnedKeyIsReadOnce(t *testing.T) {
	const keys = 2000
	for _, fresh := range []bool{true, false} {
		t.Run(fmt.Sprintf("new keys %v", fresh), func(t *testing.T) {
			w := newWorld(t, store.Limits{})
			fill := func(lease *entity.Lease) {
				for n := range keys {
					w.handle(lease, w.named(key(n), "id"), func(txn *entity.Txn) {
						schedule(t, txn, int64(1_800_000_000+n))
						part := header
						part.Puts = []store.Put{cell("a", []byte(key(n))), cell("b", []byte{})}
						require.NoError(t, txn.Join(part))
					})
				}
			}
			k := w.keeper(on(cache(t, t.TempDir())))
			lease := k.Assign(home)
			if !fresh {
				fill(w.keeper().Assign(home))
				for n := range keys {
					w.rows(lease, key(n))
				}
			} else {
				fill(lease)
			}
			assert.Empty(t, w.flush(k, home))
			w.store.Reset()
			for n := range keys {
				assert.True(t, w.seen(lease, w.named(key(n), "id")))
				assert.Equal(t, []int64{int64(1_800_000_000 + n)}, w.timers(lease, key(n)))
				assert.Equal(t, []string{"a=" + key(n), "b="}, w.rows(lease, key(n)))
			}
			held, _, _ := k.Stats()
			assert.LessOrEqual(t, held, 11)
			assert.Zero(t, w.store.Reads(), "%v", w.store.Calls())
			// Changes go to the store and to the disk.
			for n := range keys {
				w.handle(lease, w.message(key(n)), func(txn *entity.Txn) {
					part := header
					part.Puts = []store.Put{cell("c", []byte("new"))}
					part.Deletes = []store.Slot{cell("b", nil).Slot}
					require.NoError(t, txn.Join(part))
				})
			}
			for n := range keys {
				assert.Equal(t, []string{"a=" + key(n), "c=new"}, w.rows(lease, key(n)))
			}
			assert.Zero(t, w.store.Reads(), "%v", w.store.Calls())
			// The next owner reads what is durable.
			heir := w.keeper().Assign(home)
			for n := range 20 {
				assert.Equal(t, []string{"a=" + key(n), "c=new"}, w.rows(heir, key(n)))
			}
		})
	}
}

// What another owner has changed meanwhile is read anew.
func TestTheDiskIsNotTrustedInAnotherAssignment(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper(on(cache(t, t.TempDir())))
	lease := k.Assign(home)
	other := kafka.Partition{Topic: home.Topic, Index: 4}
	set := func(lease *entity.Lease, n int, value string) {
		w.handle(lease, w.message(key(n)), func(txn *entity.Txn) {
			part := header
			part.Puts = []store.Put{cell("a", []byte(value))}
			require.NoError(t, txn.Join(part))
		})
	}
	for n := range 50 {
		set(lease, n, "first")
	}
	lease.Fence()
	lease.End()
	stranger := w.keeper().Assign(home)
	for n := range 50 {
		set(stranger, n, "second")
	}
	lease = k.Assign(home)
	for n := range 50 {
		assert.Equal(t, []string{"a=second"}, w.rows(lease, key(n)))
	}
	// A key that two partitions share is read anew when one of them has gone.
	second := k.Assign(other)
	for n := range 50 {
		assert.Equal(t, []string{"a=second"}, w.rows(second, key(n)))
	}
	w.store.Reset()
	for n := range 50 {
		w.rows(lease, key(n))
	}
	assert.Zero(t, w.store.Reads())
	second.End()
	stranger = w.keeper().Assign(other)
	for n := range 50 {
		set(stranger, n, "third")
	}
	for n := range 50 {
		assert.Equal(t, []string{"a=third"}, w.rows(lease, key(n)))
	}
}

// After a write of which nobody knows whether it came through, the store is asked.
func TestADoubtfulWriteMakesTheDiskVoid(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t, store.Limits{})
		k := w.keeper(on(cache(t, t.TempDir())))
		lease := k.Assign(home)
		put := func(txn *entity.Txn, value string) {
			part := header
			part.Puts = []store.Put{cell("a", []byte(value))}
			require.NoError(t, txn.Join(part))
		}
		evict := func() {
			for n := range 30 {
				w.rows(lease, fmt.Sprint("other", n))
			}
		}
		w.handle(lease, w.message("k"), func(txn *entity.Txn) { put(txn, "old") })
		evict()
		e := w.open(lease, "k")
		txn := e.Begin(nil)
		put(txn, "new")
		w.fail(lost)
		require.Error(t, txn.Commit(t.Context(), entity.Mark{}))
		w.memory.Fail(nil)
		txn.Discard()
		e.Close()
		evict()
		want := "old"
		if lost {
			want = "new"
		}
		assert.Equal(t, []string{"a=" + want}, w.rows(lease, "k"))
	}
}

// A cache that fails is as none: all is right, and read from the store.
func TestADiskThatFailsIsAsNone(t *testing.T) {
	w := newWorld(t, store.Limits{})
	c := cache(t, t.TempDir())
	k := w.keeper(on(c))
	lease := k.Assign(home)
	for n := range 100 {
		w.handle(lease, w.message(key(n)), func(txn *entity.Txn) {
			part := header
			part.Puts = []store.Put{cell("a", []byte(strings.Repeat("x", n)))}
			require.NoError(t, txn.Join(part))
		})
	}
	require.NoError(t, c.Close())
	w.store.Reset()
	for range 2 {
		for n := range 100 {
			assert.Equal(t, []string{"a=" + strings.Repeat("x", n)}, w.rows(lease, key(n)))
		}
	}
	assert.Greater(t, w.store.Reads(), 300)
}

// A record that is used again while it moves to the disk stays as it was changed.
func TestEvictionBesideUse(t *testing.T) {
	const keys, rounds = 4, 2000
	w := newWorld(t, store.Limits{})
	k := w.keeper(func(o *entity.Options) { o.Disk, o.Cache = cache(t, t.TempDir()), 1 })
	lease := k.Assign(home)
	var owners [keys]sync.Mutex
	add := func(n int) {
		owners[n].Lock()
		defer owners[n].Unlock()
		e, err := lease.Open(t.Context(), key(n))
		if !assert.NoError(t, err) {
			return
		}
		defer e.Close()
		txn := e.Begin(nil)
		rows, err := txn.Get(t.Context(), cell("count", nil).Slot)
		assert.NoError(t, err)
		count, _ := strconv.Atoi(string(rows[0]))
		part := header
		part.Puts = []store.Put{cell("count", []byte(strconv.Itoa(count+1)))}
		assert.NoError(t, txn.Join(part))
		assert.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range rounds {
				add(n % keys)
			}
		})
	}
	all.Wait()
	for n := range keys {
		assert.Equal(t, []string{fmt.Sprintf("count=%d", 4*rounds/keys)}, w.rows(lease, key(n)))
	}
	assert.Less(t, w.store.Reads(), 100)
}

// meddler does something while a record is on its way to the disk.
type meddler struct {
	clock.Clock
	armed atomic.Bool
	work  func()
}

func (m *meddler) Now() time.Time {
	if m.armed.Swap(false) {
		m.work()
	}
	return m.Clock.Now()
}

// What changes a record while it is saved is not lost with it.
func TestAChangeWhileARecordIsSaved(t *testing.T) {
	w := newWorld(t, store.Limits{})
	m := &meddler{Clock: w.clock}
	c, err := disk.Open(disk.Options{Dir: t.TempDir(), Clock: m})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	k := w.keeper(func(o *entity.Options) { o.Disk, o.Cache = c, 1 })
	lease := k.Assign(home)
	other := w.open(lease, "b") // so that there is no room
	defer other.Close()
	meddled := false
	m.work = func() {
		e := w.open(lease, "a")
		txn := e.Begin(nil)
		schedule(t, txn, 1_800_000_002)
		require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
		e.Close()
		meddled = true
	}
	e := w.open(lease, "a")
	txn := e.Begin(nil)
	schedule(t, txn, 1_800_000_001)
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	m.armed.Store(true)
	e.Close()
	require.True(t, meddled)
	assert.Equal(t, []int64{1_800_000_001, 1_800_000_002}, w.timers(lease, "a"))
	assert.Equal(t, []int64{1_800_000_001, 1_800_000_002}, w.timers(lease, "a"), "from the disk")
}
