package entity_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
	"prosody/core/store"
)

func TestSteadyState(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	now := w.clock.Now().Unix()
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, now+10) })
	assert.Equal(t, 1, w.store.Reads(), "a new key has a root to look for, and nothing else")
	assert.Equal(t, map[string]int{"Root": 1, "AddHint": 1, "Apply": 1}, w.store.Calls())
	w.store.Reset()
	for n := range int64(100) {
		of := w.named("a", key(int(n)))
		assert.False(t, w.handle(lease, of, func(txn *entity.Txn) {
			assert.Equal(t, []int64{now + 10 + n}, scheduled(t, txn))
			require.NoError(t, txn.Replace(t.Context(), now+11+n, false))
		}))
		assert.True(t, w.seen(lease, of))
	}
	assert.Equal(t, map[string]int{"Apply": 100}, w.store.Calls(), "one write for an event, nothing else")
}

func TestFirstTouchOfAFullKey(t *testing.T) {
	w := newWorld(t, store.Limits{})
	now := w.clock.Now().Unix()
	for _, many := range []int64{5, 64, 65, 3000} {
		lease := w.keeper().Assign(home)
		name := key(int(many))
		var want []int64
		w.handle(lease, w.named(name, "x"), func(txn *entity.Txn) {
			for n := range many {
				want = append(want, now+n)
			}
			schedule(t, txn, want...)
		})
		assert.Len(t, w.hints(lease, name), int((many-1)/3600)+1+int((now%3600+many%3600)/3600))
		again := w.keeper().Assign(home)
		w.store.Reset()
		assert.Equal(t, want, w.timers(again, name))
		assert.True(t, w.seen(again, w.named(name, "x")))
		assert.False(t, w.seen(again, w.named(name, "y")))
		twice := 0
		if many > 64 {
			twice = 1
		}
		assert.LessOrEqual(t, w.store.Reads(), 3+int(many/1000)+twice, "root, timers by page, the root again, ids")
		if many <= 64 {
			assert.Equal(t, map[string]int{"Root": 1, "Get": 1, "Scan": 1}, w.store.Calls(), "a scan would meet what is deleted")
		}
		w.handle(again, w.message(name), func(txn *entity.Txn) { schedule(t, txn, want[0]) })
		assert.Zero(t, w.store.Calls()["AddHint"], "the hint is known to be there")
	}
}

func TestMarksAreWrittenBehind(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	other := k.Assign(kafka.Partition{Topic: home.Topic, Index: 4})
	for range 50 {
		for n := range 20 {
			assert.False(t, w.handle(lease, w.message(key(n)), nil))
		}
	}
	last := w.named(key(0), "id")
	assert.False(t, w.handle(lease, last, nil))
	assert.True(t, w.handle(lease, last, nil))
	assert.Zero(t, w.store.Writes())
	_, _, behind := k.Stats()
	assert.Equal(t, 20, behind)
	assert.Empty(t, w.flush(k, other.Partition()))
	assert.Zero(t, w.store.Writes(), "it is for that partition only")
	assert.Empty(t, w.flush(k, home))
	assert.Equal(t, map[string]int{"Root": 20, "Apply": 20}, w.store.Calls(), "one for each key")
	assert.Empty(t, w.flush(k, home))
	assert.Equal(t, 20, w.store.Writes())

	heir := w.keeper().Assign(home)
	for offset := int64(1); offset <= w.next; offset++ {
		of := *last
		of.HasID, of.Offset, of.Key = false, offset, key(int(offset-1)%20)
		assert.True(t, w.seen(heir, &of))
	}
	assert.True(t, w.seen(heir, w.named(key(0), "id")))
	assert.False(t, w.seen(heir, w.named(key(1), "id")), "another key")
	assert.False(t, w.seen(heir, w.message(key(0))))
}

func TestAFlushThatFails(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	other := kafka.Partition{Topic: "others", Index: 0}
	good := k.Assign(other)
	of := w.message("a")
	w.handle(lease, of, nil)
	fine := w.message("b")
	fine.Topic, fine.Partition = other.Topic, other.Index
	w.handle(good, fine, nil)
	w.memory.Fail(func(op string, at store.Key) error {
		if op == "Apply" && at.Topic == home.Topic {
			return errDown
		}
		return nil
	})
	assert.Equal(t, []kafka.Partition{home}, w.flush(k, home, other))
	w.memory.Fail(nil)
	assert.Empty(t, w.flush(k, home))
	assert.True(t, w.seen(w.keeper().Assign(home), of))
	assert.True(t, w.seen(w.keeper().Assign(other), fine))
	assert.Equal(t, 3, w.store.Writes())
}

