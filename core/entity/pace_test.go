package entity_test

import (
	"context"
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
