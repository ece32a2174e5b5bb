package event

import "prosody/core/observe/trace"

// Trace gives the trace context that the event's headers carry, or none.
func (e *Event) Trace() trace.Context { return trace.Of(e.Headers) }

// Record names the record of a message or excise record for its spans.
func (e *Event) Record() trace.Record {
	return trace.Record{Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Key: e.Key}
}
