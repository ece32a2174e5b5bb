package state_test

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/state"
	"prosody/core/store/cassandra"
	"prosody/core/store/storetest"
)

// A deque that is used as a queue stays as fast as it was, for its owner and for the next
// one: nobody reads what was popped. CYCLES=100000 is what a busy key does in a day.
func TestAQueueDoesNotAgeOnCassandra(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Cassandra")
	}
	nodes := cmp.Or(os.Getenv("PROSODY_TEST_CASSANDRA"), "localhost:9042")
	opened, err := cassandra.Open(t.Context(), cassandra.Options{Nodes: strings.Split(nodes, ","), Keyspace: "prosody_state_test"})
	require.NoError(t, err, "Cassandra must answer at %s (PROSODY_TEST_CASSANDRA)", nodes)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	cycles, err := strconv.Atoi(cmp.Or(os.Getenv("CYCLES"), "3000"))
	require.NoError(t, err)
	const part, length = 500, 5
	manual := clock.NewManual(time.Now())
	owner := func() *world { return startOn(t, t.Context(), storetest.Patient(opened), manual, usual()) }
	old, young := owner(), owner()
	cycle := func(w *world, n int) time.Duration {
		began := time.Now()
		manual.Advance(time.Millisecond)
		w.run(func(a *attempt) {
			d := a.deque("deque")
			require.NoError(t, d.Append(t.Context(), js(strconv.Itoa(n))))
			if n < length {
				return
			}
			item, found, err := d.PopLeft(t.Context())
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, strconv.Itoa(n-length), string(item.JSON))
		})
		return time.Since(began)
	}
	// inherit is what a new owner needs to see both ends and all between.
	inherit := func(w *world) time.Duration {
		began := time.Now()
		w.assign()
		a := w.begin()
		for _, peek := range []func() (state.Item, bool, error){
			func() (state.Item, bool, error) { return a.deque("deque").PeekLeft(t.Context()) },
			func() (state.Item, bool, error) { return a.deque("deque").Peek(t.Context()) },
		} {
			_, found, err := peek()
			require.NoError(t, err)
			require.True(t, found)
		}
		scan, err := a.deque("deque").Scan(state.Span{})
		require.Len(t, all(t, t.Context(), scan, err), length)
		a.fail()
		return time.Since(began)
	}
	var first, last, fresh, heirs, freshHeirs []time.Duration
	for n := range cycles {
		switch took := cycle(old, n); {
		case n < part:
			first = append(first, took)
		case n >= cycles-part:
			last, fresh = append(last, took), append(fresh, cycle(young, len(fresh)))
			if len(fresh)%20 == 19 {
				heirs, freshHeirs = append(heirs, inherit(old)), append(freshHeirs, inherit(young))
			}
		}
	}
	middle := func(times []time.Duration) time.Duration {
		slices.Sort(times)
		return times[len(times)/2]
	}
	t.Logf("%d cycles: the first %d take %s each, the last %s, of a fresh key %s; a new owner needs %s, of a fresh key %s",
		cycles, part, middle(first), middle(last), middle(fresh), middle(heirs), middle(freshHeirs))
	assert.Less(t, middle(last), 3*max(middle(first), middle(fresh)))
	assert.Less(t, middle(heirs), 3*middle(freshHeirs)+5*time.Millisecond)
}
