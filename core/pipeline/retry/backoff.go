package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait before an attempt is repeated.
type Backoff struct {
	Base   time.Duration           // 0: 20 ms
	Max    time.Duration           // 0: 5 min
	Random func(limit int64) int64 // uniform in [0, limit); nil: the global source
}

// Delay draws the wait after attempt, which counts from 1: uniform in
// [0, min(2^attempt * Base, Max)).
func (b Backoff) Delay(attempt uint32) time.Duration {
	limit := b.limit(attempt)
	if b.Random != nil {
		return time.Duration(b.Random(limit))
	}
	return time.Duration(rand.Int64N(limit))
}

// limit is at least 1 ns.
func (b Backoff) limit(attempt uint32) int64 {
	base, most := int64(b.Base), int64(b.Max)
	if base <= 0 {
		base = int64(20 * time.Millisecond)
	}
	if most <= 0 {
		most = int64(5 * time.Minute)
	}
	if base > math.MaxInt64>>attempt {
		return most
	}
	return min(base<<attempt, most)
}
