package state_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/state"
	"prosody/core/store"
)

// A scan goes on over a commit, and does not give what was there before.
func TestAScanGoesOnOverACommit(t *testing.T) {
	for _, backward := range []bool{false, true} {
		w := start(t, t.Context(), usual())
		w.run(func(a *attempt) {
			for i := range 60 {
				require.NoError(t, a.mapping("untracked").Set(t.Context(), fmt.Sprintf("%02d", i), js("1")))
			}
		})
		w.assign()
		w.run(func(a *attempt) {
			m := a.mapping("untracked")
			scan, err := m.Scan(state.Query{Backward: backward})
			require.NoError(t, err)
			some, err := scan.Next(t.Context(), 3)
			require.NoError(t, err)
			require.Len(t, some, 3)
			for i := 10; i < 50; i += 2 {
				require.NoError(t, m.Remove(t.Context(), fmt.Sprintf("%02d", i)))
				require.NoError(t, m.Set(t.Context(), fmt.Sprintf("%02d", i+1), js("2")))
			}
			_, err = m.Commit(t.Context())
			require.NoError(t, err)
			rest := all(t, t.Context(), scan, nil)
			require.Len(t, rest, 37)
			for _, one := range rest {
				inside := one.Key >= "10" && one.Key < "50"
				assert.Equal(t, inside, string(one.Item.JSON) == "2", one.Key)
			}
		})
	}
}

// A read that is under way while something is committed does not bring back what was.
func TestAReadDuringACommit(t *testing.T) {
	w := start(t, t.Context(), usual())
	w.run(func(a *attempt) {
		for _, key := range []string{"a", "b"} {
			require.NoError(t, a.mapping("untracked").Set(t.Context(), key, js("1")))
		}
	})
	w.assign()
	slow := &slow{Store: w.broken.Store}
	w.broken.Store = slow
	w.run(func(a *attempt) {
		m := a.mapping("untracked")
		slow.after = func() {
			require.NoError(t, m.Set(t.Context(), "a", js("2")))
			_, err := m.Commit(t.Context())
			require.NoError(t, err)
		}
		item, found, err := m.Get(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, "2", string(item.JSON))
	})
	w.run(func(a *attempt) {
		item, _, err := a.mapping("untracked").Get(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "2", string(item.JSON))
	})
}

// slow does something once, between a read and its answer.
type slow struct {
	store.Store
	after func()
}

func (s *slow) Get(ctx context.Context, key store.Key, slots []store.Slot) ([][]byte, error) {
	rows, err := s.Store.Get(ctx, key, slots)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return rows, err
}

// Nothing is left in the store of what was removed.
func TestNothingIsLeft(t *testing.T) {
	w := start(t, t.Context(), usual())
	long := js(`"` + strings.Repeat("x", 2000) + `"`)
	w.run(func(a *attempt) {
		require.NoError(t, a.value("value").Set(t.Context(), long))
		for i := range 9 {
			require.NoError(t, a.mapping("map").Set(t.Context(), fmt.Sprint(i), long))
			require.NoError(t, a.mapping("untracked").Set(t.Context(), fmt.Sprint(i), long))
			require.NoError(t, a.set("set").Add(t.Context(), fmt.Sprint(i)))
			require.NoError(t, a.deque("deque").Append(t.Context(), long))
		}
	})
	rows := func() (n int) {
		at := store.Key{Group: "g", Topic: "orders", Key: w.key}
		for _, name := range []string{"value", "map", "untracked", "set", "deque"} {
			found, _, err := w.store.Scan(t.Context(), at, store.Range{Kind: store.Cell, Name: name}, false, 100)
			require.NoError(t, err)
			n += len(found)
		}
		return n
	}
	assert.Equal(t, 37, rows())
	w.run(func(a *attempt) { // a short value needs no row
		require.NoError(t, a.value("value").Set(t.Context(), js("1")))
		require.NoError(t, a.mapping("untracked").Clear(t.Context()))
		for _, left := range []bool{true, false, false, true} {
			pop := a.deque("deque").Pop
			if left {
				pop = a.deque("deque").PopLeft
			}
			_, found, err := pop(t.Context())
			require.NoError(t, err)
			require.True(t, found)
		}
	})
	assert.Equal(t, 23, rows())
	w.run(func(a *attempt) {
		require.NoError(t, a.value("value").Clear(t.Context()))
		require.NoError(t, a.deque("deque").Clear(t.Context()))
		for i := range 9 {
			require.NoError(t, a.mapping("map").Remove(t.Context(), fmt.Sprint(i)))
			require.NoError(t, a.set("set").Discard(t.Context(), fmt.Sprint(i)))
		}
	})
	assert.Zero(t, rows())
	assert.Empty(t, w.begin().txn.Headers())
}

// More rows than a page of the store has, in both directions, also with a store that ends
// in the middle: an error, never a short list.
func TestManyRows(t *testing.T) {
	w := start(t, t.Context(), usual())
	const count = 12_001
	w.run(func(a *attempt) {
		for i := range count {
			require.NoError(t, a.mapping("map").Set(state.Memory(), fmt.Sprintf("%05d", i), js(fmt.Sprint(i))))
			require.NoError(t, a.deque("deque").Append(state.Memory(), js(fmt.Sprint(i))))
		}
	})
	for _, backward := range []bool{false, true} {
		w.assign()
		w.run(func(a *attempt) {
			check := func(entries []state.Entry) {
				require.Len(t, entries, count)
				if backward {
					slices.Reverse(entries)
				}
				for i, one := range entries {
					require.Equal(t, fmt.Sprint(i), string(one.Item.JSON))
				}
			}
			check(all(t, t.Context(), first(a.mapping("map").Scan(state.Query{Backward: backward})), nil))
			check(all(t, t.Context(), first(a.deque("deque").Scan(state.Span{Backward: backward})), nil))
		})
		w.assign()
		w.run(func(a *attempt) {
			scan, err := a.mapping("map").Scan(state.Query{Backward: backward})
			require.NoError(t, err)
			for n := 0; ; n++ {
				w.broken.flaky = n > 0
				some, err := scan.Next(t.Context(), 100)
				if err != nil {
					assert.Equal(t, fault.Store, fault.Of(err))
					break
				}
				require.NotEmpty(t, some)
			}
			w.broken.flaky = false
			some, err := scan.Next(t.Context(), 1)
			require.NoError(t, err)
			assert.NotEmpty(t, some, "it can go on")
			scan.Close()
			_, err = scan.Next(t.Context(), 1)
			assert.EqualError(t, err, "state cursor used after it was closed")
		})
	}
}
