// Package cancel owns what a partition's leaving means to an attempt: none starts any
// more, and one that failed while its owner leaves is left to the next owner.
//
// It upholds I7 and the rule that a handler cut short by its owner writes nothing.
package cancel

import (
	"context"

	"prosody/core/pipeline"
)

// New wraps a handler. A permanent failure stays one: whether it can still be
// recorded is the layer's or owner's to decide who would record it.
func New(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		if invocation.Leaving.Err() != nil {
			return pipeline.Leave(invocation, "not started")
		}
		outcome := next.Handle(ctx, invocation)
		if outcome.Class == pipeline.Transient && invocation.Leaving.Err() != nil {
			return pipeline.Leave(invocation, outcome.Text)
		}
		return outcome
	})
}
