package deadline_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fate is what became of an entry.
type fate struct {
	deadline.Entry[*fate]
	added, expired, removed time.Duration
}

const never = -1

func TestEntriesExpireOnceAndOnTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		// A step above 0 waits so many ms, 0 adds an entry, -n removes the n-th one.
		steps := rapid.SliceOfN(rapid.OneOf(rapid.Just(0), rapid.Just(0), rapid.IntRange(1, 150), rapid.IntRange(-60, -1)), 1, 60).Draw(r, "steps")
		synctest.Test(t, func(t *testing.T) { play(t, steps) })
	})
}

func play(t *testing.T, steps []int) {
	const after = 100 * time.Millisecond
	start := time.Now()
	queue := deadline.New(clock.Real{}, after, func(f *fate) {
		assert.EqualValues(t, never, f.expired)
		f.expired = time.Since(start)
	})
	var all, left []*fate
	for _, step := range steps {
		switch {
		case step > 0:
			time.Sleep(time.Duration(step) * time.Millisecond)
		case step == 0:
			f := &fate{added: time.Since(start), expired: never, removed: never}
			f.Value = f
			assert.True(t, queue.Add(&f.Entry))
			all = append(all, f)
		case -step <= len(all):
			f := all[-step-1]
			if held := queue.Holds(&f.Entry); assert.Equal(t, held, queue.Remove(&f.Entry)) && held {
				f.removed = time.Since(start)
			}
		}
		synctest.Wait()
		for _, f := range all {
			want := time.Duration(never)
			if due := f.added + after; f.removed == never && due <= time.Since(start) {
				want = due
			}
			assert.Equal(t, want, f.expired)
		}
	}
	for _, f := range all {
		if f.removed == never && f.expired == never {
			left = append(left, f)
		}
	}
	assert.Equal(t, left, queue.Close())
	assert.False(t, queue.Add(&deadline.Entry[*fate]{}))
}

func TestCloseWaitsForACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended bool
		queue := deadline.New(clock.Real{}, time.Second, func(int) {
			time.Sleep(time.Second)
			ended = true
		})
		queue.Add(&deadline.Entry[int]{})
		time.Sleep(1500 * time.Millisecond)
		queue.Close()
		assert.True(t, ended)
	})
}

func TestWithoutATimeNothingExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := deadline.New(clock.Real{}, 0, func(int) { t.Error("expired") })
		queue.Add(&deadline.Entry[int]{Value: 7})
		time.Sleep(1000 * time.Hour)
		assert.Equal(t, []int{7}, queue.Close())
	})
}

func TestManyGoroutines(t *testing.T) {
	var mutex sync.Mutex
	ends := map[int]int{}
	queue := deadline.New(clock.Real{}, time.Millisecond, func(n int) {
		mutex.Lock()
		defer mutex.Unlock()
		ends[n]++
	})
	var group sync.WaitGroup
	for n := range 2000 {
		group.Go(func() {
			entry := &deadline.Entry[int]{Value: n}
			queue.Add(entry)
			if n%2 == 0 {
				time.Sleep(time.Duration(n%3) * time.Millisecond)
				if queue.Remove(entry) {
					mutex.Lock()
					ends[n]++
					mutex.Unlock()
				}
			}
		})
	}
	group.Wait()
	left := queue.Close()
	for _, n := range left {
		ends[n]++
	}
	assert.Len(t, ends, 2000)
	for n, count := range ends {
		assert.Equal(t, 1, count, "entry %d", n)
	}
}

func BenchmarkAddRemove(b *testing.B) {
	queue := deadline.New(clock.Real{}, time.Minute, func(int) {})
	defer queue.Close()
	entry := &deadline.Entry[int]{}
	b.ReportAllocs()
	for b.Loop() {
		queue.Add(entry)
		queue.Remove(entry)
	}
}
