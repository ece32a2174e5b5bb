package clock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAShiftedClockFlowsAndJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clock := NewShifted()
		var mutex sync.Mutex
		fired := map[string]time.Duration{}
		after := func(name string, d time.Duration) Timer {
			return clock.AfterFunc(d, func() {
				mutex.Lock()
				defer mutex.Unlock()
				fired[name] = time.Since(began)
			})
		}
		after("past", -time.Hour)
		after("flow", time.Second)
		after("jump", time.Hour)
		after("short", time.Hour+10*time.Second)
		stopped := after("stopped", time.Hour)
		assert.True(t, stopped.Stop())
		assert.False(t, stopped.Stop())

		time.Sleep(2 * time.Second)
		clock.Advance(time.Hour - 2*time.Second)
		clock.Advance(-time.Hour) // never back
		assert.Equal(t, began.Add(time.Hour), clock.Now())
		synctest.Wait()
		mutex.Lock()
		assert.Equal(t, map[string]time.Duration{"past": 0, "flow": time.Second, "jump": 2 * time.Second}, fired)
		mutex.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, 12*time.Second, fired["short"])
		assert.Len(t, fired, 4)
		assert.Empty(t, clock.waiting)
	})
}

func TestSleepOnAShiftedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewShifted()
		began := time.Now()
		go func() {
			synctest.Wait()
			clock.Advance(24 * time.Hour)
		}()
		require.NoError(t, Sleep(t.Context(), clock, 24*time.Hour))
		assert.Zero(t, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, Sleep(ctx, clock, time.Hour))
		assert.Empty(t, clock.waiting)
	})
}
