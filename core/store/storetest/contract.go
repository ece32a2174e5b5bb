package storetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/store"
)

// World is a store under test and its time.
type World struct {
	Store store.Store
	// Pass lets so much time go by for the store.
	Pass func(d time.Duration)
}

// Run checks the contract. Worlds may share their rows: every test has names of its own.
func Run(t *testing.T, open func(t *testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"Root":         root,
		"Get":          get,
		"Apart":        apart,
		"Atomic":       atomicity,
		"Replays":      replays,
		"DeleteAndPut": deleteAndPut,
		"Scan":         scan,
		"Pages":        pages,
		"TTL":          ttl,
		"FarTTL":       farTTL,
		"Bytes":        anyBytes,
		"Sizes":        sizes,
		"Refused":      refused,
		"Cancelled":    cancelled,
		"Tombstones":   tombstones,
		"Model":        model,
		"Hints":        hints,
		"HintOrder":    hintOrder,
		"Slabs":        slabs,
		"HintTTL":      hintTTL,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func stamp() int64 { return time.Now().UnixMicro() }

func at(coordinate string) store.Slot {
	return store.Slot{Kind: store.Cell, Name: "n", Coordinate: coordinate}
}

func put(coordinate, data string) store.Put {
	return store.Put{Row: store.Row{Slot: at(coordinate), Data: []byte(data)}}
}

func all() store.Range { return store.Range{Kind: store.Cell, Name: "n"} }

func apply(t testing.TB, s store.Store, key store.Key, batch store.Batch) {
	t.Helper()
	require.NoError(t, s.Apply(t.Context(), key, batch))
}

// read gives the rows of a range as "coordinate=data".
func read(t testing.TB, s store.Store, key store.Key, span store.Range) []string {
	t.Helper()
	rows, more, err := s.Scan(t.Context(), key, span, false, 1000)
	require.NoError(t, err)
	require.False(t, more)
	result := []string{}
	for _, row := range rows {
		require.Equal(t, span.Kind, row.Kind)
		require.Equal(t, span.Name, row.Name)
		require.NotNil(t, row.Data)
		result = append(result, row.Coordinate+"="+string(row.Data))
	}
	return result
}

func rootIs(t testing.TB, s store.Store, key store.Key, want string) {
	t.Helper()
	data, err := s.Root(t.Context(), key)
	require.NoError(t, err)
	if want == "" {
		require.Nil(t, data)
		return
	}
	require.Equal(t, want, string(data))
}

func root(t *testing.T, w World) {
	key := fresh(t)
	rootIs(t, w.Store, key, "")
	apply(t, w.Store, key, store.Batch{Stamp: 10, Puts: []store.Put{put("a", "1")}})
	rootIs(t, w.Store, key, "")
	apply(t, w.Store, key, store.Batch{Stamp: 12, Root: []byte("first")})
	rootIs(t, w.Store, key, "first")
	apply(t, w.Store, key, store.Batch{Stamp: 14, Deletes: []store.Slot{at("a")}})
	rootIs(t, w.Store, key, "first")
	apply(t, w.Store, key, store.Batch{Stamp: 16, Root: []byte("second")})
	apply(t, w.Store, key, store.Batch{Stamp: 15, Root: []byte("too late")})
	rootIs(t, w.Store, key, "second")
	apply(t, w.Store, key, store.Batch{Stamp: 18})
	rootIs(t, w.Store, key, "second")
}

func get(t *testing.T, w World) {
	key := fresh(t)
	batch := store.Batch{Stamp: 10, Puts: []store.Put{put("a", "1"), put("empty", ""), put("", "2")}}
	batch.Puts = append(batch.Puts, store.Put{Row: store.Row{Slot: store.Slot{Kind: store.Done, Coordinate: "a"}}})
	for i := range 450 {
		batch.Puts = append(batch.Puts, put(fmt.Sprint("many", i), fmt.Sprint(i)))
	}
	apply(t, w.Store, key, batch)
	data, err := w.Store.Get(t.Context(), key, []store.Slot{
		at("absent"), at("empty"), at("a"), {Kind: store.Done, Coordinate: "a"}, at(""), at("a"), {Kind: store.Timer, Name: "n", Coordinate: "a"},
	})
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil, {}, []byte("1"), {}, []byte("2"), []byte("1"), nil}, data)

	slots := make([]store.Slot, 450)
	for i := range slots {
		slots[i] = at(fmt.Sprint("many", 449-i))
	}
	data, err = w.Store.Get(t.Context(), key, slots)
	require.NoError(t, err)
	for i := range data {
		require.Equal(t, fmt.Sprint(449-i), string(data[i]))
	}
	data, err = w.Store.Get(t.Context(), key, nil)
	require.NoError(t, err)
	require.Empty(t, data)
}

