package entity_test

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/store"
)

// cycles is how often; CYCLES=150000 is what a busy key does in a day.
func cycles(t *testing.T) int {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("CYCLES"), "5000"))
	require.NoError(t, err)
	return max(2000, count)
}

// steady runs cycles on one key and compares the last of them, and the loads by a new
// owner at the end, with those of a fresh key at the same time: a machine has its moods.
func steady(t *testing.T, options entity.Options, cycle func(lease *entity.Lease, key string, n int)) {
	const part = 1000
	total := cycles(t)
	lease := entity.New(options).Assign(home)
	timed := func(key string, n int) time.Duration {
		begin := time.Now()
		cycle(lease, key, n)
		return time.Since(begin)
	}
	load := func(key string) time.Duration {
		var e *entity.Entity
		begin := time.Now()
		patiently(t, func() (err error) {
			e, err = entity.New(options).Assign(home).Open(t.Context(), key)
			return err
		})
		defer e.Close()
		return time.Since(begin)
	}
	var first, last, fresh, loads, freshLoads []time.Duration
	for n := range total {
		switch {
		case n < part:
			first = append(first, timed("a", n))
		case n < total-part:
			cycle(lease, "a", n)
		default:
			last = append(last, timed("a", n))
			fresh = append(fresh, timed("b", n-total+part))
			if n%20 == 0 {
				loads, freshLoads = append(loads, load("a")), append(freshLoads, load("b"))
			}
		}
	}
	t.Logf("%d cycles: the first %d take %s each, the last %s, of a fresh key %s; a load %s, of a fresh key %s", total, part,
		median(first), median(last), median(fresh), median(loads), median(freshLoads))
	assert.Less(t, median(last), 3*max(median(first), median(fresh)))
	assert.Less(t, median(loads), 3*median(freshLoads)+5*time.Millisecond)
}

// patiently repeats what a busy Cassandra does not take at once, as the chain does.
func patiently(t *testing.T, call func() error) {
	t.Helper()
	err := call()
	for n := 0; n < 20 && fault.Of(err) == fault.Store; n++ {
		time.Sleep(time.Second)
		err = call()
	}
	require.NoError(t, err)
}

func commit(t *testing.T, txn *entity.Txn, of *event.Event) {
	t.Helper()
	patiently(t, func() error { return txn.Commit(t.Context(), entity.Mark{Event: of, ID: true}) })
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// A timer fires and schedules the next one.
func TestCyclesOfTimers(t *testing.T) {
	steady(t, entity.Options{Store: cluster(t), Group: group(t)}, func(lease *entity.Lease, key string, n int) {
		of := fires(key, int64(1_000_000+n))
		var e *entity.Entity
		patiently(t, func() (err error) {
			e, err = lease.Open(t.Context(), key)
			return err
		})
		defer e.Close()
		seen, err := e.Seen(t.Context(), of, true)
		require.NoError(t, err)
		require.Equal(t, n == 0, seen)
		txn := e.Begin(of)
		require.NoError(t, txn.Schedule(t.Context(), int64(1_000_001+n), false))
		commit(t, txn, of)
	})
}

// A message fails, steps aside, and succeeds.
func TestCyclesOfDeferral(t *testing.T) {
	w := newWorld(t, store.Limits{})
	steady(t, entity.Options{Store: cluster(t), Group: group(t)}, func(lease *entity.Lease, key string, n int) {
		of := w.message(key)
		var e *entity.Entity
		patiently(t, func() (err error) {
			e, err = lease.Open(t.Context(), key)
			return err
		})
		defer e.Close()
		seen, err := e.Seen(t.Context(), of, true)
		require.NoError(t, err)
		require.False(t, seen)
		aside := e.Begin(of)
		_, err = aside.Append([]byte("row"))
		require.NoError(t, err)
		aside.Retry(int64(1_000_000_000+n), 1)
		commit(t, aside, of)
		var row []byte
		patiently(t, func() (err error) {
			_, row, err = e.Head(t.Context())
			return err
		})
		require.Equal(t, "row", string(row))
		done := e.Begin(of)
		done.Advance()
		commit(t, done, of)
	})
}
