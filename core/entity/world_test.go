package entity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/disk"
	"prosody/core/store/memory"
	"prosody/core/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(disk.Afterglow)) }

var home = kafka.Partition{Topic: "orders", Index: 3}

// world is a store, a clock and what is kept in them.
type world struct {
	t      testing.TB
	clock  *clock.Manual
	memory *memory.Store
	store  *storetest.Counter
	next   int64
}

func newWorld(t testing.TB, limits store.Limits) *world {
	w := &world{t: t, clock: clock.NewManual(time.Unix(1_700_000_000, 0))}
	w.memory = memory.NewRegistry(memory.Settings{Clock: w.clock, Limits: limits}).Store("x")
	w.store = storetest.Counting(w.memory)
	return w
}

// keeper is a process of its own.
func (w *world) keeper(change ...func(*entity.Options)) *entity.Keeper {
	options := entity.Options{Store: w.store, Group: "g", Version: "1", Clock: w.clock, TTL: time.Hour}
	for _, one := range change {
		one(&options)
	}
	return entity.New(options)
}

// message is the next one of a key.
func (w *world) message(key string) *event.Event {
	w.next++
	return &event.Event{
		Kind: event.Message, Topic: home.Topic, Partition: home.Index, Offset: w.next, Timestamp: w.clock.Now().UnixMilli(), Key: key,
	}
}

func (w *world) named(key, id string) *event.Event {
	made := w.message(key)
	made.ID, made.HasID = id, true
	return made
}

func fires(key string, second int64) *event.Event {
	return &event.Event{
		Kind: event.Timer, Topic: home.Topic, Partition: home.Index, Offset: -1, Timestamp: second * 1000, Key: key,
	}
}

func (w *world) open(lease *entity.Lease, key string) *entity.Entity {
	w.t.Helper()
	e, err := lease.Open(w.t.Context(), key)
	require.NoError(w.t, err)
	return e
}

// handle is what the chain does with an event whose handler succeeds.
func (w *world) handle(lease *entity.Lease, of *event.Event, work func(*entity.Txn)) (seen bool) {
	w.t.Helper()
	e := w.open(lease, of.Key)
	defer e.Close()
	seen, err := e.Seen(w.t.Context(), of, true)
	require.NoError(w.t, err)
	if seen {
		return true
	}
	txn := e.Begin(of)
	if work != nil {
		work(txn)
	}
	require.NoError(w.t, txn.Commit(w.t.Context(), entity.Mark{Event: of, ID: true}))
	return false
}

func (w *world) seen(lease *entity.Lease, of *event.Event) bool {
	w.t.Helper()
	e := w.open(lease, of.Key)
	defer e.Close()
	seen, err := e.Seen(w.t.Context(), of, true)
	require.NoError(w.t, err)
	return seen
}

func (w *world) timers(lease *entity.Lease, key string) []int64 {
	w.t.Helper()
	e := w.open(lease, key)
	defer e.Close()
	timers, err := e.Timers(w.t.Context())
	require.NoError(w.t, err)
	list := []int64{}
	for _, one := range timers {
		list = append(list, one.Second)
	}
	return list
}

func (w *world) flush(k *entity.Keeper, names ...kafka.Partition) []kafka.Partition {
	w.t.Helper()
	failed, err := k.Flush(w.t.Context(), names)
	require.Equal(w.t, len(failed) > 0, err != nil)
	return failed
}

// hints lists the slabs of a shard that name the key.
func (w *world) hints(lease *entity.Lease, key string) []store.Slab {
	w.t.Helper()
	slabs, err := w.memory.Slabs(w.t.Context(), lease.Shard(), 1<<40)
	require.NoError(w.t, err)
	var found []store.Slab
	for _, slab := range slabs {
		keys, err := w.memory.Hints(w.t.Context(), lease.Shard(), slab, "", 1000)
		require.NoError(w.t, err)
		for _, one := range keys {
			if one == key {
				found = append(found, slab)
			}
		}
	}
	return found
}

func schedule(t testing.TB, txn *entity.Txn, seconds ...int64) {
	t.Helper()
	for _, second := range seconds {
		require.NoError(t, txn.Schedule(t.Context(), second, false))
	}
}

func scheduled(t testing.TB, txn *entity.Txn) []int64 {
	t.Helper()
	seconds, err := txn.Scheduled(t.Context())
	require.NoError(t, err)
	return seconds
}

func cell(name string, data []byte) store.Put {
	return store.Put{Row: store.Row{Slot: store.Slot{Kind: store.Cell, Name: "cells", Coordinate: name}, Data: data}}
}

var (
	errDown  = errors.New("down")
	lostDown = memory.Lost(errDown)
)

// fail makes writes fail: lost ones happen all the same.
func (w *world) fail(lost bool) {
	w.memory.Fail(func(op string, _ store.Key) error {
		if op != "Apply" {
			return nil
		}
		if lost {
			return memory.Lost(errDown)
		}
		return errDown
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func key(n int) string { return fmt.Sprintf("key-%d", n) }
