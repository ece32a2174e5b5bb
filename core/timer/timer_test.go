package timer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/store"
)

// hand is a consumer that ends nothing by itself.
type hand struct{ fired chan Fire }

func (h *hand) take(fires []Fire) {
	for _, fire := range fires {
		h.fired <- fire
	}
}

// ready lists what has been fired.
func (h *hand) ready() (list []string) {
	synctest.Wait()
	for {
		select {
		case fire := <-h.fired:
			list = append(list, fmt.Sprintf("%s %s@%d", fire.Event.Kind, fire.Event.Key, fire.Event.Timestamp/1000))
		default:
			return list
		}
	}
}

// byHand makes an owner whose events are ended by the test.
func byHand(t *testing.T, w *world, limit, most int) (*owner, *hand) {
	o, h := w.own(limit, most), &hand{make(chan Fire, 100_000)}
	o.timers.Start(h.take)
	t.Cleanup(o.timers.Close)
	return o, h
}

func message(kind event.Kind, key string, second int64) *event.Event {
	return &event.Event{Kind: kind, Topic: "orders", Offset: -1, Key: key, Timestamp: second * 1000}
}

func TestFloodOfOverdueTimersIsBoundedAndEachComesOnce(t *testing.T) {
	const keys, limit, most = 3000, 4, 60
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		w.count = 1
		old := w.own(limit, 10)
		old.assign(0)
		for n := range keys {
			old.due(fmt.Sprintf("key-%04d", n), entity.Change{Added: []int64{time.Now().Unix() + 100 + w.pick(100)}})
		}
		old.timers.Close()
		time.Sleep(time.Hour)
		w.opens = 0
		o, h := byHand(t, w, limit, most)
		o.assign(0)
		seen := map[string]bool{}
		for len(seen) < keys {
			var fires []Fire
			synctest.Wait()
			for len(h.fired) > 0 {
				fires = append(fires, <-h.fired)
			}
			if len(fires) == 0 {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			facts := o.timers.Snapshot()
			require.LessOrEqual(t, facts.Firing, limit)
			require.LessOrEqual(t, facts.Waiting, most)
			for _, fire := range fires {
				require.False(t, seen[fire.Event.Key], "twice")
				seen[fire.Event.Key] = true
				change := entity.Change{Removed: []int64{fire.Event.Timestamp / 1000}}
				delete(w.key(fire.Event.Key).timers, fire.Event.Timestamp/1000)
				o.timers.Changed(fire.Lease, fire.Event.Key, change)
				o.timers.Ended(fire.Lease, fire.Event, true)
			}
		}
		t.Log("records opened:", w.opens)
		assert.Less(t, w.opens, 8*keys, "stale hints are not tidied in this world, so each load reads them again")
		o.timers.Close()
	})
}

func TestMemoryKeepsTheEarliestOfAFlood(t *testing.T) {
	a := newAgenda(40)
	a.begin(1 << 60)
	for n := range int64(1000) {
		a.add(id{event.Timer, fmt.Sprint("key-", n*7919%1000), 0}, n*7919%1000)
		require.LessOrEqual(t, a.size(), 40)
	}
	a.loaded(1 << 60)
	require.GreaterOrEqual(t, a.size(), 20)
	require.False(t, a.wants())
	var last int64 = -1
	for a.head(event.Timer) < a.complete {
		what := a.fire(event.Timer)
		e := a.entries[what]
		require.Equal(t, last+1, e.due, "nothing before the horizon is missing")
		last = e.due
		a.end(what, true)
	}
	require.GreaterOrEqual(t, last, int64(10))
	require.True(t, a.wants())
}

func TestOneEventOfAKeyAtATimeEarliestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		w.count = 1
		o, h := byHand(t, w, 10, 100)
		o.assign(0)
		time.Sleep(time.Second)
		now := time.Now().Unix()
		o.due("a", entity.Change{Added: []int64{now - 1, now - 3, now - 2}})
		o.due("a", entity.Change{Added: []int64{now - 4}})
		o.due("a", entity.Change{Removed: []int64{now - 4}})
		o.due("b", entity.Change{Added: []int64{now - 5}})
		l := o.leases[kafka.Partition{Topic: "orders"}]
		for _, second := range []int64{now - 3, now - 2, now - 1} {
			expected := []string{fmt.Sprintf("timer a@%d", second)}
			if second == now-3 {
				expected = append(expected, fmt.Sprintf("timer b@%d", now-5))
			}
			assert.ElementsMatch(t, expected, h.ready())
			o.timers.Ended(l, message(event.Timer, "a", second), true)
		}
		assert.Empty(t, h.ready())
		o.timers.Close()
	})
}

