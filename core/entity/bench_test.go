package entity_test

import (
	"testing"

	"prosody/core/entity"
	"prosody/core/kafka"
	"prosody/core/store"
)

// What an event costs that changes nothing, and one that moves a timer, without the
// time of a store.
func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct {
		name string
		work func(*entity.Txn)
	}{{"light", nil}, {"timer", func(txn *entity.Txn) { _ = txn.Replace(b.Context(), 1_700_000_100, false) }}} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, store.Limits{})
			k := w.keeper()
			lease := k.Assign(home)
			names := make([]string, 1000)
			for n := range names {
				names[n] = key(n)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				w.handle(lease, w.message(names[n%1000]), c.work)
				if n%100_000 == 0 {
					_, _ = k.Flush(b.Context(), []kafka.Partition{home})
				}
			}
		})
	}
}
