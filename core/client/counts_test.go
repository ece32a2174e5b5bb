package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/pipeline"
	"prosody/core/store"
	"prosody/core/store/storetest"
)

// Of a key that is known an event costs no read and at most one write, from the record
// to the offset commit.
func TestCallsOfTheStore(t *testing.T) {
	client := open(t, map[string]string{"commit_interval": "50ms", "slab_size": "7d"})
	counter := storetest.Counting(client.store)
	client.store = counter
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
		require.Eventually(t, func() bool { return handled.Load() == count }, 2*time.Minute, time.Millisecond)
		require.Eventually(t, func() bool {
			now := client.current()
			return now.consumer.Snapshot().Running == 0 && now.keep.Keeper.Snapshot().Unwritten == 0
		}, 2*time.Minute, time.Millisecond)
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
	t.Logf("first touch of %d keys, with a timer: %v", keys, counter.Calls())
	require.LessOrEqual(t, counter.Calls()["Root"], keys)
	require.LessOrEqual(t, counter.Calls()["AddHint"], keys+4)

	reads := func() int { return counter.Calls()["Root"] + counter.Calls()["Get"] + counter.Calls()["Scan"] }
	writes := func() int { return counter.Calls()["Apply"] + counter.Calls()["AddHint"] }
	counter.Reset() // what loads timers reads the index once more, now or later
	round(func(key, n int) string { return fmt.Sprintf(`{"id":"%d-%d"}`, key, n) })
	settled(keys * rounds)
	t.Logf("%d events with a timer and an id: %v", keys*rounds, counter.Calls())
	require.Zero(t, reads())
	require.Equal(t, keys*rounds, writes())

	counter.Reset()
	round(func(int, int) string { return `{"id":"plain"}` })
	settled(keys) // of each key the others have the same id
	t.Logf("%d events, most of them duplicates: %v", keys*rounds, counter.Calls())
	require.Zero(t, reads())
	require.LessOrEqual(t, writes(), keys*rounds)

	counter.Reset()
	for key := range keys {
		send(t, client, fmt.Sprint(key), `{"id":"past"}`)
	}
	settled(2 * keys)
	t.Logf("%d events and the timers that they fire: %v", keys, counter.Calls())
	require.Zero(t, reads())
	require.Equal(t, 2*keys, writes())
}

// slow is a store whose writes wait for a while.
type slow struct {
	backend
	gate chan struct{}
	on   atomic.Bool
}

func (s *slow) Apply(ctx context.Context, key store.Key, batch store.Batch) error {
	if s.on.Load() {
		<-s.gate
	}
	return s.backend.Apply(ctx, key, batch)
}

// Timers of one second start without waiting for what those before them write.
func TestTimersDoNotWaitForWrites(t *testing.T) {
	client := open(t, map[string]string{"slab_size": "7d"})
	held := &slow{backend: client.store, gate: make(chan struct{})}
	client.store = held
	const keys = 500
	var scheduled, fired atomic.Int64
	second := time.Now().Unix() + 3
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			if i.Event.Kind == event.Timer {
				fired.Add(1)
				return pipeline.Outcome{Class: pipeline.Success}
			}
			defer scheduled.Add(1)
			require.NoError(t, i.Txn.Schedule(ctx, second, false))
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	for key := range keys {
		send(t, client, fmt.Sprint(key), `{}`)
	}
	require.Eventually(t, func() bool {
		return scheduled.Load() == keys && client.current().consumer.Snapshot().Running == 0
	}, 2*time.Minute, time.Millisecond)
	held.on.Store(true)
	assert.Eventually(t, func() bool { return fired.Load() == keys }, 2*time.Minute, time.Millisecond)
	held.on.Store(false)
	close(held.gate)
}
