package trace

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/kafka"
)

func recorder(messages, timers string) (*Tracer, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	return New(provider.Tracer("prosody"), messages, timers), exporter
}

func attributes(span tracetest.SpanStub) map[string]string {
	found := map[string]string{}
	for _, attribute := range span.Attributes {
		found[string(attribute.Key)] = attribute.Value.String()
	}
	return found
}

func TestNoTracerMakesNoSpan(t *testing.T) {
	none := New(nil, "", "")
	require.Nil(t, none)
	for _, span := range []Span{
		none.Send(Context{}, "t", "k", nil), none.Receive(Context{}, Record{}), none.Load(Context{}, Record{}, false, time.Time{}),
		none.Trigger(Context{}, "k", 1), none.LoadTimer(Context{}, "k", 1, time.Time{}), none.Call(Context{}, "c"),
		none.Request(Context{}, "t", "k", "r", "i", nil),
	} {
		require.False(t, span.Context().IsValid())
		span.Sent(1, 2, 3)
		span.Answered(Answers{})
		span.Fail(errors.New("bad"))
		span.End("bad")
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		span := none.Send(Context{}, "t", "k", nil)
		span.Sent(1, 2, 3)
	}), "nothing is paid")
}

func TestDeferredEventsAreLoadedUnderTheirRelation(t *testing.T) {
	cause := Parse(parent, "")
	tracer, exporter := recorder("child", "follows_from")
	start := time.Now().Add(-time.Minute)
	tracer.Load(cause, Record{"t", 1, 2, "k"}, true, start).End("")
	tracer.LoadTimer(cause, "k", 5, start).End("")
	spans := exporter.GetSpans()
	require.Len(t, spans, 2)
	assert.Equal(t, "load", spans[0].Name)
	assert.Equal(t, cause.SpanID(), spans[0].Parent.SpanID())
	assert.Equal(t, map[string]string{
		"messaging.system": "kafka", "topic": "t", "partition": "1", "offset": "2", "key": "k", "cached": "true",
	}, attributes(spans[0]))
	assert.True(t, start.Equal(spans[0].StartTime))
	assert.Equal(t, "timer_defer.load", spans[1].Name)
	assert.False(t, spans[1].Parent.IsValid())
	require.Len(t, spans[1].Links, 1)
	assert.Equal(t, "follows_from", spans[1].Links[0].Attributes[0].Value.AsString())
	assert.Equal(t, map[string]string{"key": "k", "timer.fire_time": "1970-01-01T00:00:05Z", "timer.type": "application"}, attributes(spans[1]))
}

func TestARequestTellsOfItsAnswers(t *testing.T) {
	tracer, exporter := recorder("", "")
	span := tracer.Request(Parse(parent, ""), "orders", "k", "me", "id", []string{"a", "b", "c"})
	span.Answered(Answers{Succeeded: 1, Missing: []string{"c"}, Failures: map[string]string{"b": "handler"}, Took: 1500 * time.Millisecond})
	spans := exporter.GetSpans()
	require.Len(t, spans, 1)
	assert.Equal(t, otel.SpanKindClient, spans[0].SpanKind)
	assert.Equal(t, map[string]string{
		"messaging.system": "kafka", "messaging.operation.name": "request", "messaging.operation.type": "request",
		"messaging.destination.name": "orders", "messaging.kafka.message.key": "k", "requester.id": "me",
		"subsystems": `["a","b","c"]`, "request.id": "id", "messaging.message.conversation_id": "id",
		"request.outcome": "timeout", "request.latency_ms": "1500", "responses.received": "2", "responses.succeeded": "1",
		"responses.failed": "1", "responses.missing": "c", "responses.errors": "b=handler",
	}, attributes(spans[0]))
}

func TestSpansKeepNothingThatIsBorrowed(t *testing.T) {
	tracer, exporter := recorder("", "")
	memory := []byte("borrowed")
	borrowed := unsafe.String(&memory[0], len(memory))
	first, second := tracer.Send(Context{}, borrowed, borrowed, []byte("1")), tracer.Request(Context{}, borrowed, borrowed, "", "", nil)
	copy(memory, "changed!")
	first.End("")
	second.End("")
	assert.Equal(t, "borrowed", attributes(exporter.GetSpans()[0])["topic"])
	assert.Equal(t, "borrowed", attributes(exporter.GetSpans()[0])["key"])
	assert.Equal(t, "borrowed", attributes(exporter.GetSpans()[1])["messaging.destination.name"])
	assert.Equal(t, "borrowed", attributes(exporter.GetSpans()[1])["messaging.kafka.message.key"])
}

func TestWhatIsNotUTF8DoesNotCostTheBatch(t *testing.T) {
	tracer, exporter := recorder("", "")
	tracer.Receive(Context{}, Record{Key: "a\xff"}).End("b\xfe")
	span := exporter.GetSpans()[0]
	assert.Equal(t, "a\uFFFD", attributes(span)["key"])
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "b\uFFFD"}, span.Status)
}

func BenchmarkReceive(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"none": sdktrace.NeverSample(), "tenth": sdktrace.TraceIDRatioBased(0.1), "all": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
			tracer := New(provider.Tracer("prosody"), "", "")
			cause := Parse(parent, "")
			cause = cause.WithTraceFlags(0)
			b.ReportAllocs()
			for b.Loop() {
				tracer.Receive(cause, Record{"t", 1, 2, "k"}).End("")
			}
		})
	}
}

// BenchmarkOff is all that an event pays for spans while none are exported.
func BenchmarkOff(b *testing.B) {
	headers := []kafka.Header{{Name: "source-system", Value: []byte("shop")}, {Name: "content-type", Value: []byte("json")}}
	var none *Tracer
	b.ReportAllocs()
	for b.Loop() {
		cause := Of(headers)
		span := none.Receive(cause, Record{})
		if Text(First(span.Context(), cause)) != "" {
			b.Fatal("a span")
		}
		span.End("")
	}
}
