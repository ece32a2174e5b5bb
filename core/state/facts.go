package state

import (
	"sync/atomic"
	"time"

	"prosody/core/tally"
)

// counts is what a registry counts.
type counts struct {
	hits, misses, cells, failures atomic.Int64
	reads                         tally.Histogram
}

// Facts are what the operations on collections have cost.
type Facts struct {
	Hits     int64           `json:"hits"`     // operations that memory answered
	Misses   int64           `json:"misses"`   // operations that read the store
	Cells    int64           `json:"cells"`    // cells that were read from the store
	Failures int64           `json:"failures"` // of reads
	Reads    tally.Durations `json:"-"`        // of the store
}

// Snapshot reads the counters.
func (r *Registry) Snapshot() Facts {
	if r == nil {
		return Facts{}
	}
	c := &r.counts
	return Facts{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Cells: c.cells.Load(), Failures: c.failures.Load(),
		Reads: c.reads.Snapshot(),
	}
}

// read counts a read of the store that began then.
func (r *Registry) read(began time.Time, cells int, err error) {
	r.counts.reads.Note(time.Since(began))
	r.counts.cells.Add(int64(cells))
	if err != nil {
		r.counts.failures.Add(1)
	}
}
