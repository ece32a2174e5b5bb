package entity_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
)

func TestAWriteIsRepeatedUntilItWorks(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t, store.Limits{})
		now := w.clock.Now().Unix()
		lease := w.keeper().Assign(home)
		e := w.open(lease, "a")
		of := w.named("a", "x")
		txn := e.Begin(of)
		schedule(t, txn, now)
		w.fail(lost)
		for range 3 {
			assert.Equal(t, fault.Store, fault.Of(txn.Commit(t.Context(), entity.Mark{Event: of, ID: true})))
			assert.Equal(t, fault.Settled, fault.Of(txn.Schedule(t.Context(), now+1, false)))
			w.clock.Advance(time.Second)
		}
		w.memory.Fail(nil)
		require.NoError(t, txn.Commit(t.Context(), entity.Mark{Event: of, ID: true}))
		e.Close()
		for _, one := range []*entity.Lease{lease, w.keeper().Assign(home)} {
			assert.True(t, w.seen(one, of))
			assert.Equal(t, []int64{now}, w.timers(one, "a"))
		}
	}
}

func TestAnAmbiguousWriteIsLookedUp(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t, store.Limits{})
		now := w.clock.Now().Unix()
		lease := w.keeper().Assign(home)
		light := w.message("a")
		w.handle(lease, light, nil)
		e := w.open(lease, "a")
		of := w.message("a")
		txn := e.Begin(of)
		schedule(t, txn, now)
		w.fail(lost)
		assert.Error(t, txn.Commit(t.Context(), entity.Mark{Event: of}))
		txn.Discard()
		e.Close()
		w.memory.Fail(nil)
		assert.Equal(t, lost, w.seen(lease, of))
		assert.Equal(t, lost, len(w.timers(lease, "a")) == 1)
		assert.True(t, w.seen(lease, light), "a mark that waits stays")
		assert.False(t, w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, now+1) }))
		again := w.keeper().Assign(home)
		assert.True(t, w.seen(again, light))
		assert.Equal(t, w.timers(lease, "a"), w.timers(again, "a"))
		assert.Equal(t, lost, len(w.timers(again, "a")) == 2)
	}
}

func TestFencing(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	now := w.clock.Now().Unix()
	lease := k.Assign(home)
	light := w.message("b")
	w.handle(lease, light, nil)
	e := w.open(lease, "a")
	defer e.Close()
	begun, failed := e.Begin(nil), e.Begin(nil)
	schedule(t, begun, now)
	schedule(t, failed, now+1)
	w.fail(false)
	assert.Error(t, failed.Commit(t.Context(), entity.Mark{}))
	w.memory.Fail(nil)
	lease.Fence()
	writes := w.store.Calls()["Apply"]
	of := w.message("a")
	assert.Equal(t, fault.Revoked, fault.Of(failed.Commit(t.Context(), entity.Mark{})))
	failed.Discard()
	assert.Equal(t, fault.Revoked, fault.Of(begun.Commit(t.Context(), entity.Mark{Event: of})))
	begun.Discard()
	assert.Equal(t, fault.Revoked, fault.Of(e.Begin(nil).Schedule(t.Context(), now, true)))
	assert.Equal(t, fault.Revoked, fault.Of(e.Begin(nil).Commit(t.Context(), entity.Mark{Event: of})), "not even a mark")
	_, err := lease.Open(t.Context(), "c")
	assert.Equal(t, fault.Revoked, fault.Of(err))
	_, err = e.Tidy(t.Context(), store.Slab{Size: 1})
	assert.Equal(t, fault.Revoked, fault.Of(err))
	assert.Equal(t, writes, w.store.Calls()["Apply"])
	assert.Empty(t, w.flush(k, home))
	assert.Equal(t, writes+1, w.store.Calls()["Apply"], "what was marked before is written")

	next := k.Assign(home)
	assert.True(t, w.seen(next, light))
	assert.Empty(t, w.timers(next, "a"))
	keys, _, behind := k.Stats()
	assert.Equal(t, 2, keys)
	assert.Zero(t, behind)
}