func TestAnotherVersionForgets(t *testing.T) {
	w := newWorld(t, store.Limits{})
	now := w.clock.Now().Unix()
	of := w.named("a", "x")
	w.handle(w.keeper().Assign(home), of, func(txn *entity.Txn) { schedule(t, txn, now) })
	second := func(o *entity.Options) { o.Version = "2" }
	lease := w.keeper(second).Assign(home)
	assert.False(t, w.seen(lease, of))
	assert.Equal(t, []int64{now}, w.timers(lease, "a"), "but not what is scheduled")
	w.handle(lease, of, func(txn *entity.Txn) { schedule(t, txn, now+1) })
	assert.True(t, w.seen(w.keeper(second).Assign(home), of))
}

func TestIDsEnd(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	w.handle(lease, w.named("a", "x"), nil)
	assert.Empty(t, w.flush(k, home))
	w.clock.Advance(59 * time.Minute)
	again := w.keeper().Assign(home)
	assert.True(t, w.seen(lease, w.named("a", "x")))
	assert.True(t, w.seen(again, w.named("a", "x")))
	w.clock.Advance(time.Minute)
	assert.False(t, w.seen(lease, w.named("a", "x")))
	assert.False(t, w.seen(again, w.named("a", "x")))
	w.store.Reset()
	assert.False(t, w.seen(w.keeper().Assign(home), w.named("a", "x")))
	assert.Equal(t, map[string]int{"Root": 1}, w.store.Calls(), "the root tells that none is left")
}

func TestMoreIDsThanFitInMemory(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	const many = 5000
	for n := range many {
		assert.False(t, w.handle(lease, w.named("a", key(n)), nil))
	}
	assert.Empty(t, w.flush(k, home))
	again := w.keeper().Assign(home)
	w.seen(again, w.message("a"))
	w.store.Reset()
	for _, one := range []*entity.Lease{lease, again} {
		for n := range many {
			if !w.seen(one, w.named("a", key(n))) {
				t.Fatalf("%d is forgotten", n)
			}
		}
		assert.False(t, w.seen(one, w.named("a", "new")))
	}
	assert.LessOrEqual(t, w.store.Reads(), 2*many)
	keys, bytes, _ := k.Stats()
	assert.Equal(t, 1, keys)
	assert.Less(t, bytes, int64(300_000))
}

func TestTransactions(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper().Assign(home)
	now := w.clock.Now().Unix()
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(nil)
	schedule(t, txn, now+5, now+1)
	require.NoError(t, txn.Unschedule(t.Context(), now+7, false))
	assert.Equal(t, []int64{now + 1, now + 5}, scheduled(t, txn))
	assert.Empty(t, scheduled(t, e.Begin(nil)), "nobody else sees it")
	txn.Discard()
	assert.Empty(t, w.timers(lease, "a"))
	for _, call := range []error{
		txn.Schedule(t.Context(), now, false), txn.Replace(t.Context(), now, true), txn.Unschedule(t.Context(), now, true), txn.Clear(t.Context(), true),
	} {
		assert.Equal(t, fault.Settled, fault.Of(call))
	}
	_, err := txn.Scheduled(t.Context())
	assert.Equal(t, fault.Settled, fault.Of(err))
	assert.Zero(t, w.store.Writes())
	for _, second := range []int64{-1, math.MaxUint32 + 1} {
		assert.Equal(t, fault.Argument, fault.Of(e.Begin(nil).Schedule(t.Context(), second, false)))
	}
	txn = e.Begin(nil)
	schedule(t, txn, 0, math.MaxUint32)
	txn.Trace = parent(t)
	schedule(t, txn, 1)
	own := trace.Parse(strings.Replace(trace.Text(txn.Trace), "-b7", "-c8", 1), "a=b")
	require.NoError(t, txn.Schedule(trace.With(t.Context(), own), 2, false))
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}), "it is done")
	txn.Discard()
	assert.Equal(t, []int64{0, 1, 2, math.MaxUint32}, w.timers(lease, "a"))
	heir := w.open(w.keeper().Assign(home), "a")
	defer heir.Close()
	timers, err := heir.Timers(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []entity.Timer{{Second: 0}, {Second: 1, Trace: trace.Text(parent(t))}, {Second: 2, Trace: trace.Text(own)}, {Second: math.MaxUint32}}, timers)
	txn = heir.Begin(nil)
	require.NoError(t, txn.Clear(t.Context(), false))
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
	assert.Empty(t, w.timers(w.keeper().Assign(home), "a"))
}

