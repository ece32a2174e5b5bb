package cassandra

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/store"
)

// BenchmarkApply compares batches with a plain insertion of one row, one at a time and 128
// at once, each to a key of its own.
func BenchmarkApply(b *testing.B) {
	s := connect(b, Options{})
	data := make([]byte, 100)
	var sequence atomic.Int64
	batch := func(mark, timers int) func() error {
		return func() error {
			n := sequence.Add(1)
			key := store.Key{Group: "bench", Topic: "t", Key: fmt.Sprint(n % 10000)}
			at := string(binary.BigEndian.AppendUint64(nil, uint64(n)))
			it := store.Batch{Stamp: time.Now().UnixMicro(), Root: data}
			for range mark {
				it.Puts = append(it.Puts, store.Put{Row: store.Row{Slot: store.Slot{Kind: store.Done, Coordinate: at + at}}, TTL: time.Hour})
			}
			for i := range timers {
				it.Puts = append(it.Puts, store.Put{Row: store.Row{Slot: store.Slot{Kind: store.Timer, Coordinate: at[i:]}, Data: data}, TTL: time.Hour})
				it.Deletes = append(it.Deletes, store.Slot{Kind: store.Timer, Coordinate: "a"})
			}
			return s.Apply(b.Context(), key, it)
		}
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"plain", func() error {
			n := sequence.Add(1)
			return s.session.Query(putRow, "bench", "t", fmt.Sprint(n%10000), int8(9), "", fmt.Sprint(n), data, time.Now().UnixMicro(), 3600).ExecContext(b.Context())
		}},
		{"root", batch(0, 0)},
		{"root+done", batch(1, 0)},
		{"root+done+timer+deletion", batch(1, 1)},
		{"ten", batch(1, 4)},
	} {
		for _, flight := range []int{1, 128} {
			b.Run(fmt.Sprintf("%s/%d", c.name, flight), func(b *testing.B) {
				took := make([]time.Duration, b.N)
				spent := spending()
				var next atomic.Int64
				var group sync.WaitGroup
				for range flight {
					group.Go(func() {
						for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
							began := time.Now()
							require.NoError(b, c.call())
							took[i] = time.Since(began)
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64((spending()-spent).Microseconds())/float64(b.N), "cpu-µs/op")
				slices.Sort(took)
				b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			})
		}
	}
}

// spending is the processor time of this process.
func spending() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
