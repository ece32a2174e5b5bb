package entity_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/entity"
	"prosody/core/kafka"
	"prosody/core/store"
)

func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper(func(o *entity.Options) { o.Cache = 1000 })
	lease := k.Assign(home)
	held := w.open(lease, "held")
	var most int
	for n := range 60_000 {
		w.handle(lease, w.message(key(n)), nil)
		if n%5000 == 0 {
			assert.Empty(t, w.flush(k, home))
		}
		if n%100 == 0 {
			keys, _, behind := k.Stats()
			most = max(most, keys)
			assert.LessOrEqual(t, keys, 1000+behind+1)
		}
	}
	assert.LessOrEqual(t, most, 6001)
	assert.Empty(t, w.flush(k, home))
	keys, size, behind := k.Stats()
	assert.LessOrEqual(t, keys, 1001)
	assert.Less(t, size, int64(1001*1024))
	assert.Zero(t, behind)
	w.store.Reset()
	w.handle(lease, w.message("held"), nil)
	assert.Zero(t, w.store.Reads(), "what is in use stays")
	held.Close()
	held.Close()
	for n := range 999 {
		w.seen(lease, w.message(key(n)))
	}
	w.store.Reset()
	w.handle(lease, w.message("held"), nil)
	assert.Zero(t, w.store.Reads(), "what was used last stays")
	w.handle(lease, w.message(key(59_999)), nil)
	assert.Equal(t, 1, w.store.Reads())
	lease.End()
	keys, size, behind = k.Stats()
	assert.Equal(t, []any{0, int64(0), 0}, []any{keys, size, behind})
}

func TestMemoryIsBoundedInBytes(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper(func(o *entity.Options) { o.Bytes = 1 << 20 })
	lease := k.Assign(home)
	var state otel.TraceState
	for n := range 32 {
		var err error
		state, err = state.Insert(key(n), strings.Repeat("x", 256))
		require.NoError(t, err)
	}
	large := parent(t).WithTraceState(state)
	for n := range 300 {
		w.handle(lease, w.message(key(n)), func(txn *entity.Txn) {
			txn.Trace = large
			schedule(t, txn, 1, 2)
		})
		_, size, _ := k.Stats()
		assert.LessOrEqual(t, size, int64(1<<20)+21_000)
	}
	keys, _, _ := k.Stats()
	assert.Less(t, keys, 70)
	assert.Greater(t, keys, 30)
}

func TestTooManyMarksAreWrittenAtOnce(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper(func(o *entity.Options) { o.Behind = 10 })
	lease := k.Assign(home)
	for n := range 30 {
		w.handle(lease, w.message(key(n)), nil)
	}
	assert.Equal(t, 20, w.store.Writes())
	_, _, behind := k.Stats()
	assert.Equal(t, 10, behind)
	w.store.Reset()
	for n := range 1000 {
		w.handle(lease, w.named(key(0), key(n)), nil)
	}
	assert.Equal(t, 3, w.store.Writes(), "one for each 257 ids")
}

func TestTimersOfAKeyAreBounded(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper(func(o *entity.Options) { o.Slab = 1000 * time.Hour }).Assign(home)
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(nil)
	for n := range int64(entity.MaxTimers) {
		schedule(t, txn, n)
	}
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	txn = e.Begin(nil)
	schedule(t, txn, entity.MaxTimers)
	assert.ErrorContains(t, txn.Commit(t.Context(), entity.Mark{}), "262144")
	txn.Discard()
	txn = e.Begin(nil)
	require.NoError(t, txn.Replace(t.Context(), 7, false))
	w.store.Reset()
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	assert.Equal(t, 1, w.store.Calls()["Apply"], "all go at once")
	assert.Equal(t, []int64{7}, w.timers(w.keeper().Assign(home), "a"))
}

// observer notes what it hears.
type observer struct {
	mutex   sync.Mutex
	changes []entity.Change
	found   []string
}

func (o *observer) Found(lease *entity.Lease, key string, seconds []int64, due int64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.found = append(o.found, fmt.Sprint(lease.Partition().Index, " ", key, " ", seconds, " ", due))
}

func (o *observer) Changed(_ *entity.Lease, _ string, change entity.Change) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.changes = append(o.changes, change)
}

func TestTheObserver(t *testing.T) {
	w := newWorld(t, store.Limits{})
	heard := &observer{}
	k := w.keeper(func(o *entity.Options) { o.Observer = heard })
	lease := k.Assign(home)
	w.handle(lease, w.message("a"), nil)
	assert.Empty(t, w.flush(k, home))
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, 1, 2) })
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, 2) })
	w.handle(lease, fires("a", 1), nil)
	w.handle(lease, fires("a", 2), func(txn *entity.Txn) { schedule(t, txn, 2) })
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { txn.Retry(5000, 1) })
	push := func(txn *entity.Txn) {
		_, err := txn.Append([]byte("x"))
		require.NoError(t, err)
	}
	w.handle(lease, w.message("a"), push)
	w.handle(lease, w.message("a"), push)
	w.handle(lease, w.message("a"), func(txn *entity.Txn) {
		txn.Advance()
		txn.Retry(5000, 0)
	})
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(nil)
	schedule(t, txn, 9)
	w.fail(false)
	assert.Error(t, txn.Commit(t.Context(), entity.Mark{}))
	txn.Discard()
	w.memory.Fail(nil)
	require.NoError(t, e.Begin(nil).Schedule(t.Context(), 7, true))
	assert.Equal(t, []entity.Change{
		{Added: []int64{1, 2}},
		{Removed: []int64{1}},
		{Added: []int64{2}, Removed: []int64{2}},
		{Due: 5000, Moved: true},
		{Due: 5000, Moved: true}, // another head
		{Added: []int64{7}, Due: 5000},
	}, heard.changes)
	assert.Equal(t, []string{"3 a [2] 5000"}, heard.found, "after the write that failed")
}