// parent is a trace context.
func parent(t *testing.T) trace.Context {
	t.Helper()
	made := trace.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	require.True(t, made.IsValid())
	return made
}

func TestATimerFires(t *testing.T) {
	w := newWorld(t, store.Limits{})
	now := w.clock.Now().Unix()
	lease := w.keeper().Assign(home)
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, now, now+1) })
	assert.False(t, w.handle(lease, fires("a", now), func(txn *entity.Txn) {
		assert.Equal(t, []int64{now + 1}, scheduled(t, txn))
		require.NoError(t, txn.Replace(t.Context(), now+2, false))
	}))
	assert.True(t, w.handle(lease, fires("a", now), nil), "once")
	assert.True(t, w.handle(lease, fires("a", now+1), nil), "it was cleared")
	assert.False(t, w.handle(lease, fires("a", now+2), func(txn *entity.Txn) { schedule(t, txn, now+2) }))
	assert.False(t, w.handle(w.keeper().Assign(home), fires("a", now+2), nil), "it was scheduled again")
	assert.True(t, w.seen(w.keeper().Assign(home), fires("a", now+2)))
}

func TestImmediately(t *testing.T) {
	w := newWorld(t, store.Limits{})
	now := w.clock.Now().Unix()
	lease := w.keeper().Assign(home)
	durable := func() []int64 { return w.timers(w.keeper().Assign(home), "a") }
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(w.message("a"))
	schedule(t, txn, now+1)
	require.NoError(t, txn.Schedule(t.Context(), now+2, true))
	assert.Equal(t, []int64{now + 2}, durable())
	assert.Equal(t, []int64{now + 1, now + 2}, scheduled(t, txn))
	require.NoError(t, txn.Unschedule(t.Context(), now+1, true))
	require.NoError(t, txn.Unschedule(t.Context(), now+9, true))
	assert.Equal(t, []int64{now + 2}, scheduled(t, txn))
	txn.Discard()
	assert.Equal(t, []int64{now + 2}, w.timers(lease, "a"), "it stays")

	txn = e.Begin(fires("a", now+2))
	require.NoError(t, txn.Clear(t.Context(), true))
	assert.Equal(t, []int64{now + 2}, durable(), "what fires stays until its handler has succeeded")
	require.NoError(t, txn.Schedule(t.Context(), now+2, true))
	txn.Discard()
	assert.False(t, w.handle(lease, fires("a", now+2), nil))
	assert.Equal(t, []int64{now + 2}, durable(), "once more")
	assert.False(t, w.handle(lease, fires("a", now+2), nil))
	assert.Empty(t, durable())

	w.fail(true)
	txn = e.Begin(nil)
	assert.Equal(t, fault.Store, fault.Of(txn.Schedule(t.Context(), now+3, true)))
	w.memory.Fail(nil)
	assert.Equal(t, []int64{now + 3}, scheduled(t, txn), "the record was read anew: the write has happened")
	txn.Discard()
}

func TestQueue(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper().Assign(home)
	due := w.clock.Now().UnixMilli() + 7200_500
	of := w.message("a")
	w.handle(lease, of, func(txn *entity.Txn) {
		for n := range uint64(3) {
			sequence, err := txn.Append([]byte{byte(n)})
			require.NoError(t, err)
			assert.Equal(t, n, sequence)
		}
		txn.Retry(due, 1)
	})
	assert.True(t, w.seen(lease, of), "the queue has it")
	assert.Equal(t, []store.Slab{{Start: due / 1000 / 3600 * 3600, Size: 3600}}, w.hints(lease, "a"))
	heir := w.keeper().Assign(home)
	for n := range uint64(3) {
		e := w.open(heir, "a")
		queue, err := e.Queue(t.Context())
		require.NoError(t, err)
		assert.Equal(t, n, queue.Head)
		assert.EqualValues(t, 3, queue.Tail)
		_, head, err := e.Head(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []byte{byte(n)}, head)
		txn := e.Begin(nil)
		txn.Advance()
		require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
		e.Close()
	}
	e := w.open(w.keeper().Assign(home), "a")
	defer e.Close()
	queue, err := e.Queue(t.Context())
	require.NoError(t, err)
	assert.Equal(t, entity.Queue{Head: 3, Tail: 3}, queue)
	_, head, err := e.Head(t.Context())
	require.NoError(t, err)
	assert.Nil(t, head)
	txn := e.Begin(nil)
	txn.Advance()
	assert.False(t, txn.Dirty())
}
