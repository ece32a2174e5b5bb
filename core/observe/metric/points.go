package metric

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"prosody/core/observe"
	"prosody/core/tally"
)

// kind is how the values of an instrument behave.
type kind int

const (
	counter kind = iota // only grows
	level               // goes up and down, and can be added up
	gauge               // goes up and down
	histogram
)

func (k kind) String() string {
	return [...]string{"counter", "updowncounter", "gauge", "histogram"}[k]
}

// instrument is a row of the table.
type instrument struct {
	name, unit, help string
	kind             kind
	read             func(facts *observe.Facts, to *points)
}

// points collects the values of an instrument.
type points struct {
	common     []attribute.KeyValue
	since, now time.Time
	numbers    []metricdata.DataPoint[float64]
	spreads    []metricdata.HistogramDataPoint[float64]
}

func (p *points) set(labels []attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(slices.Clone(p.common), labels...)...)
}

// add notes a value.
func (p *points) add(value float64, labels ...attribute.KeyValue) {
	p.numbers = append(p.numbers, metricdata.DataPoint[float64]{
		Attributes: p.set(labels), StartTime: p.since, Time: p.now, Value: value,
	})
}

// count notes a whole number.
func (p *points) count(value int64, labels ...attribute.KeyValue) { p.add(float64(value), labels...) }

// flag notes 1 or 0.
func (p *points) flag(value bool, labels ...attribute.KeyValue) {
	number := 0.0
	if value {
		number = 1
	}
	p.add(number, labels...)
}

// spread notes a histogram.
func (p *points) spread(of tally.Durations, labels ...attribute.KeyValue) {
	p.spreads = append(p.spreads, metricdata.HistogramDataPoint[float64]{
		Attributes: p.set(labels), StartTime: p.since, Time: p.now,
		Count: of.Count, Sum: of.Sum.Seconds(), Bounds: tally.Bounds(), BucketCounts: of.Buckets,
	})
}

// metric makes the data of an instrument; without points it has none.
func (i *instrument) metric(p *points) metricdata.Metrics {
	made := metricdata.Metrics{Name: i.name, Description: i.help, Unit: i.unit}
	switch {
	case len(p.spreads) > 0:
		made.Data = metricdata.Histogram[float64]{DataPoints: p.spreads, Temporality: metricdata.CumulativeTemporality}
	case len(p.numbers) == 0:
	case i.kind == gauge:
		made.Data = metricdata.Gauge[float64]{DataPoints: p.numbers}
	default:
		made.Data = metricdata.Sum[float64]{
			DataPoints: p.numbers, Temporality: metricdata.CumulativeTemporality, IsMonotonic: i.kind == counter,
		}
	}
	return made
}