func TestAnEndedLeaseWritesNoMarks(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	of := w.message("a")
	w.handle(lease, of, nil)
	lease.End()
	keys, size, behind := k.Stats()
	assert.Equal(t, []any{0, int64(0), 0}, []any{keys, size, behind})
	assert.Empty(t, w.flush(k, home))
	assert.Zero(t, w.store.Writes())
	assert.False(t, w.seen(k.Assign(home), of), "the next owner decides")
}

func TestFlushWaitsForWritesOnTheirWay(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	w.memory.Fail(func(op string, _ store.Key) error {
		if op == "Apply" {
			close(arrived)
			<-goOn
		}
		return nil
	})
	var done sync.WaitGroup
	done.Go(func() { w.handle(lease, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, 1) }) })
	<-arrived
	lease.Fence()
	failed, err := k.Flush(canceled(), []kafka.Partition{home})
	assert.Equal(t, []kafka.Partition{home}, failed)
	assert.Error(t, err)
	close(goOn)
	assert.Empty(t, w.flush(k, home))
	assert.Equal(t, []int64{1}, w.timers(w.keeper().Assign(home), "a"))
	done.Wait()
}

// deaf is a store that answers no write.
type deaf struct{ store.Store }

func (deaf) Apply(ctx context.Context, _ store.Key, _ store.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestFlushEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, store.Limits{})
		k := w.keeper(func(o *entity.Options) { o.Store = deaf{w.store} })
		w.handle(k.Assign(home), w.message("a"), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		failed, err := k.Flush(ctx, []kafka.Partition{home})
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, []kafka.Partition{home}, failed)
		assert.Error(t, err)
	})
}

func TestAMemberThatMayBeOutOfTheGroup(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	e := w.open(k.Assign(home), "a")
	defer e.Close()
	txn := e.Begin(nil)
	schedule(t, txn, 1)
	k.Hold(true)
	assert.Equal(t, fault.Kafka, fault.Of(txn.Commit(t.Context(), entity.Mark{})))
	assert.Zero(t, w.store.Calls()["Apply"])
	k.Hold(false)
	require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
}

func TestTheHandlersEndCutsNoWriteOff(t *testing.T) {
	w := newWorld(t, store.Limits{})
	e := w.open(w.keeper().Assign(home), "a")
	defer e.Close()
	txn := e.Begin(nil)
	schedule(t, txn, 1)
	require.NoError(t, txn.Commit(canceled(), entity.Mark{}))
}

// Two partitions may hold a key, when their number has changed. Each sees what the other
// has written.
func TestAKeyOfTwoPartitions(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease, other := k.Assign(home), k.Assign(kafka.Partition{Topic: home.Topic, Index: 7})
	one := w.message("a")
	w.handle(lease, one, func(txn *entity.Txn) { schedule(t, txn, 1) })
	two := w.message("a")
	two.Partition = 7
	assert.False(t, w.handle(other, two, func(txn *entity.Txn) { schedule(t, txn, 2) }))
	assert.True(t, w.seen(lease, two))
	assert.Equal(t, []int64{1, 2}, w.timers(lease, "a"))
	lease.End()
	far := w.keeper().Assign(home)
	assert.Equal(t, []int64{1, 2}, w.timers(far, "a"))
	w.handle(far, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, 3) })
	assert.Equal(t, []int64{1, 2, 3}, w.timers(other, "a"), "another member has the partition now: what is known is read anew")
	keys, _, _ := k.Stats()
	assert.Equal(t, 1, keys)
}

func TestStampsGrowAlthoughClocksDiffer(t *testing.T) {
	w := newWorld(t, store.Limits{})
	ahead := w.keeper().Assign(home)
	w.handle(ahead, w.message("a"), func(txn *entity.Txn) { schedule(t, txn, 5) })
	w.clock.Advance(-24 * time.Hour)
	behind := w.keeper().Assign(home)
	w.handle(behind, w.message("a"), func(txn *entity.Txn) { require.NoError(t, txn.Replace(t.Context(), 6, false)) })
	assert.Equal(t, []int64{6}, w.timers(w.keeper().Assign(home), "a"))
}

