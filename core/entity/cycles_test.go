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
// owner at the end, with the first ones.
func steady(t *testing.T, options entity.Options, cycle func(lease *entity.Lease, n int)) {
	const part = 1000
	total := cycles(t)
	lease := entity.New(options).Assign(home)
	took := make([]time.Duration, 0, total)
	run := func(count int) {
		for range count {
			begin := time.Now()
			cycle(lease, len(took))
			took = append(took, time.Since(begin))
		}
	}
	load := func() time.Duration {
		loads := make([]time.Duration, 20)
		for i := range loads {
			begin := time.Now()
			e, err := entity.New(options).Assign(home).Open(t.Context(), "a")
			require.NoError(t, err)
			loads[i] = time.Since(begin)
			e.Close()
		}
		return median(loads)
	}
	run(part)
	before := load()
	run(total - part)
	after := load()
	first, last := median(took[:part]), median(took[total-part:])
	t.Logf("%d cycles: the first %d take %s each, the last %s; a load %s, then %s", total, part, first, last, before, after)
	assert.Less(t, last, 3*first)
	assert.Less(t, after, 3*before+5*time.Millisecond)
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
	steady(t, entity.Options{Store: cluster(t), Group: group(t)}, func(lease *entity.Lease, n int) {
		of := fires("a", int64(1_000_000+n))
		var e *entity.Entity
		patiently(t, func() (err error) {
			e, err = lease.Open(t.Context(), "a")
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
	steady(t, entity.Options{Store: cluster(t), Group: group(t)}, func(lease *entity.Lease, n int) {
		of := w.message("a")
		var e *entity.Entity
		patiently(t, func() (err error) {
			e, err = lease.Open(t.Context(), "a")
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
			row, err = e.Head(t.Context())
			return err
		})
		require.Equal(t, "row", string(row))
		done := e.Begin(of)
		done.Advance()
		commit(t, done, of)
	})
}
