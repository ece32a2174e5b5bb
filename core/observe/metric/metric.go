// Package metric owns the instruments of OpenTelemetry: their names, units and labels,
// and what they read. Each is made of what the clients know of themselves (observe.Facts)
// at the moment of a collection, so that the hot path pays for an atomic at most.
//
// It upholds I4 for labels: topics, partitions and words of fixed lists, never a key.
//
// One Registry serves a process: it is the producer of the OTLP reader. Each probe server
// has a Page of its own, which tells of its client alone.
package metric

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"prosody/core/observe"
	"prosody/core/observe/trace"
)

// Scope is the name of the instrumentation scope.
const Scope = "prosody"

// Source tells what a client knows of itself.
type Source func() *observe.Facts

// Registry makes the metrics of its sources. It is an sdk.Producer.
type Registry struct {
	mutex   sync.Mutex
	sources map[*Source]time.Time
	over    []ended
}

// ended is the last of a source.
type ended struct {
	facts *observe.Facts
	since time.Time
}

// most is how many ended sources wait for a collection.
const most = 64

// New makes a registry without sources.
func New() *Registry {
	return &Registry{sources: map[*Source]time.Time{}}
}

// Add begins to ask a source. The function that it gives ends that; the next collection
// tells of its last facts once more, so that what a short program did is seen.
func (r *Registry) Add(source Source) (remove func(last *observe.Facts)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	since := time.Now()
	r.sources[&source] = since
	return func(last *observe.Facts) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if _, known := r.sources[&source]; !known {
			return
		}
		delete(r.sources, &source)
		if len(r.over) < most {
			r.over = append(r.over, ended{last, since})
		}
	}
}

// take gives what is to be told now.
func (r *Registry) take() []ended {
	r.mutex.Lock()
	all, asked := r.over, make(map[*Source]time.Time, len(r.sources))
	r.over = nil
	for source, since := range r.sources {
		asked[source] = since
	}
	r.mutex.Unlock()
	for source, since := range asked {
		all = append(all, ended{(*source)(), since})
	}
	return all
}

// Produce reads all sources.
func (r *Registry) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	all := r.take()
	if len(all) == 0 {
		return nil, nil
	}
	now := time.Now()
	points := make([]points, len(table))
	for _, one := range all {
		facts := one.facts
		common := []attribute.KeyValue{attribute.String("messaging.system", "kafka"), attribute.String("messaging.client.id", facts.Client)}
		if facts.Consumer != nil {
			common = append(common, attribute.String("messaging.consumer.group.name", trace.Plain(facts.Consumer.Group)))
		}
		for i := range table {
			points[i].common, points[i].since, points[i].now = common, one.since, now
			table[i].read(facts, &points[i])
		}
	}
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: Scope}}
	for i := range table {
		if made := table[i].metric(&points[i]); made.Data != nil {
			scope.Metrics = append(scope.Metrics, made)
		}
	}
	return []metricdata.ScopeMetrics{scope}, nil
}

// patience is how long a look at the metrics may take: as long as Prometheus waits.
const patience = 10 * time.Second

// Page serves the metrics of one client as text for Prometheus, with those of the Go
// runtime and the process.
type Page struct {
	http.Handler
	provider *sdk.MeterProvider
}

// NewPage makes a page. It needs a Close.
func NewPage(source Source) (*Page, error) {
	own := New()
	own.Add(source)
	known := prometheus.NewRegistry()
	for _, each := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := known.Register(each); err != nil {
			return nil, err
		}
	}
	reader, err := exporter.New(exporter.WithRegisterer(known), exporter.WithProducer(own),
		exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	return &Page{
		Handler: promhttp.HandlerFor(known, promhttp.HandlerOpts{
			MaxRequestsInFlight: 4, Timeout: patience, EnableOpenMetrics: true,
		}),
		provider: sdk.NewMeterProvider(sdk.WithReader(reader)),
	}, nil
}

// Close ends the page.
func (p *Page) Close(ctx context.Context) error { return p.provider.Shutdown(ctx) }

// Instrument describes one of the instruments.
type Instrument struct{ Name, Unit, Help, Kind string }

// Instruments lists all by name.
func Instruments() []Instrument {
	list := make([]Instrument, 0, len(table))
	for _, each := range table {
		list = append(list, Instrument{each.name, each.unit, each.help, each.kind.String()})
	}
	slices.SortFunc(list, func(a, b Instrument) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Prometheus is the name of an instrument in the text for Prometheus; of a histogram it
// is what comes before _bucket, _count and _sum.
func Prometheus(of Instrument) string {
	name := strings.ReplaceAll(of.Name, ".", "_")
	suffix := map[string]string{"s": "_seconds", "By": "_bytes"}[of.Unit]
	if of.Unit == "1" && of.Kind == gauge.String() {
		suffix = "_ratio"
	}
	if !strings.HasSuffix(name, suffix) {
		name += suffix
	}
	if of.Kind == counter.String() {
		name += "_total"
	}
	return name
}
