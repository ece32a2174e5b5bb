package deadletter

import (
	"strconv"
	"time"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Limits of the texts that a dead letter adds to the record.
const (
	maxError = 4096
	minError = 256 // where the longer text made the record too large
	maxGroup = 1024
)

// Invalid is the source-kind of a record that could not be decoded.
const Invalid = "invalid"

// handling begins the source-error of a handler's failure, as in prosody-events.
const handling = "handler error: "

// own are the headers that a dead letter sets, so that those of an earlier failure do
// not pile up, and those that only the request they came with needs.
var own = map[string]bool{
	"source-kind": true, "source-topic": true, "source-partition": true, "source-offset": true,
	"source-timestamp": true, "source-group-id": true, "source-error": true, event.SourceHeader: true,
	"response-request-id": true, "response-peer": true, "response-deadline": true,
	"response-awaited": true, "response-version": true,
}

// origin is what a dead letter tells of the failed record.
type origin struct {
	kind      string
	topic     string
	partition int32
	offset    int64
	timestamp int64
	headers   []kafka.Header
}

func from(e *event.Event) origin {
	return origin{e.Kind.String(), e.Topic, e.Partition, e.Offset, e.Timestamp, e.Headers}
}

// headers lists, in order: the record's own, source-kind to source-error,
// source-system of this client, then the record's trace context.
func (l *Letters) headers(o origin, reason string, limit int) []kafka.Header {
	list := make([]kafka.Header, 0, len(o.headers)+8)
	var trace []kafka.Header
	for _, header := range o.headers {
		switch {
		case own[header.Name]:
		case header.Name == "traceparent" || header.Name == "tracestate":
			trace = append(trace, header)
		default:
			list = append(list, header)
		}
	}
	add := func(name, value string) {
		list = append(list, kafka.Header{Name: name, Value: []byte(value)})
	}
	add("source-kind", o.kind)
	add("source-topic", o.topic)
	add("source-partition", strconv.Itoa(int(o.partition)))
	add("source-offset", strconv.FormatInt(o.offset, 10))
	if o.timestamp != -1 { // the record has one
		add("source-timestamp", time.UnixMilli(o.timestamp).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	add("source-group-id", pipeline.Clip(l.options.Group, maxGroup))
	add("source-error", pipeline.Clip(reason, limit))
	add(event.SourceHeader, l.options.Source)
	return append(list, trace...)
}
