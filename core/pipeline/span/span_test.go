package span

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// run handles an event and gives the spans that end by it, and what the host is told.
func run(t *testing.T, messages, timers string, e event.Event, outcome pipeline.Outcome) (tracetest.SpanStubs, trace.Context) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	e.Headers = []kafka.Header{{Name: trace.Parent, Value: []byte(parent)}}
	var told trace.Context
	host := pipeline.Func(func(_ context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		told = invocation.Trace()
		assert.Empty(t, exporter.GetSpans(), "the span lasts as long as the work")
		return outcome
	})
	invocation := &pipeline.Invocation{Event: &e}
	chain := New(host, trace.New(provider.Tracer("prosody"), messages, timers))
	assert.Equal(t, outcome, chain.Handle(t.Context(), invocation))
	assert.False(t, invocation.Span.Context().IsValid())
	return exporter.GetSpans(), told
}

func TestARecordContinuesTheTraceOfItsSender(t *testing.T) {
	message := event.Event{Kind: event.Message, Topic: "orders", Partition: 3, Offset: 7, Key: "k"}
	spans, told := run(t, "child", "follows_from", message, pipeline.Outcome{Class: pipeline.Success})
	require.Len(t, spans, 1)
	span := spans[0]
	assert.Equal(t, "receive", span.Name)
	assert.Equal(t, otel.SpanKindConsumer, span.SpanKind)
	assert.Equal(t, "b7ad6b7169203331", span.Parent.SpanID().String())
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", told.TraceID().String())
	assert.Equal(t, span.SpanContext.SpanID(), told.SpanID())
	assert.Empty(t, span.Links)
	assert.Equal(t, codes.Unset, span.Status.Code)
	found := map[string]string{}
	for _, attribute := range span.Attributes {
		found[string(attribute.Key)] = attribute.Value.String()
	}
	assert.Equal(t, map[string]string{
		"messaging.system": "kafka", "topic": "orders", "partition": "3", "offset": "7", "key": "k", "outcome": "success",
	}, found)
}

func TestFollowsFromIsATraceOfItsOwnWithALink(t *testing.T) {
	for _, test := range []struct {
		name, messages, timers string
		kind                   event.Kind
	}{
		{"trigger", "child", "follows_from", event.Timer},
		{"receive", "follows_from", "child", event.Excise},
	} {
		e := event.Event{Kind: test.kind, Key: "k", Timestamp: 5000}
		spans, _ := run(t, test.messages, test.timers, e, pipeline.Outcome{Class: pipeline.Permanent, Text: "bad"})
		require.Len(t, spans, 1)
		assert.Equal(t, test.name, spans[0].Name)
		assert.False(t, spans[0].Parent.IsValid())
		require.Len(t, spans[0].Links, 1)
		assert.Equal(t, parent, trace.Text(spans[0].Links[0].SpanContext))
		assert.Equal(t, codes.Error, spans[0].Status.Code)
		assert.Equal(t, "permanent: bad", spans[0].Status.Description)

		spans, _ = run(t, test.timers, test.messages, e, pipeline.Outcome{Class: pipeline.Deferred, Text: "later"})
		assert.Equal(t, "b7ad6b7169203331", spans[0].Parent.SpanID().String(), "the relation child")
		assert.Empty(t, spans[0].Links)
		assert.Equal(t, codes.Unset, spans[0].Status.Code)
	}
}

func TestARetryIsNoEvent(t *testing.T) {
	spans, _ := run(t, "", "", event.Event{Kind: event.Retry}, pipeline.Outcome{Class: pipeline.Success})
	assert.Empty(t, spans)
}

func TestAPanicEndsTheSpan(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := trace.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer(""), "", "")
	chain := New(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { panic("fault") }), tracer)
	assert.Panics(t, func() {
		chain.Handle(t.Context(), &pipeline.Invocation{Event: &event.Event{Kind: event.Message}})
	})
	assert.Len(t, exporter.GetSpans(), 1)
}

func TestWithoutATracerTheContextPasses(t *testing.T) {
	host := pipeline.Func(func(_ context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		assert.Equal(t, parent, trace.Text(invocation.Trace()))
		return pipeline.Outcome{Class: pipeline.Success}
	})
	e := &event.Event{Kind: event.Message, Headers: []kafka.Header{{Name: trace.Parent, Value: []byte(parent)}}}
	New(host, nil).Handle(t.Context(), &pipeline.Invocation{Event: e})
}

func BenchmarkOff(b *testing.B) {
	chain := New(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return pipeline.Outcome{} }), nil)
	invocation := &pipeline.Invocation{Event: &event.Event{Kind: event.Message}}
	b.ReportAllocs()
	for b.Loop() {
		chain.Handle(b.Context(), invocation)
	}
}
