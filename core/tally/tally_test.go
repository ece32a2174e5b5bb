package tally

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEachDurationIsInTheBucketOfItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		var sum time.Duration
		want := make([]uint64, len(bounds)+1)
		for _, took := range rapid.SliceOf(rapid.Int64Range(-5, int64(10*time.Minute))).Draw(t, "took") {
			h.Note(time.Duration(took))
			took = max(0, took)
			sum += time.Duration(took)
			bucket := len(bounds)
			for i := len(bounds) - 1; i >= 0 && float64(took) <= bounds[i]*1e9; i-- {
				bucket = i
			}
			want[bucket]++
		}
		made := h.Snapshot()
		require.Equal(t, want, made.Buckets)
		require.Equal(t, sum, made.Sum)
		var count uint64
		for _, each := range want {
			count += each
		}
		require.Equal(t, count, made.Count)
	})
}

func TestABoundItselfIsInItsBucket(t *testing.T) {
	for i, bound := range Bounds() {
		var h Histogram
		h.Note(time.Duration(bound * 1e9))
		require.EqualValues(t, 1, h.Snapshot().Buckets[i], "bound %v", bound)
	}
}

func TestAFamilyIsBounded(t *testing.T) {
	var f Family[string]
	var all sync.WaitGroup
	const labels, each = 10 * most, 4
	for range each {
		all.Go(func() {
			for i := range labels {
				f.Of(fmt.Sprint(i)).Note(time.Second)
			}
		})
	}
	all.Wait()
	made := f.Snapshot()
	assert.LessOrEqual(t, len(made), most+each+1, "racing callers may pass the bound by one each")
	assert.GreaterOrEqual(t, len(made), most)
	var count uint64
	for _, durations := range made {
		count += durations.Count
	}
	require.EqualValues(t, labels*each, count, "nothing is lost")
}

func TestNotingAllocatesNothing(t *testing.T) {
	var f Family[struct{ topic, kind string }]
	label := struct{ topic, kind string }{"orders", "message"}
	f.Of(label).Note(time.Second)
	kept := f.Of(label)
	require.Zero(t, testing.AllocsPerRun(100, func() { kept.Note(time.Millisecond) }))
}

func BenchmarkNote(b *testing.B) {
	var h Histogram
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h.Note(3 * time.Millisecond)
		}
	})
}

func BenchmarkFamily(b *testing.B) {
	var f Family[struct{ topic, kind string }]
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			f.Of(struct{ topic, kind string }{"orders", "message"}).Note(3 * time.Millisecond)
		}
	})
}
