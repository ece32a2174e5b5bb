package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"prosody/core/store"
)

// model: whatever the order of batches, and however often each arrives, the highest
// stamps decide.
func model(t *testing.T, w World) {
	coordinates := []string{"", "\x00", "a", "b", "\xff"}
	var counter atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		key := store.Key{Group: "contract", Topic: "model", Key: unique(t, &counter)}
		slot := rapid.Custom(func(r *rapid.T) store.Slot {
			return store.Slot{Kind: store.Kind(rapid.IntRange(1, 2).Draw(r, "kind")), Name: rapid.SampledFrom([]string{"", "n"}).Draw(r, "name"),
				Coordinate: rapid.SampledFrom(coordinates).Draw(r, "coordinate")}
		})
		span := rapid.Custom(func(r *rapid.T) store.Range {
			from := slot.Draw(r, "from")
			return store.Range{Kind: from.Kind, Name: from.Name, From: from.Coordinate, To: rapid.SampledFrom(coordinates).Draw(r, "to")}
		})
		batches := make([]store.Batch, rapid.IntRange(1, 5).Draw(r, "batches"))
		for i := range batches {
			b := store.Batch{Stamp: int64(10 + 2*i), Deletes: rapid.SliceOfN(slot, 0, 2).Draw(r, "deletes"), Ranges: rapid.SliceOfN(span, 0, 1).Draw(r, "ranges")}
			for _, slot := range rapid.SliceOfNDistinct(slot, 0, 4, rapid.ID[store.Slot]).Draw(r, "puts") {
				b.Puts = append(b.Puts, store.Put{Row: store.Row{Slot: slot, Data: fmt.Append(nil, i)}})
			}
			if rapid.Bool().Draw(r, "root") {
				b.Root = fmt.Append(nil, i)
			}
			batches[i] = b
		}
		sent := rapid.Permutation(append(slices.Clone(batches), batches[rapid.IntRange(0, len(batches)-1).Draw(r, "twice")])).Draw(r, "order")
		for _, b := range sent {
			require.NoError(r, w.Store.Apply(t.Context(), key, b))
		}
		rows, root := expect(batches)
		for _, kind := range []store.Kind{1, 2} {
			for _, name := range []string{"", "n"} {
				want := map[string]string{}
				for slot, data := range rows {
					if slot.Kind == kind && slot.Name == name {
						want[slot.Coordinate] = data
					}
				}
				found, _, err := w.Store.Scan(t.Context(), key, store.Range{Kind: kind, Name: name}, rapid.Bool().Draw(r, "backward"), 100)
				require.NoError(r, err)
				got := map[string]string{}
				for _, row := range found {
					got[row.Coordinate] = string(row.Data)
				}
				require.Equal(r, want, got)
			}
		}
		data, err := w.Store.Root(t.Context(), key)
		require.NoError(r, err)
		require.Equal(r, root, string(data))
	})
}

// expect applies batches one after another.
func expect(batches []store.Batch) (rows map[store.Slot]string, root string) {
	rows = map[store.Slot]string{}
	for _, b := range batches {
		for slot := range rows {
			for _, span := range b.Ranges {
				if span.Has(slot) {
					delete(rows, slot)
				}
			}
		}
		for _, slot := range b.Deletes {
			delete(rows, slot)
		}
		for _, put := range b.Puts {
			rows[put.Slot] = string(put.Data)
		}
		if b.Root != nil {
			root = string(b.Root)
		}
	}
	return rows, root
}