// What is found of a key is taken in also while nobody knows how many partitions there are,
// as a load does, and when that is known only after the load.
func TestFoundWhileTheNumberOfPartitionsIsNotKnown(t *testing.T) {
	for _, told := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(2)
			w.hidden = true
			o, h := byHand(t, w, 10, 100)
			o.assign(1)
			time.Sleep(time.Second)
			w.mutex.Lock()
			w.hidden = !told
			w.mutex.Unlock()
			l, due := o.leases[kafka.Partition{Topic: "orders", Index: 1}], time.Now().Unix()+10
			o.timers.Found(l, "a", []int64{due}, due*1000)
			time.Sleep(time.Minute)
			assert.ElementsMatch(t, []string{fmt.Sprintf("timer a@%d", due), "retry a@0"}, h.ready())
			o.timers.Close()
		})
	}
}

func TestTimersDoNotBlockRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(3)
		w.count = 1
		o, h := byHand(t, w, 2, 100)
		o.assign(0)
		time.Sleep(time.Second)
		for n := range 5 {
			o.due(fmt.Sprint("key-", n), entity.Change{Added: []int64{1}})
		}
		assert.Len(t, h.ready(), 2)
		o.due("other", entity.Change{Moved: true, Due: time.Now().UnixMilli()})
		assert.Equal(t, []string{"retry other@0"}, h.ready())
		o.timers.Close()
	})
}

func TestRetryThatMovesComesAtItsNewTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(4)
		w.count = 1
		o, h := byHand(t, w, 2, 100)
		o.assign(0)
		time.Sleep(time.Second)
		now := time.Now()
		o.due("a", entity.Change{Moved: true, Due: now.UnixMilli() + 5000})
		o.due("b", entity.Change{Moved: true, Due: now.UnixMilli() + 5000})
		o.due("a", entity.Change{Moved: true, Due: now.UnixMilli() + 2000})
		o.due("b", entity.Change{Moved: true})
		time.Sleep(time.Until(now.Add(2*time.Second - 1)))
		assert.Empty(t, h.ready())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"retry a@0"}, h.ready())
		time.Sleep(time.Minute)
		assert.Empty(t, h.ready())
		o.timers.Close()
	})
}

// A timer whose handler takes longer than its slab is still there for the next owner.
func TestSlabOfARunningTimerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(5)
		w.count = 1
		o, h := byHand(t, w, 2, 100)
		o.assign(0)
		time.Sleep(time.Second)
		o.due("slow", entity.Change{Added: []int64{time.Now().Unix() + 2}})
		o.due("quick", entity.Change{Added: []int64{time.Now().Unix() + 200}})
		l := o.leases[kafka.Partition{Topic: "orders"}]
		time.Sleep(time.Hour)
		require.Len(t, h.ready(), 2)
		slabs := func() int {
			list, err := w.store.Slabs(t.Context(), l.Shard(), time.Now().Unix())
			require.NoError(t, err)
			count := 0
			for _, slab := range list {
				if slab.Start >= 0 {
					count++
				}
			}
			return count
		}
		require.Equal(t, 2, slabs())
		for name, f := range w.keys {
			for second := range f.timers {
				if name == "quick" {
					delete(f.timers, second)
					o.timers.Ended(l, message(event.Timer, name, second), true)
				}
			}
		}
		time.Sleep(time.Hour)
		require.Equal(t, 2, slabs(), "what is later than something that runs stays as well")
		o.timers.Close()

		heir, again := byHand(t, w, 2, 100)
		heir.assign(0)
		time.Sleep(time.Second)
		fired := again.ready()
		require.Len(t, fired, 1)
		for second := range w.key("slow").timers {
			delete(w.key("slow").timers, second)
			heir.timers.Ended(heir.leases[l.at], message(event.Timer, "slow", second), true)
		}
		time.Sleep(time.Hour)
		assert.Zero(t, slabs(), "what is past and empty goes")
		heir.timers.Close()
	})
}

func TestKeysFindTheirNewPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(6)
		old, h := byHand(t, w, 1000, 1000)
		old.assign(0)
		old.assign(1)
		time.Sleep(time.Second)
		due := time.Now().Unix() + 600
		for n := range 100 {
			old.due(fmt.Sprint("near-", n), entity.Change{Added: []int64{due}})
			old.due(fmt.Sprint("far-", n), entity.Change{Added: []int64{due + 100_000}})
		}
		w.mutex.Lock()
		w.count = 5
		w.mutex.Unlock()
		heir, other := byHand(t, w, 1000, 1000)
		for index := range int32(3) {
			heir.assign(2 + index)
		}
		time.Sleep(5 * time.Minute) // the topic's new count is seen in time
		for _, wait := range []time.Duration{6 * time.Minute, 100_000 * time.Second} {
			time.Sleep(wait)
			synctest.Wait()
			seen := map[string]int{}
			for who, hand := range map[*owner]*hand{old: h, heir: other} {
				for len(hand.fired) > 0 {
					fire := <-hand.fired
					seen[fire.Event.Key]++
					assert.Equal(t, w.home(fire.Event.Key), fire.Event.At(), fire.Event.Key)
					delete(w.key(fire.Event.Key).timers, fire.Event.Timestamp/1000)
					who.timers.Ended(fire.Lease, fire.Event, true)
				}
			}
			assert.Len(t, seen, 100)
			for key, times := range seen {
				assert.Equal(t, 1, times, key)
			}
		}
		old.timers.Close()
		heir.timers.Close()
	})
}

// Keys that another partitioner has placed stay where their records come from.
func TestKeysOfAnotherPartitionerStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(7)
		o, h := byHand(t, w, 100, 100)
		o.assign(0)
		time.Sleep(time.Second)
		l := o.leases[kafka.Partition{Topic: "orders"}]
		for n := range 20 {
			key := fmt.Sprint("key-", n)
			second := time.Now().Unix() - 1
			w.key(key).timers[second] = &record{}
			require.NoError(t, w.store.AddHint(t.Context(), l.Shard(), store.Slab{Start: second / 60 * 60, Size: 60}, key, 1, 0))
		}
		o.timers.Leave(l)
		o.assign(0)
		time.Sleep(time.Second)
		assert.Len(t, h.ready(), 20)
		o.timers.Close()
	})
}

func TestFailedLoadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8)
		w.count = 1
		old := w.own(1, 100)
		old.assign(0)
		old.due("a", entity.Change{Added: []int64{time.Now().Unix() + 50_000}})
		old.timers.Close()
		var up atomic.Bool
		w.store.Fail(func(op string, _ store.Key) error {
			if !up.Load() && (op == "Hints" || op == "Slabs") {
				return errors.New("down")
			}
			return nil
		})
		time.Sleep(50_000 * time.Second)
		o, h := byHand(t, w, 1, 100)
		o.assign(0)
		time.Sleep(time.Minute)
		assert.Empty(t, h.ready())
		assert.Len(t, o.timers.Stalled(50*time.Second), 1)
		assert.Empty(t, o.timers.Stalled(70*time.Second))
		up.Store(true)
		time.Sleep(10 * time.Second)
		assert.Empty(t, o.timers.Stalled(0))
		assert.Len(t, h.ready(), 1)
		o.timers.Close()
	})
}

func TestEventsOfAnAbortedKeyAndOfALeftPartitionStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(9)
		w.count = 1
		o, h := byHand(t, w, 1, 100)
		o.assign(0)
		time.Sleep(time.Second)
		l := o.leases[kafka.Partition{Topic: "orders"}]
		o.due("a", entity.Change{Added: []int64{1}})
		require.Equal(t, []string{"timer a@1"}, h.ready())
		o.due("a", entity.Change{Added: []int64{2}})
		o.due("b", entity.Change{Added: []int64{3, 4}})
		o.timers.Ended(l, message(event.Timer, "a", 1), false)
		require.Equal(t, []string{"timer b@3"}, h.ready(), "the key stands still; its permit is free")
		o.timers.Leave(l)
		o.timers.Ended(l, message(event.Timer, "b", 3), true)
		assert.Empty(t, h.ready())
		assert.Zero(t, o.timers.Snapshot().Firing)
		o.timers.Close()
	})
}

func TestPanicIsAFaultAndNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(10)
		faults := make(chan error, 10)
		timers := New(Options{
			Index: w.store, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler),
			Fault: func(err error) { faults <- err }, Count: func(string) (int, bool) { return 0, false },
			Open: func(context.Context, Lease, string) (Key, error) { return nil, errors.New("unused") },
		})
		timers.Start(func([]Fire) { panic("boom") })
		l := &lease{at: kafka.Partition{Topic: "orders"}}
		timers.Assign(l)
		time.Sleep(time.Second)
		timers.Changed(l, "a", entity.Change{Added: []int64{1}})
		require.ErrorContains(t, <-faults, "boom")
		timers.Close()
	})
}
