package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/store"
)

const size = 600

// place is a shard of its own and a slab of it that is over, or not yet.
func place(t testing.TB, ahead time.Duration) (store.Shard, store.Slab) {
	start := time.Now().Add(ahead).Unix() / size * size
	return store.Shard{Group: unique(t, new(atomic.Int64)), Topic: "topic", Partition: 7}, store.Slab{Start: start, Size: size}
}

func keysOf(t testing.TB, s store.Store, shard store.Shard, slab store.Slab) []string {
	t.Helper()
	keys, err := s.Hints(t.Context(), shard, slab, "", 1000)
	require.NoError(t, err)
	return keys
}

func slabsOf(t testing.TB, s store.Store, shard store.Shard, until int64) []store.Slab {
	t.Helper()
	slabs, err := s.Slabs(t.Context(), shard, until)
	require.NoError(t, err)
	return slabs
}

func hints(t *testing.T, w World) {
	s, ctx := w.Store, t.Context()
	shard, slab := place(t, time.Hour)
	require.Empty(t, keysOf(t, s, shard, slab))
	require.Empty(t, slabsOf(t, s, shard, 1<<40))
	now := stamp()
	for _, key := range []string{"b", "", "a", "\xff\x00", "b", "c"} {
		require.NoError(t, s.AddHint(ctx, shard, slab, key, now, time.Hour))
	}
	require.Equal(t, []string{"", "a", "b", "c", "\xff\x00"}, keysOf(t, s, shard, slab))
	for _, c := range []struct {
		after string
		limit int
		want  []string
	}{
		{"", 2, []string{"", "a"}},
		{"", 1, []string{"", "a"}},
		{"a", 2, []string{"b", "c"}},
		{"aa", 2, []string{"b", "c"}},
		{"c", 2, []string{"\xff\x00"}},
		{"\xff\x00", 2, nil},
	} {
		keys, err := s.Hints(ctx, shard, slab, c.after, c.limit)
		require.NoError(t, err)
		require.Equal(t, c.want, keys, "%+v", c)
	}
	require.NoError(t, s.DropHint(ctx, shard, slab, "b", now))
	require.NoError(t, s.DropHint(ctx, shard, slab, "absent", now))
	require.Equal(t, []string{"", "a", "c", "\xff\x00"}, keysOf(t, s, shard, slab))

	// Others have their own.
	for _, other := range []store.Shard{{Group: shard.Group + "x", Topic: shard.Topic, Partition: 7}, {Group: shard.Group, Topic: "x", Partition: 7}, {Group: shard.Group, Topic: shard.Topic, Partition: 8}} {
		require.Empty(t, keysOf(t, s, other, slab))
		require.Empty(t, slabsOf(t, s, other, 1<<40))
	}
	require.Empty(t, keysOf(t, s, shard, store.Slab{Start: slab.Start, Size: size + 1}))
	require.Empty(t, keysOf(t, s, shard, store.Slab{Start: slab.Start + size, Size: size}))
}

// hintOrder: the stamp decides, whoever comes first.
func hintOrder(t *testing.T, w World) {
	s, ctx := w.Store, t.Context()
	shard, slab := place(t, time.Hour)
	now := stamp()
	require.NoError(t, s.AddHint(ctx, shard, slab, "k", now, 0))
	require.NoError(t, s.DropHint(ctx, shard, slab, "k", now-2))
	require.Equal(t, []string{"k"}, keysOf(t, s, shard, slab), "an earlier owner dropped a later hint")
	require.NoError(t, s.DropHint(ctx, shard, slab, "k", now))
	require.Empty(t, keysOf(t, s, shard, slab))
	require.NoError(t, s.AddHint(ctx, shard, slab, "k", now+2, 0))
	require.Equal(t, []string{"k"}, keysOf(t, s, shard, slab))
}

func slabs(t *testing.T, w World) {
	s, ctx := w.Store, t.Context()
	shard, slab := place(t, -time.Hour)
	now := stamp()
	next := store.Slab{Start: slab.Start + size, Size: size}
	other := store.Slab{Start: slab.Start, Size: size * 2}
	far := store.Slab{Start: 253402300800 / size * size, Size: size} // year 10000
	negative := store.Slab{Start: -size, Size: size}
	for _, it := range []store.Slab{far, next, other, slab, negative} {
		require.NoError(t, s.AddHint(ctx, shard, it, "k", now, 0))
	}
	require.Equal(t, []store.Slab{negative, slab, other, next, far}, slabsOf(t, s, shard, 1<<40))
	require.Equal(t, []store.Slab{negative, slab, other}, slabsOf(t, s, shard, next.Start))

	// A hint that comes while the slab is dropped stays, and so does its slab.
	require.NoError(t, s.AddHint(ctx, shard, slab, "late", now+10, 0))
	require.NoError(t, s.DropSlab(ctx, shard, slab, now+5))
	require.Equal(t, []string{"late"}, keysOf(t, s, shard, slab))
	require.Equal(t, []store.Slab{negative, slab, other}, slabsOf(t, s, shard, next.Start))

	require.NoError(t, s.DropSlab(ctx, shard, slab, now+20))
	require.Empty(t, keysOf(t, s, shard, slab))
	require.Equal(t, []store.Slab{negative, other, next, far}, slabsOf(t, s, shard, 1<<40))
	require.Equal(t, []string{"k"}, keysOf(t, s, shard, other))
	require.NoError(t, s.DropSlab(ctx, shard, slab, now+20))

	// It can be registered again.
	require.NoError(t, s.AddHint(ctx, shard, slab, "again", now+30, 0))
	require.Equal(t, []store.Slab{negative, slab, other}, slabsOf(t, s, shard, next.Start))

	// Many slabs, many hints.
	shard, slab = place(t, time.Hour)
	for i := range int64(300) {
		require.NoError(t, s.AddHint(ctx, shard, store.Slab{Start: slab.Start + i*size, Size: size}, "k", now, time.Hour))
		require.NoError(t, s.AddHint(ctx, shard, slab, fmt.Sprintf("%04d", i), now, time.Hour))
	}
	require.Len(t, slabsOf(t, s, shard, 1<<40), 300)
	require.Len(t, keysOf(t, s, shard, slab), 301)
}

func hintTTL(t *testing.T, w World) {
	s, ctx := w.Store, t.Context()
	shard, slab := place(t, time.Hour)
	slab.Size = 1
	other := store.Slab{Start: slab.Start + 1, Size: 1}
	add := func(slab store.Slab, key string, ttl time.Duration) {
		require.NoError(t, s.AddHint(ctx, shard, slab, key, stamp(), ttl))
	}
	add(slab, "long", time.Hour)
	add(other, "far", 40*365*24*time.Hour)
	lives := timely(func(ttl time.Duration) func() {
		add(slab, "short", ttl)
		add(other, "short", ttl)
		keys := keysOf(t, s, shard, slab)
		return func() { require.Equal(t, []string{"long", "short"}, keys) }
	})
	w.Pass(lives + 2*time.Second)
	require.Equal(t, []string{"long"}, keysOf(t, s, shard, slab))
	require.Equal(t, []string{"far"}, keysOf(t, s, shard, other))
	require.Equal(t, []store.Slab{slab, other}, slabsOf(t, s, shard, 1<<40))
}
