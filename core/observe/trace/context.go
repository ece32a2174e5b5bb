package trace

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/kafka"
)

// Context is what a span is known by elsewhere. The zero one is none: IsValid tells.
type Context = otel.SpanContext

// The headers that carry a context.
const (
	Parent = "traceparent"
	State  = "tracestate"
)

// What the W3C recommends to carry.
const (
	maxParent = 128
	maxState  = 512
)

// carrier holds the two fields of a context.
type carrier struct{ parent, state string }

// Get gives a field.
func (c *carrier) Get(name string) string {
	switch name {
	case Parent:
		return c.parent
	case State:
		return c.state
	}
	return ""
}

// Set sets a field.
func (c *carrier) Set(name, value string) {
	switch name {
	case Parent:
		c.parent = value
	case State:
		c.state = value
	}
}

// Keys names the fields.
func (*carrier) Keys() []string { return []string{Parent, State} }

var w3c = propagation.TraceContext{}

// Parse reads a context; what is malformed is none, and a malformed state is left out.
func Parse(parent, state string) Context {
	if parent == "" || len(parent) > maxParent {
		return Context{}
	}
	if len(state) > maxState {
		state = ""
	}
	return otel.SpanContextFromContext(w3c.Extract(context.Background(), &carrier{parent, state}))
}

// Format writes a context; both are empty for none.
func Format(c Context) (parent, state string) {
	if !c.IsValid() {
		return "", ""
	}
	var made carrier
	w3c.Inject(otel.ContextWithSpanContext(context.Background(), c), &made)
	return made.parent, made.state
}

// Of gives the context of a record's headers. Of several the first that makes sense counts.
func Of(headers []kafka.Header) Context {
	for i := range headers {
		if headers[i].Name != Parent || len(headers[i].Value) > maxParent {
			continue
		}
		if found := Parse(string(headers[i].Value), ""); found.IsValid() {
			return stated(found, headers)
		}
	}
	return Context{}
}

func stated(found Context, headers []kafka.Header) Context {
	for i := range headers {
		if headers[i].Name != State || len(headers[i].Value) > maxState {
			continue
		}
		if state, err := otel.ParseTraceState(string(headers[i].Value)); err == nil && state.Len() > 0 {
			return found.WithTraceState(state)
		}
	}
	return found
}

// Headers gives the headers of a context; nil for none.
func Headers(c Context) []kafka.Header {
	parent, state := Format(c)
	if parent == "" {
		return nil
	}
	made := []kafka.Header{{Name: Parent, Value: []byte(parent)}}
	if state != "" {
		made = append(made, kafka.Header{Name: State, Value: []byte(state)})
	}
	return made
}

// Text writes a context as one text, which Read reads: traceparent, then perhaps a line
// break and tracestate.
func Text(c Context) string {
	parent, state := Format(c)
	if state == "" {
		return parent
	}
	return parent + "\n" + state
}

// Read reads what Text wrote.
func Read(text string) Context {
	parent, state, _ := strings.Cut(text, "\n")
	return Parse(parent, state)
}

// With makes a context the current one of a call; none changes nothing.
func With(ctx context.Context, c Context) context.Context {
	if !c.IsValid() {
		return ctx
	}
	return otel.ContextWithSpanContext(ctx, c)
}

// From gives the current context of a call.
func From(ctx context.Context) Context { return otel.SpanContextFromContext(ctx) }

// First gives the first of two that is one.
func First(c, otherwise Context) Context {
	if c.IsValid() {
		return c
	}
	return otherwise
}
