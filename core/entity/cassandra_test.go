package entity_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/cassandra"
	"prosody/core/store/storetest"
)

// cluster is the Cassandra that tests use; -short leaves it out.
func cluster(t testing.TB) store.Store {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Cassandra")
	}
	nodes := "localhost:9042"
	if text := os.Getenv("PROSODY_TEST_CASSANDRA"); text != "" {
		nodes = text
	}
	opened, err := cassandra.Open(t.Context(), cassandra.Options{Nodes: strings.Split(nodes, ","), Keyspace: "prosody_entity_test"})
	require.NoError(t, err, "Cassandra must answer at %s (PROSODY_TEST_CASSANDRA)", nodes)
	t.Cleanup(func() { assert.NoError(t, opened.Close()) })
	return storetest.Patient(opened)
}

func group(t testing.TB) string { return fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()) }

func TestModelOnCassandra(t *testing.T) {
	inner := cluster(t)
	for seed := range uint64(4) {
		m := newMachine(t, inner, fmt.Sprintf("%s-%d", group(t), seed), seed, clock.Real{}, func(time.Duration) {}, t.TempDir())
		for n := range 400 {
			m.step()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, n)
			}
		}
		m.finish()
	}
}

// A commit interval is a second; so many keys have to fit.
func TestManyMarksAtOnce(t *testing.T) {
	k := entity.New(entity.Options{Store: cluster(t), Group: group(t), Cache: 30_000})
	lease := k.Assign(home)
	const many = 1000
	mark := func(offset int64) {
		for n := range many {
			e, err := lease.Open(t.Context(), key(n))
			require.NoError(t, err)
			of := &event.Event{Kind: event.Message, Topic: home.Topic, Partition: home.Index, Offset: offset, Key: key(n)}
			require.NoError(t, e.Begin(of).Commit(t.Context(), entity.Mark{Event: of, ID: true}))
			e.Close()
		}
	}
	mark(1)
	begin := time.Now()
	failed, err := k.Flush(t.Context(), []kafka.Partition{home})
	require.NoError(t, err)
	assert.Empty(t, failed)
	t.Logf("%d marks in %s", many, time.Since(begin))
	assert.Less(t, time.Since(begin), time.Minute)
}

// Timers that come and go must not make a key slow.
func TestTombstonesOfTimers(t *testing.T) {
	inner := cluster(t)
	options := entity.Options{Store: inner, Group: group(t)}
	lease := entity.New(options).Assign(home)
	cycle := func(n int64) {
		e, err := lease.Open(t.Context(), "a")
		require.NoError(t, err)
		txn := e.Begin(nil)
		require.NoError(t, txn.Replace(t.Context(), n, false))
		require.NoError(t, txn.Schedule(t.Context(), 1_000_000, false))
		require.NoError(t, txn.Commit(t.Context(), entity.Mark{}))
		e.Close()
	}
	load := func() time.Duration { // the fastest of many: what a load takes on a machine at rest
		least := time.Hour
		for range 20 {
			begin := time.Now()
			e, err := entity.New(options).Assign(home).Open(t.Context(), "a")
			least = min(least, time.Since(begin))
			require.NoError(t, err)
			e.Close()
		}
		return least
	}
	cycle(1)
	first := load()
	for n := range int64(3000) {
		cycle(2 + n)
	}
	last := load()
	assert.Eventually(t, func() bool {
		last = min(last, load())
		return last < 5*first+20*time.Millisecond
	}, time.Minute, time.Millisecond)
	t.Logf("a load takes %s, after 3,000 cycles %s", first, last)
}
