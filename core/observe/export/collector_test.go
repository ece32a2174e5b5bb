package export

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectlog "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectmetric "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	rpc "google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// collector receives what is exported by either protocol.
type collector struct {
	collecttrace.UnimplementedTraceServiceServer
	endpoint string

	mutex    sync.Mutex
	services []string
	spans    []*tracepb.Span
	metrics  []string
	lines    []string
}

func (c *collector) names() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var names []string
	for _, span := range c.spans {
		names = append(names, span.GetName())
	}
	return names
}

// Export takes spans.
func (c *collector) Export(_ context.Context, request *collecttrace.ExportTraceServiceRequest) (*collecttrace.ExportTraceServiceResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				c.services = append(c.services, attribute.GetValue().GetStringValue())
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collecttrace.ExportTraceServiceResponse{}, nil
}

type meters struct {
	collectmetric.UnimplementedMetricsServiceServer
	*collector
}

func (m meters) Export(_ context.Context, request *collectmetric.ExportMetricsServiceRequest) (*collectmetric.ExportMetricsServiceResponse, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, resource := range request.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				m.collector.metrics = append(m.collector.metrics, metric.GetName())
			}
		}
	}
	return &collectmetric.ExportMetricsServiceResponse{}, nil
}

type lines struct {
	collectlog.UnimplementedLogsServiceServer
	*collector
}

func (l lines) Export(_ context.Context, request *collectlog.ExportLogsServiceRequest) (*collectlog.ExportLogsServiceResponse, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, resource := range request.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				l.collector.lines = append(l.collector.lines, record.GetBody().GetStringValue())
			}
		}
	}
	return &collectlog.ExportLogsServiceResponse{}, nil
}

// collect starts a collector and points the environment at it.
func collect(t *testing.T, protocol string) *collector {
	t.Helper()
	c := &collector{}
	if protocol == overGRPC {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := rpc.NewServer()
		collecttrace.RegisterTraceServiceServer(server, c)
		collectmetric.RegisterMetricsServiceServer(server, meters{collector: c})
		collectlog.RegisterLogsServiceServer(server, lines{collector: c})
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(listener) })
		t.Cleanup(func() { server.Stop(); serving.Wait() })
		c.endpoint = "http://" + listener.Addr().String()
	} else {
		server := httptest.NewServer(http.HandlerFunc(c.serve))
		t.Cleanup(server.Close)
		c.endpoint = server.URL
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	return c
}

func (c *collector) serve(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	var answer proto.Message
	switch {
	case err != nil:
	case strings.HasSuffix(r.URL.Path, "/v1/traces"):
		request := &collecttrace.ExportTraceServiceRequest{}
		if err = proto.Unmarshal(data, request); err == nil {
			answer, err = c.Export(r.Context(), request)
		}
	case strings.HasSuffix(r.URL.Path, "/v1/metrics"):
		request := &collectmetric.ExportMetricsServiceRequest{}
		if err = proto.Unmarshal(data, request); err == nil {
			answer, err = meters{collector: c}.Export(r.Context(), request)
		}
	default:
		request := &collectlog.ExportLogsServiceRequest{}
		if err = proto.Unmarshal(data, request); err == nil {
			answer, err = lines{collector: c}.Export(r.Context(), request)
		}
	}
	if err == nil {
		data, err = proto.Marshal(answer)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(data) // the exporter is gone: nobody is left to tell
}
