// Package retry owns the repetition of a failed attempt in place: the wait before the
// next one, its demand, and when to stop.
//
// It upholds I7: only transient failures are repeated, and none is given up unless a
// limit was set. No permit is held during a wait.
package retry

import (
	"context"
	"log/slog"
	"math"

	"prosody/core/clock"
	"prosody/core/pipeline"
)

// Unlimited repeats until success, a permanent failure or the owner's leaving.
const Unlimited = -1

// Options says how to repeat.
type Options struct {
	Backoff Backoff
	Limit   int // repetitions after the first attempt, or Unlimited
	Clock   clock.Clock
	Counts  *pipeline.Counts
	Log     *slog.Logger
}

type retry struct {
	next pipeline.Handler
	Options
}

// New wraps a handler. With a limit, the last transient outcome goes to the outer
// layer. When Leaving ends, a failed attempt and a wait end as Aborted at once.
func New(next pipeline.Handler, options Options) pipeline.Handler {
	return &retry{next: next, Options: options}
}

func (r *retry) Handle(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	given := invocation.Demand
	defer func() { invocation.Demand = given }()
	for attempt := uint32(1); ; attempt++ {
		outcome := r.next.Handle(ctx, invocation)
		if outcome.Class != pipeline.Transient {
			return outcome
		}
		if invocation.Leaving.Err() != nil {
			return pipeline.Leave(invocation, outcome.Text)
		}
		if r.Limit >= 0 && int64(attempt) > int64(r.Limit) {
			return outcome
		}
		delay := r.Backoff.Delay(attempt)
		r.Log.Warn("handler failed, trying again", append(pipeline.Fields(invocation.Event),
			slog.Int64("attempt", int64(attempt)), slog.Duration("delay", delay),
			slog.String("error", pipeline.Clip(outcome.Text, 1024)))...)
		if invocation.Progress != nil {
			invocation.Progress(delay)
		}
		if clock.Sleep(invocation.Leaving, r.Clock, delay) != nil {
			return pipeline.Leave(invocation, outcome.Text)
		}
		r.Counts.Retries.Add(1)
		invocation.Demand = pipeline.Demand{Failure: true, Retry: next(given.Retry, attempt)}
		if attempt == math.MaxUint32 {
			attempt--
		}
	}
}

// next counts on from the number of repetitions at entry, without going round.
func next(given, attempt uint32) uint32 {
	return uint32(min(uint64(given)+uint64(attempt), math.MaxUint32))
}
