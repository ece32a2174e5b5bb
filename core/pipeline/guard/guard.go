// Package guard owns the boundary between the chain and the host's handler: whatever
// the handler does, what comes back is a proper outcome.
//
// It upholds I7: a panic or an outcome without a class is a transient failure.
package guard

import (
	"context"
	"fmt"
	"time"

	"prosody/core/pipeline"
)

// New wraps the host's handler. It counts attempts, how they end and
// how long they take.
func New(host pipeline.Handler, counts *pipeline.Counts) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) (outcome pipeline.Outcome) {
		counts.Attempts.Add(1)
		began := time.Now()
		defer func() {
			if fault := recover(); fault != nil {
				outcome = pipeline.Outcome{Class: pipeline.Transient, Text: "handler panicked: " + describe(fault)}
			}
			outcome = proper(outcome)
			counts.Times.Of(pipeline.Attempt{
				Topic: invocation.Event.Topic, Kind: invocation.Event.Kind, Class: outcome.Class,
			}).Note(time.Since(began))
			switch outcome.Class {
			case pipeline.Success:
				counts.Successes.Add(1)
			case pipeline.Permanent:
				counts.Permanent.Add(1)
			}
		}()
		return host.Handle(ctx, invocation)
	})
}

// proper bounds the text and gives an outcome of no known class one.
func proper(outcome pipeline.Outcome) pipeline.Outcome {
	if outcome.Class < pipeline.Success || outcome.Class > pipeline.Aborted {
		outcome = pipeline.Outcome{Class: pipeline.Transient, Text: "handler ended without a result: " + outcome.Text}
	}
	if outcome.Text != "" {
		outcome.Text = pipeline.Clip(outcome.Text, pipeline.MaxText)
	}
	return outcome
}

// describe prints what was thrown, even when its own text function panics.
func describe(fault any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", fault)
		}
	}()
	return fmt.Sprint(fault)
}