func apart(t *testing.T, w World) {
	key := fresh(t)
	keys := []store.Key{key, {Group: key.Group + "x", Topic: key.Topic, Key: key.Key}, {Group: key.Group, Topic: "x", Key: key.Key}, {Group: key.Group, Topic: key.Topic, Key: key.Key + "x"}}
	for i, key := range keys {
		apply(t, w.Store, key, store.Batch{Stamp: 10, Root: []byte{byte('0' + i)}, Puts: []store.Put{put("a", fmt.Sprint(i))}})
	}
	apply(t, w.Store, keys[0], store.Batch{Stamp: 12, Ranges: []store.Range{all()}})
	for i, key := range keys[1:] {
		require.Equal(t, []string{fmt.Sprint("a=", i+1)}, read(t, w.Store, key, all()))
		rootIs(t, w.Store, key, fmt.Sprint(i+1))
	}
	// A range ends with its name and its kind.
	other := store.Slot{Kind: store.Cell, Name: "n\x00", Coordinate: "a"}
	later := store.Slot{Kind: store.Staged, Name: "n", Coordinate: "a"}
	apply(t, w.Store, key, store.Batch{Stamp: 14, Puts: []store.Put{{Row: store.Row{Slot: other}}, {Row: store.Row{Slot: later}}, put("z", "1")}})
	require.Equal(t, []string{"z=1"}, read(t, w.Store, key, all()))
	rows, _, err := w.Store.Scan(t.Context(), key, all(), true, 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	apply(t, w.Store, key, store.Batch{Stamp: 16, Ranges: []store.Range{all()}})
	data, err := w.Store.Get(t.Context(), key, []store.Slot{other, later, at("z")})
	require.NoError(t, err)
	require.Equal(t, [][]byte{{}, {}, nil}, data)
}

// atomicity: each batch replaces all rows; a reader must see the rows of one batch.
func atomicity(t *testing.T, w World) {
	const rows, batches = 20, 150
	key := fresh(t)
	write := func(ctx context.Context, i int) error {
		batch := store.Batch{Stamp: int64(10 + 2*i), Root: fmt.Append(nil, i), Ranges: []store.Range{all()}}
		for j := range rows {
			batch.Puts = append(batch.Puts, put(fmt.Sprintf("%d-%d", i%3, j), fmt.Sprint(i)))
		}
		return w.Store.Apply(ctx, key, batch)
	}
	require.NoError(t, write(t.Context(), 0))
	failed := make(chan error, 1)
	var enough atomic.Bool // the reader has seen several
	go func() {
		for i := 1; i < batches || i < 100*batches && !enough.Load(); i++ {
			if err := write(t.Context(), i); err != nil {
				failed <- err
				return
			}
		}
		close(failed)
	}()
	for reading, seen := true, map[string]bool{}; reading; {
		select {
		case err := <-failed:
			require.NoError(t, err)
			require.Greater(t, len(seen), 1, "the reader was too slow to prove anything")
			reading = false
		default:
		}
		found, _, err := w.Store.Scan(t.Context(), key, all(), false, 1000)
		require.NoError(t, err)
		require.Len(t, found, rows)
		for _, row := range found {
			require.Equal(t, string(found[0].Data), string(row.Data))
		}
		seen[string(found[0].Data)] = true
		enough.Store(len(seen) > 2)
	}
}

func replays(t *testing.T, w World) {
	key := fresh(t)
	first := store.Batch{Stamp: 10, Root: []byte("1"), Puts: []store.Put{put("a", "1"), put("b", "1")}}
	second := store.Batch{Stamp: 12, Root: []byte("2"), Puts: []store.Put{put("c", "2")}, Deletes: []store.Slot{at("a")},
		Ranges: []store.Range{{Kind: store.Cell, Name: "n", From: "b", To: "c"}}}
	for _, batch := range []store.Batch{first, first, second, second, first} {
		apply(t, w.Store, key, batch)
	}
	require.Equal(t, []string{"c=2"}, read(t, w.Store, key, all()))
	rootIs(t, w.Store, key, "2")
	// In the other order it ends the same.
	key = fresh(t)
	apply(t, w.Store, key, second)
	apply(t, w.Store, key, first)
	require.Equal(t, []string{"c=2"}, read(t, w.Store, key, all()))
	rootIs(t, w.Store, key, "2")
}

func deleteAndPut(t *testing.T, w World) {
	key := fresh(t)
	apply(t, w.Store, key, store.Batch{Stamp: 10, Puts: []store.Put{put("a", "1"), put("b", "1"), put("c", "1")}})
	apply(t, w.Store, key, store.Batch{Stamp: 12, Deletes: []store.Slot{at("a")}, Ranges: []store.Range{{Kind: store.Cell, Name: "n", From: "b"}},
		Puts: []store.Put{put("a", "2"), put("b", "2")}})
	require.Equal(t, []string{"a=2", "b=2"}, read(t, w.Store, key, all()))
	apply(t, w.Store, key, store.Batch{Stamp: 14, Deletes: []store.Slot{at("a")}})
	require.Equal(t, []string{"b=2"}, read(t, w.Store, key, all()))
	apply(t, w.Store, key, store.Batch{Stamp: 16, Puts: []store.Put{put("a", "3")}})
	require.Equal(t, []string{"a=3", "b=2"}, read(t, w.Store, key, all()))
	apply(t, w.Store, key, store.Batch{Stamp: 18, Ranges: []store.Range{{Kind: store.Cell, Name: "n", From: "b", To: "a"}, {Kind: store.Cell, Name: "n", To: "b"}}})
	require.Equal(t, []string{"b=2"}, read(t, w.Store, key, all()))
}

func scan(t *testing.T, w World) {
	key := fresh(t)
	apply(t, w.Store, key, store.Batch{Stamp: 10, Puts: []store.Put{put("d", "4"), put("a", "1"), put("c", "3"), put("b", "2")}})
	for _, c := range []struct {
		from, to string
		backward bool
		limit    int
		want     string
		more     bool
	}{
		{"", "", false, 10, "abcd", false},
		{"", "", true, 10, "dcba", false},
		{"", "", false, 4, "abcd", false},
		{"", "", false, 3, "abc", true},
		{"", "", true, 3, "dcb", true},
		{"b", "d", false, 10, "bc", false},
		{"b", "d", true, 10, "cb", false},
		{"b", "d", true, 1, "c", true},
		{"b\x00", "", false, 10, "cd", false},
		{"", "c", true, 10, "ba", false},
		{"x", "", false, 10, "", false},
		{"d", "b", false, 10, "", false},
		{"d", "b", true, 10, "", false},
	} {
		rows, more, err := w.Store.Scan(t.Context(), key, store.Range{Kind: store.Cell, Name: "n", From: c.from, To: c.to}, c.backward, c.limit)
		require.NoError(t, err)
		got := ""
		for _, row := range rows {
			got += row.Coordinate
		}
		require.Equal(t, c.want, got, "%+v", c)
		require.Equal(t, c.more, more, "%+v", c)
	}
}

// Fill writes count rows with coordinates of four bytes, big endian.
func Fill(t testing.TB, s store.Store, key store.Key, count int) {
	t.Helper()
	for from := 0; from < count; from += 1000 {
		batch := store.Batch{Stamp: int64(10 + 2*from)}
		for i := from; i < min(from+1000, count); i++ {
			batch.Puts = append(batch.Puts, put(string(binary.BigEndian.AppendUint32(nil, uint32(i))), fmt.Sprint(i)))
		}
		apply(t, s, key, batch)
	}
}

func pages(t *testing.T, w World) {
	const count = 12001
	key := fresh(t)
	Fill(t, w.Store, key, count)
	for _, backward := range []bool{false, true} {
		for _, limit := range []int{500, 7000, 20000} {
			span, total := all(), 0
			for more := true; more; {
				var rows []store.Row
				var err error
				rows, more, err = w.Store.Scan(t.Context(), key, span, backward, limit)
				require.NoError(t, err)
				if more {
					require.Len(t, rows, limit)
				}
				for _, row := range rows {
					want := total
					if backward {
						want = count - 1 - total
					}
					require.Equal(t, uint32(want), binary.BigEndian.Uint32([]byte(row.Coordinate)))
					require.Equal(t, fmt.Sprint(want), string(row.Data))
					total++
				}
				if last := rows[len(rows)-1].Coordinate; backward {
					span.To = last
				} else {
					span.From = last + "\x00"
				}
			}
			require.Equal(t, count, total)
		}
	}
}

func ttl(t *testing.T, w World) {
	key := fresh(t)
	short, long := put("short", "1"), put("long", "1")
	long.TTL = time.Hour
	lives := timely(func(ttl time.Duration) func() {
		short.TTL = ttl - 500*time.Millisecond // it is rounded up
		apply(t, w.Store, key, store.Batch{Stamp: stamp(), Root: []byte("r"), RootTTL: ttl, Puts: []store.Put{short, long, put("none", "1")}})
		rows := read(t, w.Store, key, all())
		root, err := w.Store.Root(t.Context(), key)
		require.NoError(t, err)
		return func() {
			require.Equal(t, []string{"long=1", "none=1", "short=1"}, rows)
			require.Equal(t, "r", string(root))
		}
	})
	w.Pass(lives + time.Second)
	require.Equal(t, []string{"long=1", "none=1"}, read(t, w.Store, key, all()))
	rootIs(t, w.Store, key, "")
	data, err := w.Store.Get(t.Context(), key, []store.Slot{at("short"), at("long")})
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil, []byte("1")}, data)
	// A slot can be written again, and a TTL be taken away.
	long.TTL = 0
	apply(t, w.Store, key, store.Batch{Stamp: stamp(), Puts: []store.Put{put("short", "2"), long}})
	require.Equal(t, []string{"long=1", "none=1", "short=2"}, read(t, w.Store, key, all()))
}

