// Package attempt owns the transaction of one attempt: it begins with the attempt and
// ends with it. A failed attempt leaves nothing behind.
//
// It upholds I2: what the host changes goes through the transaction only, and a host
// that goes on after its attempt changes nothing any more.
package attempt

import (
	"context"

	"prosody/core/pipeline"
)

// New wraps the host's handler. The transaction of a success stays on the invocation,
// for the durable layer to commit. Without a record there is none.
func New(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) (outcome pipeline.Outcome) {
		if invocation.Entity == nil {
			return next.Handle(ctx, invocation)
		}
		txn := invocation.Begin()
		invocation.Txn = txn
		defer func() {
			txn.Seal()
			if outcome.Class != pipeline.Success {
				txn.Discard()
				invocation.Txn = nil
			}
		}()
		return next.Handle(ctx, invocation)
	})
}