// Between a hint and the change itself the partition may be given to another owner.
func TestNothingIsWrittenAfterTheEndOfALease(t *testing.T) {
	for _, held := range []bool{false, true} {
		w := newWorld(t, store.Limits{})
		k := w.keeper()
		lease := k.Assign(home)
		e := w.open(lease, "a")
		txn := e.Begin(nil)
		schedule(t, txn, 5)
		for n, write := range []func() error{
			func() error { return txn.Commit(context.Background(), entity.Mark{}) },
			func() error { return e.Begin(nil).Schedule(context.Background(), 5000, true) },
		} {
			arrived, goOn := w.blocked("AddHint", 0)
			ended := make(chan error, 1)
			go func() { ended <- write() }()
			<-arrived
			if held {
				k.Hold(true)
			} else if n == 0 {
				lease.Fence()
			}
			if n == 1 && !held {
				lease.End()
			}
			close(goOn)
			err := <-ended
			switch {
			case held:
				assert.Equal(t, fault.Kafka, fault.Of(err))
			case n == 0:
				assert.NoError(t, err, "a fenced one waits for its writes")
			default:
				assert.Equal(t, fault.Revoked, fault.Of(err))
			}
			k.Hold(false)
			txn.Discard()
			if !held && n == 0 {
				lease = k.Assign(home)
				e.Close()
				e = w.open(lease, "a")
			}
		}
		e.Close()
		w.memory.Fail(nil)
		assert.Equal(t, !held, len(w.timers(w.keeper().Assign(home), "a")) == 1)
	}
}

// A late write of a former owner comes between two reads of a record: either all of it is
// seen or nothing.
func TestALateWriteBetweenTwoReads(t *testing.T) {
	for many, op := range map[int]string{1: "Scan", 2048 + 100 + 1: "Get"} {
		w := newWorld(t, store.Limits{})
		lease := w.keeper().Assign(home)
		w.handle(lease, w.named("a", "first"), func(txn *entity.Txn) {
			for n := range int64(min(many, 100)) {
				schedule(t, txn, 1000+n)
			}
		})
		for n := range max(0, many-100) {
			w.handle(lease, w.named("a", fmt.Sprint("other ", n)), func(txn *entity.Txn) { txn.Retry(int64(n+1), 0) })
			w.clock.Advance(time.Millisecond)
		}
		w.clock.Advance(time.Second)
		of := w.named("a", "x")
		of.Timestamp = 0
		again := w.named("a", "x") // the same sender says it again
		late := func() {
			w.memory.Fail(nil)
			w.handle(lease, of, func(txn *entity.Txn) {
				require.NoError(t, txn.Unschedule(t.Context(), 1000, false))
				schedule(t, txn, 5)
			})
		}
		heir := w.keeper().Assign(home)
		w.memory.Fail(func(called string, _ store.Key) error {
			if called == op {
				late()
			}
			return nil
		})
		e, err := heir.Open(t.Context(), "a")
		if err == nil {
			var seen bool
			if seen, err = e.Seen(t.Context(), again, true); err == nil {
				assert.False(t, seen && w.timers(heir, "a")[0] != 5, "%d: done, without its effects", many)
			}
			e.Close()
		}
		assert.Equal(t, fault.Store, fault.Of(err), "%d: it is tried again", many)
		assert.True(t, w.seen(heir, again), many)
		assert.EqualValues(t, 5, w.timers(heir, "a")[0], many)
	}
}

func TestALateEndOfATimer(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper().Assign(home)
	w.handle(lease, w.message("a"), func(txn *entity.Txn) {
		for n := range int64(100) { // more than the root lists
			schedule(t, txn, 1000+n)
		}
	})
	w.clock.Advance(time.Second)
	w.memory.Fail(func(called string, _ store.Key) error {
		if called == "Scan" {
			w.memory.Fail(nil)
			w.handle(lease, fires("a", 1000), nil)
		}
		return nil
	})
	heir := w.keeper().Assign(home)
	_, err := heir.Open(t.Context(), "a")
	assert.Equal(t, fault.Store, fault.Of(err), "a root and timers that do not belong together")
	assert.Len(t, w.timers(heir, "a"), 99)
}

