// Package clock owns time as the core sees it: the real one, and one that tests and
// mock mode move by hand.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and calls back later.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own, d from now.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a callback that waits.
type Timer interface {
	// Stop prevents the callback; false when it has begun already.
	Stop() bool
}

// Real is the clock of the machine.
type Real struct{}

// Now tells the time.
func (Real) Now() time.Time { return time.Now() }

// AfterFunc calls f after d.
func (Real) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Sleep waits for d, or until ctx ends, whose error it then returns.
func Sleep(ctx context.Context, clock Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	done := make(chan struct{})
	timer := clock.AfterFunc(d, func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		timer.Stop()
		return ctx.Err()
	}
}
