package entity

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/memory"
)

type weight int64

func (w weight) Size() int64 { return int64(w) }

// aside is a world with one key, and what its headers are for another owner.
func aside(t *testing.T) (*clock.Manual, *memory.Store, func() *Entity, func() []Header) {
	manual := clock.NewManual(time.Unix(1_700_000_000, 0))
	on := memory.NewRegistry(memory.Settings{Clock: manual, Limits: store.Limits{MaxBatch: store.MaxBatch, MaxValue: store.MaxValue, Retention: time.Hour}}).Store("x")
	open := func() *Entity {
		e, err := New(Options{Store: on, Group: "g", Clock: manual, TTL: time.Minute}).Assign(kafka.Partition{Topic: "t"}).Open(t.Context(), "k")
		require.NoError(t, err)
		t.Cleanup(e.Close)
		return e
	}
	return manual, on, open, func() []Header { return open().Begin(nil).Headers() }
}

func TestHeadersAreKept(t *testing.T) {
	manual, on, open, durable := aside(t)
	e := open()
	heard := 0
	part := Part{
		Headers: []Header{{Name: "b", Data: []byte{0, 1}}, {Name: "a", Data: []byte{}, Until: manual.Now().UnixMilli() + 1000}, {Name: "gone"}},
		Done:    func() { heard++ },
	}
	txn := e.Begin(nil)
	require.NoError(t, txn.Join(part))
	assert.True(t, txn.Dirty())
	assert.Empty(t, durable())
	require.NoError(t, txn.Commit(t.Context(), Mark{}))
	assert.Equal(t, 1, heard)
	assert.Equal(t, []Header{part.Headers[1], part.Headers[0]}, durable())
	// At once, without the rest of the transaction.
	txn = e.Begin(nil)
	require.NoError(t, txn.Join(Part{Headers: []Header{{Name: "lost", Data: []byte{1}}}}))
	require.NoError(t, txn.Save(t.Context(), Part{Headers: []Header{{Name: "c", Data: []byte{3}}}, Done: part.Done}))
	txn.Discard()
	assert.Equal(t, 2, heard)
	assert.Len(t, durable(), 3)
	assert.Error(t, txn.Save(t.Context(), part))
	// What is over goes with the next write; others stay whatever else is written.
	manual.Advance(2 * time.Second)
	txn = e.Begin(nil)
	require.NoError(t, txn.Schedule(t.Context(), 1_800_000_000, false))
	require.NoError(t, txn.Commit(t.Context(), Mark{}))
	assert.Equal(t, []Header{part.Headers[0], {Name: "c", Data: []byte{3}}}, durable())
	root, err := on.Root(t.Context(), store.Key{Group: "g", Topic: "t", Key: "k"})
	require.NoError(t, err)
	headers, moving, err := Headers(root)
	require.NoError(t, err)
	assert.False(t, moving)
	assert.Len(t, headers, 2)
}

// A root with headers stays as long as the last of them does.
func TestARootWithHeadersStays(t *testing.T) {
	for _, until := range []time.Duration{0, 3 * time.Hour} {
		manual, _, open, durable := aside(t)
		header := Header{Name: "a", Data: []byte{1}}
		if until > 0 {
			header.Until = manual.Now().Add(until).UnixMilli()
		}
		require.NoError(t, open().Begin(nil).Save(t.Context(), Part{Headers: []Header{header}}))
		manual.Advance(until - time.Second)
		assert.Len(t, durable(), 1)
		manual.Advance(100 * time.Hour)
		assert.Equal(t, until == 0, len(durable()) == 1)
	}
}

func TestAShelfGoesWithItsRecord(t *testing.T) {
	_, on, open, _ := aside(t)
	e := open()
	txn := e.Begin(nil)
	fill := func(headers []Header) Shelf { return weight(100 + len(headers)) }
	assert.Equal(t, weight(100), txn.Shelf(fill))
	require.NoError(t, txn.Save(t.Context(), Part{Headers: []Header{{Name: "a", Data: []byte{1}}}}))
	assert.Equal(t, weight(100), txn.Shelf(fill), "it follows by itself")
	assert.True(t, txn.Grown())
	on.Fail(func(op string, _ store.Key) error {
		if op == "Apply" {
			return context.DeadlineExceeded
		}
		return nil
	})
	require.Error(t, txn.Save(t.Context(), Part{Headers: []Header{{Name: "b", Data: []byte{1}}}}))
	on.Fail(nil)
	assert.Nil(t, txn.Shelf(fill), "nobody knows what is durable")
	require.NoError(t, txn.Load(t.Context()))
	assert.Equal(t, weight(101), txn.Shelf(fill))
}
