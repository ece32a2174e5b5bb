package trace

import (
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otel "go.opentelemetry.io/otel/trace"
)

// Request is a request from its making to its end. cause is what it belongs to.
// Topic and key are borrowed: the span copies them.
func (t *Tracer) Request(cause Context, topic, key, requester, id string, subsystems []string) Span {
	if t == nil {
		return Span{}
	}
	span := t.begin("request", otel.SpanKindClient, cause, false, time.Time{})
	span.Set(func() []attribute.KeyValue {
		return []attribute.KeyValue{
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.name", "request"), attribute.String("messaging.operation.type", "request"),
			attribute.String("messaging.destination.name", strings.Clone(topic)),
			attribute.String("messaging.kafka.message.key", Plain(strings.Clone(key))),
			attribute.String("requester.id", requester), attribute.StringSlice("subsystems", subsystems),
			attribute.String("request.id", id), attribute.String("messaging.message.conversation_id", id),
		}
	})
	return span
}

// Answers is what came of a request. Failures gives the kind of each by its subsystem.
type Answers struct {
	Succeeded int
	Missing   []string
	Failures  map[string]string
	Took      time.Duration
}

// Answered ends the span of a request.
func (s Span) Answered(answers Answers) {
	s.Set(func() []attribute.KeyValue {
		outcome := "complete"
		if len(answers.Missing) > 0 {
			outcome = "timeout"
		}
		failures := make([]string, 0, len(answers.Failures))
		for name, kind := range answers.Failures {
			failures = append(failures, name+"="+kind)
		}
		slices.Sort(failures)
		return []attribute.KeyValue{
			attribute.String("request.outcome", outcome),
			attribute.Int64("request.latency_ms", answers.Took.Milliseconds()),
			attribute.Int("responses.received", answers.Succeeded+len(failures)),
			attribute.Int("responses.succeeded", answers.Succeeded), attribute.Int("responses.failed", len(failures)),
			attribute.String("responses.missing", strings.Join(answers.Missing, ",")),
			attribute.String("responses.errors", strings.Join(failures, ",")),
		}
	})
	s.End("")
}