// The head of the queue that a former owner took off late is no event that is lost.
func TestALateEndOfTheHead(t *testing.T) {
	w := newWorld(t, store.Limits{})
	lease := w.keeper().Assign(home)
	w.handle(lease, w.message("a"), func(txn *entity.Txn) {
		for _, row := range []string{"one", "two"} {
			_, err := txn.Append([]byte(row))
			require.NoError(t, err)
		}
	})
	e := w.open(w.keeper().Assign(home), "a")
	defer e.Close()
	w.clock.Advance(time.Second)
	w.handle(lease, w.message("a"), func(txn *entity.Txn) { txn.Advance() })
	_, _, err := e.Head(t.Context())
	assert.Equal(t, fault.Store, fault.Of(err), "it is tried again")
	queue, row, err := e.Head(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "two", string(row))
	assert.EqualValues(t, 1, queue.Head)

	at := store.Key{Group: "g", Topic: home.Topic, Key: "a"}
	gone := store.Range{Kind: store.Deferred}
	require.NoError(t, w.memory.Apply(t.Context(), at, store.Batch{Stamp: w.clock.Now().UnixMicro() + 10, Ranges: []store.Range{gone}}))
	queue, row, err = e.Head(t.Context())
	require.NoError(t, err)
	assert.Nil(t, row, "this one is lost")
	assert.EqualValues(t, 2, queue.Tail)
}

func TestAnEndedLeaseSettlesNothing(t *testing.T) {
	w := newWorld(t, store.Limits{MaxBatch: 4096, MaxValue: 1024})
	lease := w.keeper().Assign(home)
	e := w.open(lease, "a")
	defer e.Close()
	txn := e.Begin(nil)
	large(txn, t, 20, 500)
	calls := 0
	w.memory.Fail(func(op string, _ store.Key) error {
		if calls++; op == "Apply" && calls > 6 {
			return errDown
		}
		return nil
	})
	assert.Error(t, txn.Commit(t.Context(), entity.Mark{}))
	txn.Discard()
	w.memory.Fail(nil)
	lease.End()
	w.store.Reset()
	_, err := e.Queue(t.Context())
	assert.Equal(t, fault.Revoked, fault.Of(err))
	assert.Zero(t, w.store.Writes())
}

func TestTwoChangesOfAQueue(t *testing.T) {
	w := newWorld(t, store.Limits{})
	e := w.open(w.keeper().Assign(home), "a")
	defer e.Close()
	one, two := e.Begin(nil), e.Begin(nil)
	for _, txn := range []*entity.Txn{one, two} {
		_, err := txn.Append([]byte("x"))
		require.NoError(t, err)
	}
	require.NoError(t, one.Commit(t.Context(), entity.Mark{}))
	assert.Equal(t, fault.Internal, fault.Of(two.Commit(t.Context(), entity.Mark{})), "it would take the other's place")
	two.Discard()
	queue, err := e.Queue(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, queue.Tail)
}

func TestAMarkDuringAWrite(t *testing.T) {
	w := newWorld(t, store.Limits{})
	k := w.keeper()
	lease := k.Assign(home)
	first, second := w.message("a"), w.named("a", "x")
	w.handle(lease, first, nil)
	w.memory.Fail(func(op string, _ store.Key) error {
		if op == "Apply" {
			w.memory.Fail(nil)
			w.handle(lease, second, nil)
		}
		return nil
	})
	assert.Empty(t, w.flush(k, home))
	_, _, behind := k.Stats()
	assert.Equal(t, 1, behind)
	assert.Empty(t, w.flush(k, home))
	assert.True(t, w.seen(w.keeper().Assign(home), second))
}

func TestWhatEndsByItself(t *testing.T) {
	w := newWorld(t, store.Limits{Retention: 48 * time.Hour})
	k := w.keeper()
	lease := k.Assign(home)
	light, heavy := w.message("a"), w.message("b")
	w.handle(lease, light, nil)
	w.handle(lease, heavy, func(txn *entity.Txn) { schedule(t, txn, 1) })
	assert.Empty(t, w.flush(k, home))
	w.clock.Advance(47 * time.Hour)
	assert.True(t, w.seen(w.keeper().Assign(home), light))
	w.clock.Advance(time.Hour)
	assert.False(t, w.seen(w.keeper().Assign(home), light))
	assert.True(t, w.seen(w.keeper().Assign(home), heavy), "what is scheduled never ends by itself")
	assert.Equal(t, []int64{1}, w.timers(w.keeper().Assign(home), "b"))
}
