package event

import (
	"strings"

	"prosody/core/kafka"
)

// The headers that carry the W3C trace context.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

// What the W3C recommends to carry.
const (
	maxParent = 128
	maxState  = 512
)

// Trace gives the trace context of the headers as one text: traceparent, then perhaps a
// line break and tracestate. It is empty when there is none, or none that makes sense.
func (e *Event) Trace() string {
	var parent, state string
	for i := range e.Headers {
		switch header := &e.Headers[i]; header.Name {
		case traceparent:
			parent = plain(header.Value, maxParent)
		case tracestate:
			state = plain(header.Value, maxState)
		}
	}
	if parent == "" || state == "" {
		return parent
	}
	return parent + "\n" + state
}

// plain gives a short value of printable ASCII, or nothing.
func plain(value []byte, most int) string {
	if len(value) > most {
		return ""
	}
	for _, b := range value {
		if b < ' ' || b > '~' {
			return ""
		}
	}
	return string(value)
}

// Traced gives the headers of a trace context as Trace gives it.
func Traced(trace string) []kafka.Header {
	if trace == "" {
		return nil
	}
	parent, state, both := strings.Cut(trace, "\n")
	headers := []kafka.Header{{Name: traceparent, Value: []byte(parent)}}
	if both {
		headers = append(headers, kafka.Header{Name: tracestate, Value: []byte(state)})
	}
	return headers
}
