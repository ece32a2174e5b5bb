package entity_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/kafka"
	"prosody/core/store"
)

// Offset commits wait for marks: no more of them wait than the store takes in a second
// or so. When the store is fast again, more may.
func TestMarksWaitNoLongerThanAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, store.Limits{})
		delay := 100 * time.Millisecond // 640 marks a second
		w.memory.Fail(func(op string, _ store.Key) error {
			if op == "Apply" {
				time.Sleep(delay)
			}
			return nil
		})
		k := w.keeper(func(o *entity.Options) { o.Parallel, o.Cache = 64, 50_000 })
		lease := k.Assign(home)
		next := 0
		mark := func(count int) (behind int) {
			for range count {
				w.handle(lease, w.message(key(next)), nil)
				next++
			}
			_, _, behind = k.Stats()
			return behind
		}
		flush := func() time.Duration {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := k.Flush(ctx, []kafka.Partition{home})
			require.NoError(t, err)
			return time.Since(began)
		}
		assert.Equal(t, 1024, mark(1100), "nobody knows yet that the store is slow")
		assert.Greater(t, flush(), 1500*time.Millisecond)
		for range 3 {
			assert.InDelta(t, 640, mark(700), 100)
			assert.Less(t, flush(), 1200*time.Millisecond)
		}
		delay = 0
		for range 10 {
			mark(2000)
			flush()
		}
		assert.Equal(t, 2000, mark(2000))
	})
}

// Few marks are written one after the other, so that they do not delay the events of that
// moment; many at once. After a failure nobody waits for one that hangs.
func TestAFlushIsGentle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, store.Limits{})
		var flying, most atomic.Int64
		var hangs atomic.Bool
		w.memory.Fail(func(op string, at store.Key) error {
			if op != "Apply" {
				return nil
			}
			defer flying.Add(-1)
			now := flying.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); {
				old = most.Load()
			}
			time.Sleep(2 * time.Millisecond)
			if hangs.Load() && at.Key == key(0) {
				time.Sleep(time.Hour)
				return errDown
			}
			return nil
		})
		k := w.keeper(func(o *entity.Options) { o.Parallel, o.Cache = 64, 50_000 })
		lease := k.Assign(home)
		flush := func(count int) (width int64, took time.Duration) {
			for n := range count {
				w.handle(lease, w.message(key(n)), nil)
			}
			most.Store(0)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := k.Flush(ctx, []kafka.Partition{home})
			require.Equal(t, hangs.Load(), err != nil)
			return most.Load(), time.Since(began)
		}
		for _, c := range []struct {
			count int
			width int64
			took  time.Duration
		}{
			{200, 64, 8 * time.Millisecond}, // nobody knows yet how long a write takes
			{50, 1, 100 * time.Millisecond},
			{100, 2, 100 * time.Millisecond},
			{1000, 11, 182 * time.Millisecond},
		} {
			width, took := flush(c.count)
			assert.Equal(t, c.width, width, c.count)
			assert.Equal(t, c.took, took, c.count)
		}
		hangs.Store(true)
		flush(50)
		width, _ := flush(50)
		assert.Equal(t, int64(50), width, "the others are written beside it")
		time.Sleep(2 * time.Hour)
		hangs.Store(false)
		flush(1)
		_, _, behind := k.Stats()
		assert.Zero(t, behind)
	})
}
