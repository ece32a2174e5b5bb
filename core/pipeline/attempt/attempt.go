// Package attempt owns the transaction of one attempt and its collections: they begin
// with the attempt and end with it. A failed attempt leaves nothing behind.
//
// It upholds I2: what the host changes goes through the transaction only, and a host
// that goes on after its attempt changes nothing any more.
package attempt

import (
	"context"

	"prosody/core/fault"
	"prosody/core/pipeline"
	"prosody/core/state"
)

// New wraps the host's handler. The transaction of a success stays on the invocation,
// for the durable layer to commit. Without a record there is none. A nil registry has no
// collections.
func New(next pipeline.Handler, registry *state.Registry) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) (outcome pipeline.Outcome) {
		if invocation.Entity == nil {
			return next.Handle(ctx, invocation)
		}
		txn := invocation.Begin()
		session := registry.Begin(txn, invocation.Event)
		invocation.Txn, invocation.State = txn, session
		defer func() {
			if err := session.End(invocation.Leaving, outcome.Class == pipeline.Success); err != nil {
				outcome = refuse(err)
			}
			invocation.State = nil
			txn.Seal()
			if outcome.Class != pipeline.Success {
				txn.Discard()
				invocation.Txn = nil
			}
		}()
		return next.Handle(ctx, invocation)
	})
}

// refuse is the end of an attempt whose changes cannot be stored.
func refuse(err error) pipeline.Outcome {
	outcome := pipeline.Outcome{Class: pipeline.Transient, Text: pipeline.Clip("its state cannot be stored: "+err.Error(), pipeline.MaxText)}
	if kind := fault.Of(err); kind == fault.TooLarge || kind == fault.Invalid {
		outcome.Class = pipeline.Permanent
	}
	return outcome
}
