package state_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/state"
)

// A handler that sets 5,000 keys of 1 KiB commits them at once, and a later owner sees all.
func TestManyKeysAtOnce(t *testing.T) {
	for _, bytes := range []int64{0, 100_000} {
		w := start(t, t.Context(), usual())
		w.bytes = bytes
		w.define(usual())
		w.assign()
		w.run(func(a *attempt) {
			for i := range 5000 {
				require.NoError(t, a.mapping("map").Set(state.Memory(), fmt.Sprintf("%05d", i), js(`"`+strings.Repeat("x", 1024)+`"`)))
			}
			w.store.Reset()
		})
		assert.NotZero(t, w.store.Writes())
		w.assign()
		w.run(func(a *attempt) {
			entries := all(t, t.Context(), first(a.mapping("map").Scan(state.Query{Backward: true})), nil)
			require.Len(t, entries, 5000)
			assert.Equal(t, "00000", entries[4999].Key)
			if bytes > 0 {
				assert.Less(t, state.Bytes(a.txn), 3*bytes, "memory is bounded")
			}
			for range 3 {
				item, found, err := a.mapping("map").Get(t.Context(), "04711")
				require.NoError(t, err)
				require.True(t, found)
				assert.Len(t, item.JSON, 1026)
			}
		})
	}
}

// Collections that are far larger than memory are read from the store once, or never where
// the key is new; then the disk answers.
func TestLargeCollectionsAreReadOnce(t *testing.T) {
	const size = 3000
	for _, fresh := range []bool{true, false} {
		t.Run(fmt.Sprintf("new key %v", fresh), func(t *testing.T) {
			w := start(t, t.Context(), usual())
			w.bytes, w.dir = 100_000, t.TempDir()
			t.Cleanup(func() { require.NoError(t, w.disk.Close()) })
			w.define(usual())
			w.assign()
			text := strings.Repeat("x", 500)
			for part := range 10 {
				w.run(func(a *attempt) {
					for i := part * size / 10; i < (part+1)*size/10; i++ {
						require.NoError(t, a.mapping("map").Set(state.Memory(), fmt.Sprintf("%05d", i), js(`"`+text+`"`)))
						require.NoError(t, a.set("set").Add(state.Memory(), fmt.Sprintf("%05d", i)))
						require.NoError(t, a.deque("deque").Append(state.Memory(), js(strconv.Itoa(i))))
					}
				})
			}
			look := func() {
				w.evict()
				w.run(func(a *attempt) {
					entries := all(t, t.Context(), first(a.mapping("map").Scan(state.Query{})), nil)
					require.Len(t, entries, size)
					assert.Equal(t, "02999", entries[size-1].Key)
					require.Len(t, all(t, t.Context(), first(a.set("set").Scan(state.Query{Backward: true})), nil), size)
					for _, backward := range []bool{false, true} {
						scan, err := a.deque("deque").Scan(state.Span{Backward: backward})
						require.Len(t, all(t, t.Context(), scan, err), size)
					}
					for i := 0; i < size+10; i += 7 {
						_, found, err := a.mapping("map").Get(t.Context(), fmt.Sprintf("%05d", i))
						require.NoError(t, err)
						assert.Equal(t, i < size, found)
						_, found, err = a.deque("deque").Get(t.Context(), int64(i))
						require.NoError(t, err)
						assert.Equal(t, i < size, found)
					}
					assert.Less(t, state.Bytes(a.txn), int64(300_000), "memory is bounded")
				})
			}
			if !fresh {
				w.assign()
				look()
			}
			w.evict() // the other key is read for the first time
			w.store.Reset()
			look()
			assert.Zero(t, w.store.Reads(), "%v", w.store.Calls())
			// A queue stays known at both ends while it is used.
			for i := range 200 {
				w.run(func(a *attempt) {
					require.NoError(t, a.deque("deque").Append(t.Context(), js(strconv.Itoa(size+i))))
					item, found, err := a.deque("deque").PopLeft(t.Context())
					require.NoError(t, err)
					require.True(t, found)
					assert.Equal(t, strconv.Itoa(i), string(item.JSON))
				})
				if i%20 == 0 {
					w.evict()
					w.run(func(a *attempt) {
						item, _, err := a.deque("deque").Peek(t.Context())
						require.NoError(t, err)
						assert.Equal(t, strconv.Itoa(size+i), string(item.JSON))
					})
				}
			}
			assert.Zero(t, w.store.Reads(), "%v", w.store.Calls())
		})
	}
}

