// Package tally owns how long things took, as counted on the hot path: histograms of
// atomics, some of them by label. Noting a duration takes no lock and allocates nothing.
//
// It upholds I4: a family has a bounded number of labels. What comes beyond it goes to
// one histogram that stands for all others.
package tally

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// bounds are the upper limits of the buckets in seconds: those that OpenTelemetry advises
// for the durations of messaging, and more for what waits long.
var bounds = [...]float64{
	0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300,
}

// limits are the bounds as durations.
var limits = func() (list [len(bounds)]time.Duration) {
	for i, bound := range bounds {
		list[i] = time.Duration(math.Round(bound * float64(time.Second)))
	}
	return list
}()

// Bounds lists the upper limits of the buckets in seconds.
func Bounds() []float64 { return append([]float64(nil), bounds[:]...) }

// Histogram counts durations. The zero value is ready.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	sum     atomic.Int64 // ns
}

// Durations are what a histogram has counted. Buckets has one more element than Bounds:
// the last one is for what is longer than all of them.
type Durations struct {
	Count   uint64        `json:"count"`
	Sum     time.Duration `json:"sum_ns"`
	Buckets []uint64      `json:"buckets"`
}

// Note counts a duration; a negative one counts as none.
func (h *Histogram) Note(took time.Duration) {
	took = max(0, took)
	i := 0
	for i < len(limits) && took > limits[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(took))
}

// Snapshot reads the histogram.
func (h *Histogram) Snapshot() Durations {
	made := Durations{Buckets: make([]uint64, len(h.buckets)), Sum: time.Duration(h.sum.Load())}
	for i := range h.buckets {
		made.Buckets[i] = h.buckets[i].Load()
		made.Count += made.Buckets[i]
	}
	return made
}

// most is how many labels a family has, beside that of all others.
const most = 256

// Family is histograms by label. The zero value is ready.
type Family[L comparable] struct {
	known sync.Map // of L to *Histogram
	count atomic.Int64
	rest  Histogram
}

// Of gives the histogram of a label, or that of all others when there are too many.
func (f *Family[L]) Of(label L) *Histogram {
	if found, known := f.known.Load(label); known {
		return found.(*Histogram)
	}
	if f.count.Load() >= most {
		return &f.rest
	}
	found, known := f.known.LoadOrStore(label, &Histogram{})
	if !known {
		f.count.Add(1)
	}
	return found.(*Histogram)
}

// Snapshot reads all histograms. The one of all others has the zero label; it is there
// only once it is needed.
func (f *Family[L]) Snapshot() map[L]Durations {
	made := map[L]Durations{}
	f.known.Range(func(label, found any) bool {
		made[label.(L)] = found.(*Histogram).Snapshot()
		return true
	})
	if rest := f.rest.Snapshot(); rest.Count > 0 {
		var others L
		made[others] = rest
	}
	return made
}
