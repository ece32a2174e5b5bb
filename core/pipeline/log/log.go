// Package log owns the outer end of each chain: what leaves it is final, and each event
// that ends without success leaves a line and a count.
//
// It upholds I7. The phrases "discarding message", "discarding excise", "discarding
// timer" and "aborting processing" are stable: operators search for them.
package log

import (
	"context"
	"log/slog"

	"prosody/core/pipeline"
)

// New wraps the whole chain. A transient failure that comes here was given up: it is
// discarded, and leaves as a permanent one.
func New(next pipeline.Handler, counts *pipeline.Counts, logger *slog.Logger) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		outcome := next.Handle(ctx, invocation)
		switch outcome.Class {
		case pipeline.Transient, pipeline.Permanent:
			counts.Discarded.Add(1)
			logger.Error("discarding "+invocation.Event.Kind.String(), fields(invocation, outcome)...)
			outcome.Class = pipeline.Permanent
		case pipeline.Aborted:
			counts.Aborted.Add(1)
			logger.Warn("aborting processing", fields(invocation, outcome)...)
		}
		return outcome
	})
}

func fields(invocation *pipeline.Invocation, outcome pipeline.Outcome) []any {
	return append(pipeline.Fields(invocation.Event),
		slog.String("class", outcome.Class.String()),
		slog.String("reason", pipeline.Clip(outcome.Text, 1024)))
}