// Messages of a scan are read some at a time, and come in their order.
func TestMessagesAreReadAhead(t *testing.T) {
	w := start(t, t.Context(), usual())
	const size = 100
	for range size {
		w.run(func(a *attempt) {
			h := bind[*state.Deque](a, "deque", "message", "backlog")
			require.NoError(t, h.Append(state.Memory(), state.Delivered(a.event)))
		})
	}
	var reading, most, calls atomic.Int64
	arrived := make(chan struct{}, size)
	limit := time.Now().Add(time.Minute)
	w.read = func(offset int64) {
		calls.Add(1)
		for now := reading.Add(1); ; {
			seen := most.Load()
			if now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		arrived <- struct{}{}
		for len(arrived) < 32 && offset <= 32 && time.Now().Before(limit) {
			runtime.Gosched()
		}
		reading.Add(-1)
	}
	w.define(usual())
	w.assign()
	w.run(func(a *attempt) {
		h := bind[*state.Deque](a, "deque", "message", "backlog")
		scan, err := h.Scan(state.Span{})
		require.NoError(t, err)
		var offsets []int64
		for {
			some, err := scan.Next(t.Context(), 256)
			require.NoError(t, err)
			if len(some) == 0 {
				break
			}
			for _, one := range some {
				offsets = append(offsets, one.Item.Message.Offset)
			}
		}
		require.Len(t, offsets, size)
		assert.True(t, slices.IsSorted(offsets))
	})
	assert.Equal(t, int64(size), calls.Load())
	assert.Equal(t, int64(32), most.Load(), "as many at once as a window has, and no more")
}

// Steady state: no reads, and one write for each event.
func TestOneWriteAndNoReads(t *testing.T) {
	w := start(t, t.Context(), usual())
	count := 0
	work := func(a *attempt) {
		count++
		v, m, d := a.value("value"), a.mapping("map"), a.deque("deque")
		item, found, err := v.Get(state.Memory())
		require.NoError(t, err)
		if count > 1 {
			require.True(t, found)
			require.Equal(t, fmt.Sprint(count-1), string(item.JSON))
		}
		require.NoError(t, v.Set(state.Memory(), js(fmt.Sprint(count))))
		require.NoError(t, m.Set(state.Memory(), fmt.Sprint(count%50), js("1")))
		require.NoError(t, m.Remove(state.Memory(), fmt.Sprint((count+7)%50)))
		require.NoError(t, d.Append(state.Memory(), js(fmt.Sprint(count))))
		if count > 3 {
			item, _, err = d.PopLeft(state.Memory())
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(count-3), string(item.JSON))
		}
		_, err = a.set("set").Contains(state.Memory(), "x")
		require.NoError(t, err)
		require.NoError(t, a.set("set").Add(state.Memory(), fmt.Sprint(count%5)))
	}
	w.run(work)
	w.store.Reset()
	for range 200 {
		w.run(work)
	}
	assert.Zero(t, w.store.Reads())
	assert.Equal(t, 200, w.store.Writes())
	// A counter costs no more in a new assignment than the root.
	w.assign()
	w.store.Reset()
	w.run(func(a *attempt) {
		_, found, err := a.value("value").Get(state.Memory())
		require.NoError(t, err)
		require.True(t, found)
		empty, err := a.mapping("untracked").IsEmpty(state.Memory())
		require.NoError(t, err)
		require.True(t, empty)
		has, err := a.mapping("map").Contains(state.Memory(), "nobody")
		require.NoError(t, err)
		require.False(t, has)
	})
	assert.Zero(t, w.store.Reads())
	// A small map is read at once, at the first touch.
	w.run(func(a *attempt) {
		entries := all(t, t.Context(), first(a.mapping("map").Scan(state.Query{Keys: true})), nil)
		for _, one := range entries {
			_, found, err := a.mapping("map").Get(t.Context(), one.Key)
			require.NoError(t, err)
			require.True(t, found)
		}
		require.Greater(t, len(entries), 20)
	})
	assert.Equal(t, 1, w.store.Reads())
}

// A work queue stays as fast as it was, whatever was in it.
func TestAQueueDoesNotAge(t *testing.T) {
	w := start(t, t.Context(), usual())
	w.run(func(a *attempt) {
		for i := range 5 {
			require.NoError(t, a.deque("deque").Append(t.Context(), js(fmt.Sprint(i))))
		}
	})
	w.store.Reset()
	const cycles = 150_000
	for range cycles {
		w.run(func(a *attempt) {
			require.NoError(t, a.deque("deque").Append(state.Memory(), js("1")))
			_, found, err := a.deque("deque").PopLeft(state.Memory())
			require.NoError(t, err)
			require.True(t, found)
		})
		clear(w.records)
	}
	assert.Zero(t, w.store.Reads())
	assert.Equal(t, cycles, w.store.Writes())
	assert.Less(t, state.Bytes(w.begin().txn), int64(5000), "what is popped is forgotten")
	w.assign()
	w.store.Reset()
	w.run(func(a *attempt) {
		_, found, err := a.deque("deque").PopLeft(t.Context())
		require.NoError(t, err)
		require.True(t, found)
	})
	assert.LessOrEqual(t, w.store.Reads(), 1)
}
