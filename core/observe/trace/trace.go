// Package trace owns the spans of the core: their names, kinds and attributes, how they
// relate to what caused them, and the W3C form of a context.
//
// A nil Tracer makes no spans, and the zero Span is none: both cost a comparison.
// Contexts are handed on all the same. A span is never kept beyond the work that it is
// about; what has to last keeps its Context.
package trace

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"
)

// Tracer makes the spans of a client.
type Tracer struct {
	inner    otel.Tracer
	messages bool // the relation of records is a link
	timers   bool
}

// follows is the relation that starts a trace of its own with a link back.
const follows = "follows_from"

// New makes a tracer; nil for nil. messages and timers are the options message_spans and
// timer_spans.
func New(inner otel.Tracer, messages, timers string) *Tracer {
	if inner == nil {
		return nil
	}
	return &Tracer{inner: inner, messages: messages == follows, timers: timers == follows}
}

// Span is work under way, or nothing.
type Span struct{ inner otel.Span }

// Context gives what the span is known by; none for no span.
func (s Span) Context() Context {
	if s.inner == nil {
		return Context{}
	}
	return s.inner.SpanContext()
}

// Set adds attributes, as a function so that a span that nobody records costs nothing.
func (s Span) Set(attributes func() []attribute.KeyValue) {
	if s.inner != nil && s.inner.IsRecording() {
		s.inner.SetAttributes(attributes()...)
	}
}

// End ends the span. A text says what went wrong.
func (s Span) End(failure string) {
	if s.inner == nil {
		return
	}
	if failure != "" {
		s.inner.SetStatus(codes.Error, Plain(failure))
	}
	s.inner.End()
}

// Fail ends the span with an error, if there is one.
func (s Span) Fail(err error) {
	switch {
	case s.inner == nil:
	case err == nil:
		s.inner.End()
	default:
		s.End(err.Error())
	}
}

// Plain makes a text fit for export: one that is not UTF-8 would cost the whole batch.
func Plain(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// begin starts a span: a child of its cause, or a root that links back to it.
func (t *Tracer) begin(name string, kind otel.SpanKind, cause Context, linked bool, start time.Time) Span {
	options := make([]otel.SpanStartOption, 0, 3)
	options = append(options, otel.WithSpanKind(kind))
	if !start.IsZero() {
		options = append(options, otel.WithTimestamp(start))
	}
	ctx := context.Background()
	switch {
	case !cause.IsValid():
	case linked:
		options = append(options, otel.WithLinks(otel.Link{
			SpanContext: cause,
			Attributes:  []attribute.KeyValue{attribute.String("opentracing.ref_type", follows)},
		}))
	default:
		ctx = otel.ContextWithRemoteSpanContext(ctx, cause)
	}
	_, span := t.inner.Start(ctx, name, options...)
	return Span{span}
}

// Send is a record on its way to the broker. No payload is an excise record. Texts are
// borrowed: the span copies them.
func (t *Tracer) Send(cause Context, topic, key string, payload []byte) Span {
	if t == nil {
		return Span{}
	}
	name := "send"
	if payload == nil {
		name = "excise"
	}
	span := t.begin(name, otel.SpanKindProducer, cause, false, time.Time{})
	span.Set(func() []attribute.KeyValue {
		return []attribute.KeyValue{
			attribute.String("messaging.system", "kafka"), attribute.String("topic", strings.Clone(topic)),
			attribute.String("key", Plain(strings.Clone(key))), attribute.Int("payload_size", len(payload)),
		}
	})
	return span
}

// Sent ends the span of a record that was sent; a partition below 0: it was a duplicate.
func (s Span) Sent(partition int32, offset, timestamp int64) {
	s.Set(func() []attribute.KeyValue {
		if partition < 0 {
			return []attribute.KeyValue{attribute.Bool("duplicate", true)}
		}
		return []attribute.KeyValue{
			attribute.Int("partition", int(partition)), attribute.Int64("offset", offset), attribute.Int64("timestamp", timestamp),
		}
	})
	s.End("")
}

// Record names a record.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       string
}

func (r Record) attributes(more ...attribute.KeyValue) []attribute.KeyValue {
	return append([]attribute.KeyValue{
		attribute.String("messaging.system", "kafka"), attribute.String("topic", r.Topic),
		attribute.Int("partition", int(r.Partition)), attribute.Int64("offset", r.Offset), attribute.String("key", Plain(r.Key)),
	}, more...)
}

// Receive is the work on a record.
func (t *Tracer) Receive(cause Context, record Record) Span {
	if t == nil {
		return Span{}
	}
	span := t.begin("receive", otel.SpanKindConsumer, cause, t.messages, time.Time{})
	span.Set(func() []attribute.KeyValue { return record.attributes() })
	return span
}

// Load is the work on a record that was deferred, from its loading on; cached: that read
// nothing from the log.
func (t *Tracer) Load(cause Context, record Record, cached bool, start time.Time) Span {
	if t == nil {
		return Span{}
	}
	span := t.begin("load", otel.SpanKindConsumer, cause, t.messages, start)
	span.Set(func() []attribute.KeyValue { return record.attributes(attribute.Bool("cached", cached)) })
	return span
}

// Trigger is the work on a timer that is due.
func (t *Tracer) Trigger(cause Context, key string, second int64) Span {
	if t == nil {
		return Span{}
	}
	return t.timer("trigger", cause, key, second, time.Time{})
}

// LoadTimer is the work on a timer that was deferred.
func (t *Tracer) LoadTimer(cause Context, key string, second int64, start time.Time) Span {
	if t == nil {
		return Span{}
	}
	return t.timer("timer_defer.load", cause, key, second, start)
}

func (t *Tracer) timer(name string, cause Context, key string, second int64, start time.Time) Span {
	span := t.begin(name, otel.SpanKindConsumer, cause, t.timers, start)
	span.Set(func() []attribute.KeyValue {
		return []attribute.KeyValue{
			attribute.String("key", Plain(key)), attribute.String("timer.type", "application"),
			attribute.String("timer.fire_time", time.Unix(second, 0).UTC().Format(time.RFC3339)),
		}
	})
	return span
}

// Call is one call of a host: on its timers or its collections.
func (t *Tracer) Call(cause Context, name string) Span {
	if t == nil {
		return Span{}
	}
	return t.begin(name, otel.SpanKindInternal, cause, false, time.Time{})
}
