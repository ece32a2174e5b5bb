package topic

import (
	"strings"
	"time"

	"github.com/go-faster/jx"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

// Kind is what a record tells of.
type Kind string

// The kinds. They are the field type of a record.
const (
	Sent           Kind = "prosody.message.sent"
	Dispatched     Kind = "prosody.message.dispatched"
	Succeeded      Kind = "prosody.message.succeeded"
	Failed         Kind = "prosody.message.failed"
	Scheduled      Kind = "prosody.timer.scheduled"
	Cancelled      Kind = "prosody.timer.cancelled"
	TimerStarted   Kind = "prosody.timer.dispatched"
	TimerSucceeded Kind = "prosody.timer.succeeded"
	TimerFailed    Kind = "prosody.timer.failed"
)

// The types of a timer.
const (
	application     = "application"
	deferredMessage = "deferredMessage" // the retry of a key whose deferred event is a record
	deferredTimer   = "deferredTimer"   // the same of a timer
)

// Record is what happened to one event.
type Record struct {
	Kind      Kind
	Time      time.Time
	Topic     string
	Partition int32
	Key       string
	Offset    int64 // of messages
	Source    string
	Second    int64  // of timers: when it is due
	Timer     string // the type of a timer; empty: the record is of a message
	Demand    string // empty: none
	Category  string // of a failure; empty: none
	Exception string
	Trace     string // as trace.Text gives it; empty: none
}

const (
	millis  = "2006-01-02T15:04:05.000Z"
	seconds = "2006-01-02T15:04:05Z"
)

// demand tells a first delivery from a retry.
func demand(of pipeline.Demand) string {
	if of.Failure {
		return "failure"
	}
	return "normal"
}

// category names a class of failure.
func category(class pipeline.Class) string {
	if class == pipeline.Aborted {
		return "terminal"
	}
	return class.String()
}

// About makes the record of a sent message.
func About(record *kafka.Record, partition int32, offset int64, source string) *Record {
	return &Record{
		Kind: Sent, Topic: record.Topic, Partition: partition, Key: string(record.Key), Offset: offset, Source: source,
		Trace: trace.Text((&event.Event{Headers: record.Headers}).Trace()),
	}
}

// waits is the type of the timer that retries a deferred event of a kind.
func waits(kind event.Kind) string {
	if kind == event.Timer {
		return deferredTimer
	}
	return deferredMessage
}

// size is about what a record takes in memory.
func (r *Record) size() int64 {
	return int64(256 + len(r.Key) + len(r.Exception) + len(r.Trace))
}

// encode writes the JSON of a record. Fields without a value are left out.
func (r *Record) encode(host string) []byte {
	w := jx.GetWriter()
	defer jx.PutWriter(w)
	w.ObjStart()
	w.FieldStart("type")
	w.Str(string(r.Kind))
	text := func(name, value string) {
		w.Comma()
		w.FieldStart(name)
		w.Str(value)
	}
	text("eventTime", r.Time.UTC().Format(millis))
	if r.Timer != "" {
		text("scheduledTime", time.Unix(r.Second, 0).UTC().Format(seconds))
		text("timerType", r.Timer)
	} else {
		w.Comma()
		w.FieldStart("offset")
		w.Int64(r.Offset)
	}
	text("topic", r.Topic)
	w.Comma()
	w.FieldStart("partition")
	w.Int32(r.Partition)
	text("key", r.Key)
	text("source", r.Source)
	text("hostname", host)
	for _, each := range [...][2]string{{"demandType", r.Demand}, {"errorCategory", r.Category}, {"exception", r.Exception}} {
		if each[1] != "" {
			text(each[0], each[1])
		}
	}
	parent, state, _ := strings.Cut(r.Trace, "\n")
	if parent != "" {
		text("traceParent", parent)
		if state != "" {
			text("traceState", state)
		}
	}
	w.ObjEnd()
	return append([]byte(nil), w.Buf...)
}