func farTTL(t *testing.T, w World) {
	const year = 365 * 24 * time.Hour
	for _, far := range []time.Duration{5 * year, 15 * year, 20 * year, 20*year + time.Second, 21 * year, 290 * year} {
		key := fresh(t)
		row := put("a", "1")
		row.TTL = far
		apply(t, w.Store, key, store.Batch{Stamp: 10, Root: []byte("r"), RootTTL: far, Puts: []store.Put{row}})
		require.Equal(t, []string{"a=1"}, read(t, w.Store, key, all()))
		rootIs(t, w.Store, key, "r")
	}
}

func anyBytes(t *testing.T, w World) {
	ordered := []string{"", "\x00", "\x00\x00", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "ab", "\x7f", "\x80", "\xc3\x28", "\xff", "\xff\x00", "\xff\xff"}
	for _, suffix := range []string{"", "\x00", "\xff\xfe", "é"} {
		key := fresh(t)
		key.Key += suffix
		batch := store.Batch{Stamp: 10, Root: []byte{0}}
		for i := range ordered {
			coordinate := ordered[len(ordered)-1-i]
			batch.Puts = append(batch.Puts, put(coordinate, "\x00"+coordinate))
		}
		apply(t, w.Store, key, batch)
		var want []string
		for _, coordinate := range ordered {
			want = append(want, coordinate+"=\x00"+coordinate)
		}
		require.Equal(t, want, read(t, w.Store, key, all()))
		for _, coordinate := range ordered {
			data, err := w.Store.Get(t.Context(), key, []store.Slot{at(coordinate)})
			require.NoError(t, err)
			require.Equal(t, "\x00"+coordinate, string(data[0]))
		}
		rootIs(t, w.Store, key, "\x00")
		apply(t, w.Store, key, store.Batch{Stamp: 12, Deletes: []store.Slot{at(""), at("\xff")}, Ranges: []store.Range{{Kind: store.Cell, Name: "n", From: "\x00\x00", To: "ab"}}})
		rows, _, err := w.Store.Scan(t.Context(), key, all(), false, 100)
		require.NoError(t, err)
		require.Len(t, rows, 7)
		require.Equal(t, "\x00", rows[0].Coordinate)
		require.Equal(t, "ab", rows[1].Coordinate)
	}
	empty := store.Key{Group: unique(t, new(atomic.Int64))}
	apply(t, w.Store, empty, store.Batch{Stamp: 10, Root: []byte("r"), Puts: []store.Put{{Row: store.Row{Slot: store.Slot{Kind: store.Done}}}}})
	rootIs(t, w.Store, empty, "r")
	require.Equal(t, []string{"="}, read(t, w.Store, empty, store.Range{Kind: store.Done}))
}

