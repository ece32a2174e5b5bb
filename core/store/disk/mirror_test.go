package disk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/store"
	"prosody/core/store/disk"
	"prosody/core/store/memory"
)

var errDown = errors.New("down")

// Whatever is read and written, with faults and without room: a mirror answers as the store.
func TestAMirrorIsAsTheStore(t *testing.T) {
	for _, most := range []int64{1 << 30, 200_000} {
		c := open(t, disk.Options{Dir: t.TempDir(), Bytes: most, Memory: 1 << 20})
		t.Run(fmt.Sprint(most), func(t *testing.T) { rapid.Check(t, func(r *rapid.T) { agree(t.Context(), r, c) }) })
	}
}

func agree(ctx context.Context, r *rapid.T, c *disk.Cache) {
	at := store.Key{Group: "g", Topic: "t", Key: "k"}
	manual := clock.NewManual(time.Unix(1_700_000_000, 0))
	on := memory.NewRegistry(memory.Settings{Clock: manual}).Store("x")
	stamp := int64(1)
	coordinate := rapid.SampledFrom([]string{"", "\x00", "a", "a\x00", "ab", "b", "c", "\xff", "\xff\xff"})
	name := rapid.SampledFrom([]string{"new", "old"})
	change := func() store.Batch {
		stamp += 2
		b := store.Batch{Stamp: stamp}
		taken := map[store.Slot]bool{}
		for range rapid.IntRange(0, 2).Draw(r, "ranges") {
			over := store.Range{Kind: store.Cell, Name: name.Draw(r, "name"), From: coordinate.Draw(r, "from"), To: coordinate.Draw(r, "to")}
			if over.To == "" || over.From < over.To {
				b.Ranges = append(b.Ranges, over)
			}
		}
		for range rapid.IntRange(0, 4).Draw(r, "rows") {
			s := slot(name.Draw(r, "name"), coordinate.Draw(r, "coordinate"))
			if taken[s] {
				continue
			}
			taken[s] = true
			if rapid.Bool().Draw(r, "delete") {
				b.Deletes = append(b.Deletes, s)
			} else {
				b.Puts = append(b.Puts, store.Put{Row: store.Row{Slot: s, Data: []byte(rapid.StringN(0, 3, -1).Draw(r, "data"))}})
			}
		}
		return b
	}
	for range 3 {
		b := change()
		b.Puts = slices.DeleteFunc(b.Puts, func(p store.Put) bool { return p.Name == "new" })
		require.NoError(r, on.Apply(ctx, at, b))
	}
	m := c.Mirror([]string{"old"})
	for range 40 {
		switch rapid.IntRange(0, 9).Draw(r, "step") {
		case 0, 1, 2:
			b := change()
			fails := rapid.IntRange(0, 9).Draw(r, "fails")
			err := m.Apply(b, func() error {
				if fails == 0 {
					return errDown
				}
				require.NoError(r, on.Apply(ctx, at, b))
				if fails == 1 {
					return errDown
				}
				return nil
			})
			require.Equal(r, fails < 2, err != nil)
		case 3:
			require.True(r, c.Save("k", []byte("note"), m))
			note, again := c.Load("k")
			require.Equal(r, "note", string(note))
			if m = again; m == nil {
				m = c.Blind()
			}
		case 4, 5, 6:
			var slots []store.Slot
			n := name.Draw(r, "name")
			for range rapid.IntRange(1, 4).Draw(r, "slots") {
				slots = append(slots, slot(n, coordinate.Draw(r, "coordinate")))
			}
			want, err := on.Get(ctx, at, slots)
			require.NoError(r, err)
			if kept, known := m.Kept(slots); known {
				require.Equal(r, want, kept)
			}
			// What is written while a read is under way is not covered by what it gives.
			late := rapid.IntRange(0, 2).Draw(r, "late") == 0
			got, err := m.Get(ctx, slots, func(ctx context.Context, slots []store.Slot) ([][]byte, error) {
				values, err := on.Get(ctx, at, slots)
				if late {
					b := change()
					require.NoError(r, m.Apply(b, func() error { return on.Apply(ctx, at, b) }))
				}
				return values, err
			})
			require.NoError(r, err)
			require.Equal(r, want, got)
		default:
			over := store.Range{Kind: store.Cell, Name: name.Draw(r, "name"), From: coordinate.Draw(r, "from"), To: coordinate.Draw(r, "to")}
			backward, limit := rapid.Bool().Draw(r, "backward"), rapid.IntRange(1, 4).Draw(r, "limit")
			if over.To != "" && over.From >= over.To {
				continue
			}
			want, _, err := on.Scan(ctx, at, over, backward, 100)
			require.NoError(r, err)
			var got []store.Row
			for pages := 0; ; pages++ {
				require.Less(r, pages, 50)
				rows, more, err := m.Scan(ctx, over, backward, limit, func(ctx context.Context) ([]store.Row, bool, error) {
					return on.Scan(ctx, at, over, backward, limit)
				})
				require.NoError(r, err)
				require.LessOrEqual(r, len(rows), limit)
				got = append(got, rows...)
				if !more {
					break
				}
				if len(rows) > 0 {
					if end := rows[len(rows)-1].Coordinate; backward {
						over.To = end
					} else {
						over.From = end + "\x00"
					}
				}
				if over.To == "" && backward && len(rows) > 0 {
					break // nothing is below the empty coordinate
				}
			}
			require.Len(r, got, len(want))
			for i := range want {
				require.Equal(r, want[i], got[i])
			}
		}
	}
}

func BenchmarkCommitOfARow(b *testing.B) {
	c, err := disk.Open(disk.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close()) }()
	m := c.Mirror(nil)
	data := string(make([]byte, 200))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		batch := store.Batch{Puts: []store.Put{put("map", fmt.Sprint(n%1000), data)}}
		_ = m.Apply(batch, func() error { return nil })
	}
}

func BenchmarkSaveAndLoad(b *testing.B) {
	c, err := disk.Open(disk.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close()) }()
	note := make([]byte, 200)
	for n := range 100_000 {
		c.Save(fmt.Sprint(n), note, nil)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		key := fmt.Sprint(n * 7919 % 100_000)
		found, _ := c.Load(key)
		c.Save(key, found, nil)
	}
}
