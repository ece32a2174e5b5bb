// Package span owns the span of an event: it begins when the event's work begins, ends
// with its outcome, and is the parent of all that the host does for it. The head of a
// deferred queue is not an event yet: core/pipeline/deferral makes the span of what it
// finds there.
package span

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"prosody/core/event"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

// New wraps the chain; a nil tracer leaves it as it is.
func New(next pipeline.Handler, tracer *trace.Tracer) pipeline.Handler {
	if tracer == nil {
		return next
	}
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		of := invocation.Event
		switch of.Kind {
		case event.Message, event.Excise:
			invocation.Span = tracer.Receive(of.Trace(), of.Record())
		case event.Timer:
			invocation.Span = tracer.Trigger(of.Trace(), of.Key, of.Timestamp/1000)
		default:
			return next.Handle(ctx, invocation)
		}
		outcome := pipeline.Outcome{Class: pipeline.Aborted, Text: "panicked"}
		defer func() { End(invocation, outcome) }()
		outcome = next.Handle(ctx, invocation)
		return outcome
	})
}

// End ends the span of an invocation with an outcome.
func End(invocation *pipeline.Invocation, outcome pipeline.Outcome) {
	invocation.Span.Set(func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("outcome", outcome.Class.String())}
	})
	failure := ""
	if outcome.Class != pipeline.Success && outcome.Class != pipeline.Deferred {
		failure = outcome.Class.String() + ": " + outcome.Text
	}
	invocation.Span.End(failure)
	invocation.Span = trace.Span{}
}