// A timer of which nobody has heard is heard of when its record is read: also one that a
// former owner wrote late. What is at home elsewhere is for its owner there.
func TestTheObserverHearsOfWhatIsFound(t *testing.T) {
	w := newWorld(t, store.Limits{})
	heard := &observer{}
	w.handle(w.keeper().Assign(home), w.message("a"), func(txn *entity.Txn) { schedule(t, txn, 7, 9) })
	w.handle(w.keeper().Assign(home), w.message("b"), nil)
	w.handle(w.keeper().Assign(home), w.message("c"), func(txn *entity.Txn) { txn.Retry(5000, 1) })
	k := w.keeper(func(o *entity.Options) { o.Observer = heard })
	lease, other := k.Assign(home), k.Assign(kafka.Partition{Topic: home.Topic, Index: 9})
	for _, key := range []string{"a", "b", "c", "a"} {
		w.open(lease, key).Close()
	}
	assert.Equal(t, []string{"3 a [7 9] 0", "3 c [] 5000"}, heard.found, "once for each")
	heard.found = nil
	lease.End()
	w.open(other, "a").Close()
	assert.Empty(t, heard.found)

	again := k.Assign(home)
	e := w.open(again, "d")
	defer e.Close()
	w.fail(true)
	assert.Error(t, e.Begin(nil).Schedule(t.Context(), 5, true))
	w.memory.Fail(nil)
	assert.Empty(t, heard.found)
	assert.Equal(t, []int64{5}, w.timers(again, "d"))
	assert.Equal(t, []string{"3 d [5] 0"}, heard.found)
}

func TestHints(t *testing.T) {
	w := newWorld(t, store.Limits{})
	now := w.clock.Now().Unix()
	hour := now - now%3600
	k := w.keeper()
	lease := k.Assign(home)
	at := func(n int64) store.Slab { return store.Slab{Start: hour + 3600*n, Size: 3600} }
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, hour+7200, hour+7300, hour+36000) })
	assert.Equal(t, []store.Slab{at(2), at(10)}, w.hints(lease, "a"))

	e := w.open(lease, "a")
	dropped, err := e.Tidy(t.Context(), at(2))
	require.NoError(t, err)
	assert.False(t, dropped, "it is needed")
	w.handle(lease, w.message("a"), func(txn *entity.Txn) {
		require.NoError(t, txn.Unschedule(t.Context(), hour+7200, false))
		require.NoError(t, txn.Unschedule(t.Context(), hour+7300, false))
	})
	dropped, err = e.Tidy(t.Context(), at(2))
	require.NoError(t, err)
	assert.True(t, dropped)
	assert.Equal(t, []store.Slab{at(10)}, w.hints(lease, "a"))
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, hour+7201) })
	assert.Equal(t, []store.Slab{at(2), at(10)}, w.hints(lease, "a"), "what was removed is not taken for known")
	e.Close()

	moved := k.Assign(kafka.Partition{Topic: home.Topic, Index: 9})
	assert.Empty(t, w.hints(moved, "a"))
	e = w.open(moved, "a")
	require.NoError(t, e.Rehome(t.Context()))
	e.Close()
	assert.Equal(t, []store.Slab{at(2), at(10)}, w.hints(moved, "a"))
	w.store.Reset()
	e = w.open(moved, "a")
	require.NoError(t, e.Rehome(t.Context()))
	e.Close()
	assert.Zero(t, w.store.Writes(), "it is at home")

	smaller := w.keeper(func(o *entity.Options) { o.Slab = time.Minute }).Assign(moved.Partition())
	w.handle(smaller, w.message("a"), nil)
	w.handle(smaller, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, hour+36001) })
	assert.Len(t, w.hints(smaller, "a"), 4, "another slab size needs hints of its own")
}

// stamps notes those of hints.
type stamps struct {
	store.Store
	added, dropped int64
}

func (s *stamps) AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) error {
	s.added = stamp
	return s.Store.AddHint(ctx, shard, slab, key, stamp, ttl)
}

func (s *stamps) DropHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64) error {
	s.dropped = stamp
	return s.Store.DropHint(ctx, shard, slab, key, stamp)
}