func sizes(t *testing.T, w World) {
	key := fresh(t)
	key.Key += strings.Repeat("k", 32768-len(key.Key))
	long := strings.Repeat("\xff", 32768)
	value := strings.Repeat("v", 1<<20)
	apply(t, w.Store, key, store.Batch{Stamp: 10, Root: []byte("r"), Puts: []store.Put{put("a", value), put(long, "1")}})
	rootIs(t, w.Store, key, "r")
	data, err := w.Store.Get(t.Context(), key, []store.Slot{at("a"), at(long)})
	require.NoError(t, err)
	require.Equal(t, value, string(data[0]))
	require.Equal(t, "1", string(data[1]))
	apply(t, w.Store, key, store.Batch{Stamp: 12, Puts: []store.Put{put("a", strings.Repeat("w", w.Store.Limits().MaxValue))}})
	data, err = w.Store.Get(t.Context(), key, []store.Slot{at("a")})
	require.NoError(t, err)
	require.Len(t, data[0], w.Store.Limits().MaxValue)

	// As much as a batch may have.
	key = fresh(t)
	batch := store.Batch{Stamp: 10}
	each := store.Batch{Puts: []store.Put{put("000000", "0123456789")}}.Size(key)
	for i := range w.Store.Limits().MaxBatch / each {
		batch.Puts = append(batch.Puts, put(fmt.Sprintf("%06d", i), "0123456789"))
	}
	apply(t, w.Store, key, batch)
	last := batch.Puts[len(batch.Puts)-1].Slot
	data, err = w.Store.Get(t.Context(), key, []store.Slot{last})
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(data[0]))
}

