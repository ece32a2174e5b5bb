package export

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	logs "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bare(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "") // restores it
			require.NoError(t, os.Unsetenv(name))
		}
	}
}

func quiet(t *testing.T) func(error) {
	return func(err error) { t.Log(err) }
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestNothingIsBuiltWithoutAnEndpoint(t *testing.T) {
	bare(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e, err := New(t.Context(), quiet(t))
	require.NoError(t, err)
	require.Nil(t, e.Tracer())
	require.Nil(t, e.Logs())
	require.NoError(t, e.Flush(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
}

// things is a producer of one metric.
type things struct{}

func (things) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	return []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{{
		Name: "things", Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Value: 1}}},
	}}}}, nil
}

func TestAllSignalsArriveByBothProtocols(t *testing.T) {
	for _, protocol := range []string{overGRPC, overHTTP} {
		t.Run(protocol, func(t *testing.T) {
			bare(t)
			c := collect(t, protocol)
			t.Setenv("OTEL_SERVICE_NAME", "orders")
			e, err := New(t.Context(), quiet(t), things{})
			require.NoError(t, err)
			var line logs.Record
			line.SetBody(attribute.StringValue("hello"))
			e.Logs().Logger(Scope).Emit(t.Context(), line)

			_, first := e.Tracer().Start(t.Context(), "first")
			first.End()
			require.NoError(t, e.Flush(within(t, 2*time.Minute)))
			require.Equal(t, []string{"first"}, c.names())
			_, second := e.Tracer().Start(t.Context(), "second")
			second.End()
			require.NoError(t, e.Shutdown(within(t, 2*time.Minute)))
			require.NoError(t, e.Shutdown(within(t, 2*time.Minute)))
			require.NoError(t, e.Flush(t.Context()))
			_, late := e.Tracer().Start(t.Context(), "late")
			late.End()

			require.Equal(t, []string{"first", "second"}, c.names())
			require.Contains(t, c.metrics, "things")
			require.Equal(t, []string{"hello"}, c.lines)
			require.Equal(t, []string{"orders", "orders"}, c.services)
		})
	}
}

// Without an instance a collector would take two processes of a service for one, and their
// counters would overwrite each other.
func TestProcessesOfAServiceAreToldApart(t *testing.T) {
	bare(t)
	described := func() map[string]string {
		made, err := about(t.Context())
		require.NoError(t, err)
		attributes := map[string]string{}
		for _, each := range made.Attributes() {
			attributes[string(each.Key)] = each.Value.AsString()
		}
		return attributes
	}
	first, second := described(), described()
	require.NotEmpty(t, first["service.instance.id"])
	require.NotEqual(t, first["service.instance.id"], second["service.instance.id"])
	require.Regexp(t, "^unknown_service:.+", first["service.name"])
	require.NotEmpty(t, first["host.name"])
	require.Equal(t, "opentelemetry", first["telemetry.sdk.name"])

	t.Setenv("OTEL_SERVICE_NAME", "orders")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-7,host.name=box")
	own := described()
	require.Equal(t, []string{"orders", "pod-7", "box"}, []string{own["service.name"], own["service.instance.id"], own["host.name"]})
}

func TestACollectorThatHangsHoldsNobodyUp(t *testing.T) {
	bare(t)
	before := goleak.IgnoreCurrent()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() {
		close(release)
		server.CloseClientConnections()
		server.Close()
		goleak.VerifyNone(t, before)
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	e, err := New(t.Context(), quiet(t))
	require.NoError(t, err)
	for range 3 * spans { // more than the queue holds
		_, span := e.Tracer().Start(t.Context(), "lost")
		span.End()
	}
	begun := time.Now()
	require.ErrorIs(t, e.Flush(within(t, 200*time.Millisecond)), context.DeadlineExceeded)
	require.ErrorIs(t, e.Shutdown(within(t, 200*time.Millisecond)), context.DeadlineExceeded)
	require.Less(t, time.Since(begun), 20*time.Second)
	require.Error(t, e.Shutdown(t.Context()), "the second call has the answer of the first, at once")
}

func TestACollectorThatIsDownIsToldOfOnce(t *testing.T) {
	bare(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_LOGS_EXPORTER", "none")
	heard := make(chan error, 100)
	e, err := New(t.Context(), func(err error) { heard <- err })
	require.NoError(t, err)
	require.Nil(t, e.Logs())
	for range 5 {
		_, span := e.Tracer().Start(t.Context(), "lost")
		span.End()
		_ = e.Flush(within(t, 200*time.Millisecond)) // its error is the other way to hear of it
	}
	_ = e.Shutdown(within(t, 200*time.Millisecond))
	require.LessOrEqual(t, len(heard), 1)
}

func TestSettingsThatAreWrongAreTold(t *testing.T) {
	bare(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	e, err := New(t.Context(), quiet(t))
	require.ErrorContains(t, err, `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is neither grpc nor http/protobuf`)
	require.Nil(t, e.Tracer())

	t.Setenv("OTEL_SDK_DISABLED", "true")
	e, err = New(t.Context(), quiet(t))
	require.NoError(t, err)
	require.Nil(t, e.Tracer())
}

func TestTheSamplerIsThatOfTheEnvironment(t *testing.T) {
	bare(t)
	c := collect(t, overHTTP)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.1")
	e, err := New(t.Context(), quiet(t))
	require.NoError(t, err)
	for range 2000 {
		_, span := e.Tracer().Start(t.Context(), "some")
		span.End()
	}
	require.NoError(t, e.Shutdown(within(t, 2*time.Minute)))
	require.InDelta(t, 200, len(c.names()), 100)
}

func TestAdoptTakesTheHostsVariables(t *testing.T) {
	bare(t)
	t.Setenv("OTEL_SERVICE_NAME", "old")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "7")
	t.Setenv("OTHER", "stays")
	require.NoError(t, Adopt(map[string]string{"OTEL_SERVICE_NAME": "new", "OTEL_TRACES_SAMPLER": "always_off", "OTHER": "not this"}))
	t.Cleanup(func() { require.NoError(t, os.Unsetenv("OTEL_TRACES_SAMPLER")) })
	require.Equal(t, "new", os.Getenv("OTEL_SERVICE_NAME"))
	require.Equal(t, "always_off", os.Getenv("OTEL_TRACES_SAMPLER"))
	_, set := os.LookupEnv("OTEL_BSP_SCHEDULE_DELAY")
	require.False(t, set)
	require.Equal(t, "stays", os.Getenv("OTHER"))
}

func TestFailuresAreToldSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		tell := seldom(func(err error) { heard = append(heard, err.Error()) })
		for range 4 {
			tell(errors.New("down"))
		}
		time.Sleep(pause)
		tell(errors.New("down"))
		require.Equal(t, []string{"down", "down (and 3 like it)"}, heard)
	})
}
