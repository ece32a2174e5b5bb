package producer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/clock"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
	. "prosody/core/producer"
)

const (
	given   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	current = "00-1bf7651916cd43dd8448eb211c80319c-c8ad6b7169203332-01"
)

func traced(t *testing.T, f *fake) (*Producer, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	p, err := New(Options{
		Cluster: f, Source: "shop", SendTimeout: time.Second, Cache: 16, Clock: clock.Real{},
		Tracer: trace.New(provider.Tracer("prosody"), "", ""),
	})
	require.NoError(t, err)
	return p, exporter
}

func parents(record *kafka.Record) (list []string) {
	for _, header := range record.Headers {
		if header.Name == trace.Parent {
			list = append(list, string(header.Value))
		}
	}
	return list
}

func TestASendIsASpanThatTheRecordCarries(t *testing.T) {
	f := &fake{auto: true}
	p, exporter := traced(t, f)
	defer stop(t, p)
	c := newCaller()
	out := message("k", `{"id":"1"}`)
	out.Headers = []kafka.Header{{Name: trace.Parent, Value: []byte(given)}, {Name: trace.State, Value: []byte("a=b")}}
	require.NoError(t, p.Send(out, c.done(t, "header")))
	out.Payload, out.Cause = nil, trace.Parse(current, "")
	require.NoError(t, p.Send(out, c.done(t, "cause")))
	require.NoError(t, p.Send(message("k", `{"id":"1"}`), c.done(t, "duplicate")))

	spans := exporter.GetSpans()
	require.Len(t, spans, 3)
	for i, expected := range []struct{ name, parent string }{{"send", given}, {"excise", current}} {
		span := spans[i]
		assert.Equal(t, expected.name, span.Name)
		assert.Equal(t, otel.SpanKindProducer, span.SpanKind)
		assert.Equal(t, trace.Parse(expected.parent, "").SpanID(), span.Parent.SpanID())
		record := f.produced()[i]
		assert.Equal(t, []string{"00-" + span.SpanContext.TraceID().String() + "-" + span.SpanContext.SpanID().String() + "-01"}, parents(record))
	}
	assert.Contains(t, f.produced()[0].Headers, kafka.Header{Name: trace.State, Value: []byte("a=b")})
	assert.False(t, spans[2].Parent.IsValid())
	assert.Len(t, f.produced(), 2)
}

func TestASendThatFailsIsASpanWithAnError(t *testing.T) {
	f := &fake{auto: true}
	p, exporter := traced(t, f)
	require.Error(t, p.Send(message("k", "rubbish"), nil))
	assert.Empty(t, exporter.GetSpans(), "what is refused was never begun")
	stop(t, p)
	require.Error(t, p.Send(message("k", "1"), nil))
	require.Len(t, exporter.GetSpans(), 1)
	assert.Equal(t, codes.Error, exporter.GetSpans()[0].Status.Code)
}

func TestWithoutATracerTheContextPasses(t *testing.T) {
	f := &fake{auto: true}
	p := start(t, f, time.Second)
	defer stop(t, p)
	c := newCaller()
	out := message("k", "1")
	out.Headers = []kafka.Header{{Name: trace.Parent, Value: []byte(given)}, {Name: trace.State, Value: []byte("a=b")}}
	out.Cause = trace.Parse(current, "")
	require.NoError(t, p.Send(out, c.done(t, "1")))
	out.Raw, out.Cause = true, trace.Context{}
	require.NoError(t, p.Send(out, c.done(t, "2")))
	assert.Equal(t, []string{current}, parents(f.produced()[0]))
	assert.NotContains(t, f.produced()[0].Headers, kafka.Header{Name: trace.State, Value: []byte("a=b")}, "the state of another trace")
	assert.Equal(t, []string{given}, parents(f.produced()[1]))
}
