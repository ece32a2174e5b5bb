// Package export owns what a process sends to an OpenTelemetry collector: the providers
// of traces, metrics and logs, which all clients share.
//
// They are built from the OTEL_ variables of the environment, and only when these name
// an endpoint. Nothing here waits for the collector but Flush and Shutdown, which end
// with their context. What is not sent yet is kept in queues of fixed size (I4).
package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	logs "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the library in all that it exports.
const Scope = "prosody"

// spans is how many ended spans wait for the exporter, unless OTEL_BSP_MAX_QUEUE_SIZE
// says otherwise: what a burst makes between two exports.
const spans = 16384

// The signals, as the names of variables have them.
const (
	traces     = "TRACES"
	metrics    = "METRICS"
	logRecords = "LOGS"
)

// The protocols of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	overGRPC = "grpc"
	overHTTP = "http/protobuf"
)

// Export is the providers of a process. One without an endpoint has none.
type Export struct {
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	logs    *sdklog.LoggerProvider

	once sync.Once
	over context.Context // ends: Shutdown is over
	end  context.CancelFunc
	err  error
}

// ending is an exporter that gives up what is left when Shutdown is over.
type ending struct {
	sdktrace.SpanExporter
	over context.Context
}

// ExportSpans sends spans.
func (e ending) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	if e.over.Err() != nil {
		return nil // Shutdown has told of it
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.over, cancel)()
	return e.SpanExporter.ExportSpans(ctx, list)
}

// Adopt makes the OTEL_ variables of the host those of this process as Go sees it: the
// OpenTelemetry libraries read them there.
func Adopt(environ map[string]string) error {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if _, kept := environ[name]; !kept && strings.HasPrefix(name, "OTEL_") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	for name, value := range environ {
		if strings.HasPrefix(name, "OTEL_") && os.Getenv(name) != value {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// New builds what the environment asks for. Signals whose settings are wrong are left
// out and told by the error. failed hears of exports that fail; producers tell what the
// metrics are at each export.
func New(ctx context.Context, failed func(error), producers ...sdkmetric.Producer) (*Export, error) {
	e := &Export{}
	e.over, e.end = context.WithCancel(context.Background())
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return e, nil
	}
	process, err := about(ctx)
	if process == nil {
		return e, err
	}
	problems := []error{err}
	if wanted(traces) || wanted(metrics) || wanted(logRecords) {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(seldom(failed)))
	}
	problems = append(problems,
		build(traces, func(protocol string) error { return e.trace(ctx, protocol, process) }),
		build(logRecords, func(protocol string) error { return e.log(ctx, protocol, process) }),
		build(metrics, func(protocol string) error { return e.meter(ctx, protocol, process, producers) }))
	return e, errors.Join(problems...)
}

// wanted tells whether the environment names an endpoint for a signal.
func wanted(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_"+signal+"_EXPORTER"), "none") {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// build builds a signal that is wanted.
func build(signal string, with func(protocol string) error) error {
	if !wanted(signal) {
		return nil
	}
	name := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	protocol := os.Getenv(name)
	if protocol == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
		protocol = os.Getenv(name)
	}
	switch protocol {
	case "":
		protocol = overHTTP
	case overGRPC, overHTTP:
	default:
		return fmt.Errorf("%s: %q is neither %s nor %s; %s are not exported", name, protocol, overGRPC, overHTTP, strings.ToLower(signal))
	}
	if err := with(protocol); err != nil {
		return fmt.Errorf("%s are not exported: %w", strings.ToLower(signal), err)
	}
	return nil
}

func (e *Export) trace(ctx context.Context, protocol string, about *resource.Resource) error {
	var exporter sdktrace.SpanExporter
	var err error
	if protocol == overGRPC {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return err
	}
	var batch []sdktrace.BatchSpanProcessorOption
	if os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
		batch = append(batch, sdktrace.WithMaxQueueSize(spans))
	}
	e.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(ending{exporter, e.over}, batch...))
	return nil
}

func (e *Export) meter(ctx context.Context, protocol string, about *resource.Resource, producers []sdkmetric.Producer) error {
	var exporter sdkmetric.Exporter
	var err error
	if protocol == overGRPC {
		exporter, err = otlpmetricgrpc.New(ctx)
	} else {
		exporter, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return err
	}
	var options []sdkmetric.PeriodicReaderOption
	for _, each := range producers {
		options = append(options, sdkmetric.WithProducer(each))
	}
	e.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter, options...)))
	return nil
}

func (e *Export) log(ctx context.Context, protocol string, about *resource.Resource) error {
	var exporter sdklog.Exporter
	var err error
	if protocol == overGRPC {
		exporter, err = otlploggrpc.New(ctx)
	} else {
		exporter, err = otlploghttp.New(ctx)
	}
	if err != nil {
		return err
	}
	e.logs = sdklog.NewLoggerProvider(sdklog.WithResource(about), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
	return nil
}

// Tracer gives the tracer of the library; nil when no traces are exported.
func (e *Export) Tracer() trace.Tracer {
	if e.traces == nil {
		return nil
	}
	return e.traces.Tracer(Scope)
}

// Logs gives the provider of log records; nil when none are exported.
func (e *Export) Logs() logs.LoggerProvider {
	if e.logs == nil {
		return nil
	}
	return e.logs
}

// signal is what the providers have in common.
type signal interface {
	ForceFlush(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// each calls all providers side by side, so that one that hangs takes no time of the
// others. It returns when all have ended, or with ctx.
func (e *Export) each(ctx context.Context, call func(signal) error) error {
	var all []signal
	if e.traces != nil {
		all = append(all, e.traces)
	}
	if e.metrics != nil {
		all = append(all, e.metrics)
	}
	if e.logs != nil {
		all = append(all, e.logs)
	}
	ended := make(chan error, len(all))
	for _, one := range all {
		go func() { ended <- call(one) }()
	}
	var err error
	for range all {
		select {
		case one := <-ended:
			err = errors.Join(err, one)
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
	return err
}

// Flush sends what is not sent yet. After Shutdown it does nothing.
func (e *Export) Flush(ctx context.Context) error {
	select {
	case <-e.over.Done():
		return nil
	default:
	}
	return e.each(ctx, func(one signal) error { return one.ForceFlush(ctx) })
}

// Shutdown sends what is not sent yet and ends the export; what is recorded later is
// dropped. All calls wait for the same end and get the same error.
func (e *Export) Shutdown(ctx context.Context) error {
	e.once.Do(func() {
		defer e.end()
		e.err = e.each(ctx, func(one signal) error { return one.Shutdown(ctx) })
	})
	<-e.over.Done()
	return e.err
}