func refused(t *testing.T, w World) {
	key := fresh(t)
	limits := w.Store.Limits()
	half := strings.Repeat("x", limits.MaxBatch/2)
	for name, c := range map[string]struct {
		kind  fault.Kind
		key   store.Key
		batch store.Batch
	}{
		"batch":      {fault.TooLarge, key, store.Batch{Puts: []store.Put{put("a", half), put("b", half)}}},
		"value":      {fault.TooLarge, key, store.Batch{Puts: []store.Put{put("b", "1"), put("a", strings.Repeat("x", limits.MaxValue+1))}}},
		"key":        {fault.TooLarge, store.Key{Key: strings.Repeat("x", store.MaxKey+1)}, store.Batch{Root: []byte("r")}},
		"coordinate": {fault.TooLarge, key, store.Batch{Puts: []store.Put{put(strings.Repeat("x", store.MaxCoordinate+1), "")}}},
		"kind":       {fault.Invalid, key, store.Batch{Puts: []store.Put{{}}}},
		"name":       {fault.Invalid, key, store.Batch{Puts: []store.Put{{Row: store.Row{Slot: store.Slot{Kind: 1, Name: "\xff"}}}}}},
		"root":       {fault.Invalid, key, store.Batch{Root: []byte{}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.batch.Stamp = 10
			err := w.Store.Apply(t.Context(), c.key, c.batch)
			require.Error(t, err)
			require.Equal(t, c.kind, fault.Of(err), "%v", err)
		})
	}
	require.Equal(t, fault.Invalid, fault.Of(w.Store.Apply(t.Context(), key, store.Batch{Root: []byte("r")})), "no stamp")
	require.Empty(t, read(t, w.Store, key, all()), "a part of a refused batch was written")
}

func cancelled(t *testing.T, w World) {
	key := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Store.Apply(ctx, key, store.Batch{Stamp: 10, Root: []byte("r")})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, fault.Store, fault.Of(err))
	_, err = w.Store.Root(ctx, key)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = w.Store.Scan(ctx, key, all(), false, 10)
	require.ErrorIs(t, err, context.Canceled)
	rootIs(t, w.Store, key, "")
}

// tombstones: what was deleted makes neither the root nor a scan from a known bound slow.
func tombstones(t *testing.T, w World) {
	if testing.Short() {
		t.Skip("150,000 deletions take their time")
	}
	const count, step = 150000, 3000
	key := fresh(t)
	apply(t, w.Store, key, store.Batch{Stamp: 10, Root: []byte("r")})
	slot := func(i int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	for from := 0; from < count; from += step {
		batch := store.Batch{Stamp: int64(12 + from)}
		for i := from; i < from+step; i++ {
			batch.Deletes = append(batch.Deletes, at(slot(i)))
		}
		batch.Puts = []store.Put{put(slot(from+step), "live")}
		apply(t, w.Store, key, batch)
	}
	began := time.Now()
	for range 20 {
		rootIs(t, w.Store, key, "r")
		span := all()
		span.From = slot(count)
		rows, _, err := w.Store.Scan(t.Context(), key, span, false, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
	}
	require.Less(t, time.Since(began), 20*time.Second)
}
