package memory

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/store"
)

func TestServersInAnyOrderNameOneStore(t *testing.T) {
	registry := NewRegistry(Settings{})
	require.Same(t, registry.Store("b:2, a:1"), registry.Store("a:1,b:2,,"))
	require.NotSame(t, registry.Store("a:1"), registry.Store("b:2"))
}

func TestFaultBeforeAndAfterTheWrite(t *testing.T) {
	s := NewRegistry(Settings{}).Store("x")
	key := store.Key{Group: "g", Topic: "t", Key: "k"}
	cause := errors.New("cut")
	reply := cause
	s.Fail(func(op string, of store.Key) error {
		if op == "Apply" && of == key {
			return reply
		}
		return nil
	})
	err := s.Apply(t.Context(), key, store.Batch{Stamp: 1, Root: []byte("a")})
	require.ErrorIs(t, err, cause)
	require.Equal(t, fault.Store, fault.Of(err))
	root, err := s.Root(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, root)

	reply = Lost(cause)
	require.ErrorIs(t, s.Apply(t.Context(), key, store.Batch{Stamp: 1, Root: []byte("a")}), cause)
	root, err = s.Root(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "a", string(root))

	s.Fail(nil)
	require.NoError(t, s.Apply(t.Context(), key, store.Batch{Stamp: 3, Root: []byte("b")}))
}

func TestExpiredRowsLeaveMemory(t *testing.T) {
	manual := clock.NewManual(time.Unix(1000, 0))
	s := NewRegistry(Settings{Clock: manual}).Store("x")
	key := store.Key{Key: "k"}
	for i := range int64(3000) {
		row := store.Row{Slot: store.Slot{Kind: store.Done, Coordinate: string([]byte{byte(i >> 8), byte(i)})}}
		require.NoError(t, s.Apply(t.Context(), key, store.Batch{Stamp: 2*i + 2, Puts: []store.Put{{Row: row, TTL: time.Minute}}}))
	}
	manual.Advance(time.Hour)
	for i := range int64(5000) {
		require.NoError(t, s.Apply(t.Context(), key, store.Batch{Stamp: 10000 + 2*i, Root: []byte("r")}))
	}
	require.Zero(t, s.part(key).entities[key].rows.Len())
}
