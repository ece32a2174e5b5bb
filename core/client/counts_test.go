package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/pipeline"
	"prosody/core/store/storetest"
)

// Of a key that is known an event costs no read and at most one write, from the record
// to the offset commit.
func TestCallsOfTheStore(t *testing.T) {
	client := open(t, map[string]string{"commit_interval": "50ms", "slab_size": "7d"})
	store := storetest.Counting(client.store)
	client.store = store
	const keys, rounds = 20, 10
	var handled atomic.Int64
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			defer handled.Add(1)
			if i.Event.Kind == event.Timer {
				return pipeline.Outcome{Class: pipeline.Success}
			}
			next := time.Now().Unix() + 3600
			switch i.Event.ID {
			case "plain":
				return pipeline.Outcome{Class: pipeline.Success}
			case "past":
				next = time.Now().Unix() - 1
			}
			require.NoError(t, i.Txn.Replace(ctx, next, false))
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	settled := func(count int64) {
		t.Helper()
		require.Eventually(t, func() bool { return handled.Load() == count }, 10*time.Second, time.Millisecond)
		require.Eventually(t, func() bool {
			now := client.current()
			return now.consumer.Snapshot().Running == 0 && now.keep.keys().Unwritten == 0
		}, 10*time.Second, time.Millisecond)
		handled.Store(0)
	}
	round := func(payload func(key, n int) string) {
		for n := range rounds {
			for key := range keys {
				send(t, client, fmt.Sprint(key), payload(key, n))
			}
		}
	}
	for key := range keys {
		send(t, client, fmt.Sprint(key), `{"first":true}`)
	}
	settled(keys)
	t.Logf("first touch of %d keys, with a timer: %v", keys, store.Calls())
	require.LessOrEqual(t, store.Calls()["Root"], keys)
	require.LessOrEqual(t, store.Calls()["AddHint"], keys+4)

	reads := func() int { return store.Calls()["Root"] + store.Calls()["Get"] + store.Calls()["Scan"] }
	writes := func() int { return store.Calls()["Apply"] + store.Calls()["AddHint"] }
	store.Reset() // what loads timers reads the index once more, now or later
	round(func(key, n int) string { return fmt.Sprintf(`{"id":"%d-%d"}`, key, n) })
	settled(keys * rounds)
	t.Logf("%d events with a timer and an id: %v", keys*rounds, store.Calls())
	require.Zero(t, reads())
	require.Equal(t, keys*rounds, writes())

	store.Reset()
	round(func(int, int) string { return `{"id":"plain"}` })
	settled(keys) // of each key the others have the same id
	t.Logf("%d events, most of them duplicates: %v", keys*rounds, store.Calls())
	require.Zero(t, reads())
	require.LessOrEqual(t, writes(), keys*rounds)

	store.Reset()
	for key := range keys {
		send(t, client, fmt.Sprint(key), `{"id":"past"}`)
	}
	settled(2 * keys)
	t.Logf("%d events and the timers that they fire: %v", keys, store.Calls())
	require.Zero(t, reads())
	require.Equal(t, 2*keys, writes())
}