// A hint that was removed by a clock that is ahead does not hide a later one, as it would in
// Cassandra, where a removal has a stamp too.
func TestHintsOfClocksThatDiffer(t *testing.T) {
	w := newWorld(t, store.Limits{})
	noted := &stamps{Store: w.store}
	note := func(o *entity.Options) { o.Store = noted }
	hour := w.clock.Now().Unix()/3600*3600 + 7200
	w.clock.Advance(5 * time.Minute)
	ahead := w.keeper(note).Assign(home)
	w.handle(ahead, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, hour) })
	w.handle(ahead, w.message("a"), func(txn *entity.Txn) { require.NoError(t, txn.Clear(t.Context(), false)) })
	w.clock.Advance(2 * time.Minute)
	e := w.open(ahead, "a")
	dropped, err := e.Tidy(t.Context(), store.Slab{Start: hour, Size: 3600})
	require.NoError(t, err)
	assert.True(t, dropped)
	e.Close()
	w.clock.Advance(-7 * time.Minute)
	behind := w.keeper(note).Assign(home)
	assert.Empty(t, w.hints(behind, "a"))
	w.handle(behind, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, hour+1) })
	assert.Len(t, w.hints(behind, "a"), 1)
	assert.Greater(t, noted.added, noted.dropped)
}

// Near its end a slab may be cleared away while a write is under way.
func TestHintsNearTheEndOfTheirSlab(t *testing.T) {
	w := newWorld(t, store.Limits{})
	now := w.clock.Now().Unix()
	end := now - now%3600 + 3600
	lease := w.keeper().Assign(home)
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, end-1) })
	w.clock.Advance(time.Duration(end-now-59) * time.Second)
	w.store.Reset()
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, end-2) })
	assert.Equal(t, 1, w.store.Calls()["AddHint"])
}

// The store is down for so long that slabs become past and are cleared away meanwhile: a
// write that works at last has its hints all the same.
func TestHintsOfAWriteThatWaited(t *testing.T) {
	for _, cells := range []int{1, 10} { // the latter needs chunks
		w := newWorld(t, store.Limits{MaxBatch: 2000, MaxValue: 2000})
		lease := w.keeper(func(o *entity.Options) { o.Slab = time.Minute }).Assign(home)
		second := w.clock.Now().Unix() + 120
		w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, second) })
		known := w.hints(lease, "a")
		e := w.open(lease, "a")
		txn := e.Begin(nil)
		schedule(t, txn, second+1, second+2000)
		for n := range cells {
			require.NoError(t, txn.Put(cell(key(n), make([]byte, 300))))
		}
		w.fail(false)
		for range 20 * 60 {
			assert.Error(t, txn.Commit(t.Context(), entity.Mark{}))
			w.clock.Advance(time.Second)
		}
		for _, slab := range w.hints(lease, "a") {
			// As the owner does with what is past for ten minutes, and not in its memory.
			if cleared := w.clock.Now().Add(-10 * time.Minute); slab.Start+slab.Size <= cleared.Unix() {
				require.NoError(t, w.memory.DropSlab(t.Context(), lease.Shard(), slab, cleared.UnixMicro()))
			}
		}
		w.memory.Fail(nil)
		require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
		e.Close()
		assert.Subset(t, w.hints(lease, "a"), known)
		assert.GreaterOrEqual(t, len(w.hints(lease, "a")), 2)
		heir := w.keeper().Assign(home)
		assert.Equal(t, []int64{second, second + 1, second + 2000}, w.timers(heir, "a"))
	}
}

func TestHintsComeFirst(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper().Assign(home)
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(nil)
	schedule(t, txn, 1)
	w.memory.Fail(func(op string, _ store.Key) error {
		if op == "AddHint" {
			return errDown
		}
		return nil
	})
	assert.Error(t, txn.Commit(t.Context(), entity.Mark{}))
	assert.Zero(t, w.store.Calls()["Apply"])
	w.memory.Fail(nil)
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	assert.Len(t, w.hints(lease, "a"), 1)
}

// Many goroutines use a Keeper at once; run with -race.
func TestUseAtOnce(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper(func(o *entity.Options) { o.Cache = 10 })
	lease := k.Assign(home)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 300 {
				e, err := lease.Open(t.Context(), key(n*4+i%4))
				if !assert.NoError(t, err) {
					return
				}
				txn := e.Begin(nil)
				if i%3 == 0 {
					assert.NoError(t, txn.Schedule(t.Context(), int64(i), i%2 == 0))
				}
				of := fires("", 0)
				of.Kind, of.Offset, of.Partition = 1, int64(i), int32(n)
				assert.NoError(t, txn.Commit(t.Context(), entity.Mark{Event: of}))
				e.Close()
			}
		})
	}
	all.Go(func() {
		for range 50 {
			_, err := k.Flush(t.Context(), []kafka.Partition{home})
			assert.NoError(t, err)
		}
	})
	all.Wait()
	assert.Empty(t, w.flush(k, home))
	heir := w.keeper().Assign(home)
	for n := range 32 {
		assert.Equal(t, w.timers(lease, key(n)), w.timers(heir, key(n)))
		assert.NotEmpty(t, w.timers(heir, key(n)))
	}
}
