// Package deadletter owns the failure topic: a record whose handling was given up, or
// that could not be decoded, is copied there and only then counts as done.
//
// It upholds I3 and I7: until the copy is acknowledged the event is not done, only the
// copy's send is repeated, and nothing is written once the owner is leaving.
package deadletter

import (
	"context"
	"log/slog"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/retry"
	"prosody/core/producer"
)

// Options says where dead letters go.
type Options struct {
	Topic   string // failure_topic
	Group   string
	Source  string // source_system of this client
	Send    func(producer.Outgoing, func(producer.Sent)) error
	Backoff retry.Backoff
	Clock   clock.Clock
	Counts  *pipeline.Counts
	Log     *slog.Logger
}

// Letters writes to the failure topic.
type Letters struct{ options Options }

// New makes the writer.
func New(options Options) *Letters { return &Letters{options} }

// Wrap gives a handler whose failures end as dead letters. A timer has no record to
// copy; its outcome passes unchanged.
func (l *Letters) Wrap(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		outcome := next.Handle(ctx, invocation)
		failed := outcome.Class == pipeline.Transient || outcome.Class == pipeline.Permanent
		if !failed || invocation.Event.Kind == event.Timer {
			return outcome
		}
		if invocation.Leaving.Err() != nil {
			return pipeline.Leave(invocation, outcome.Text)
		}
		e := invocation.Event
		out := producer.Outgoing{Topic: l.options.Topic, Key: e.Key, Payload: e.Payload, Raw: true}
		if !l.write(invocation.Leaving, out, from(e), handling+outcome.Text) {
			return pipeline.Leave(invocation, outcome.Text)
		}
		outcome.Failed, outcome.Class = outcome.Class, pipeline.Success
		return outcome
	})
}

// Invalid copies a record that could not be decoded. It returns Success, or Aborted
// when Leaving ended first.
func (l *Letters) Invalid(leaving context.Context, record *kafka.Record, reason string) pipeline.Outcome {
	out := producer.Outgoing{
		Topic:   l.options.Topic,
		Key:     string(record.Key),
		Keyless: record.Key == nil,
		Payload: record.Value,
		Raw:     true,
	}
	source := origin{Invalid, record.Topic, record.Partition, record.Offset, record.Timestamp, record.Headers}
	if leaving.Err() != nil || !l.write(leaving, out, source, reason) {
		return pipeline.Leave(&pipeline.Invocation{Leaving: leaving}, reason)
	}
	return pipeline.Outcome{Class: pipeline.Success, Text: reason}
}

// write repeats the send until it succeeds; false when Leaving ended first. A record
// that is too large is tried with a shorter text; then it waits for the operator.
func (l *Letters) write(leaving context.Context, out producer.Outgoing, source origin, reason string) bool {
	log := l.options.Log.With("failure_topic", l.options.Topic, "kind", source.kind,
		"topic", source.topic, "partition", source.partition, "offset", source.offset, "key", pipeline.Clip(out.Key, 256))
	log.Error("copying record to the failure topic", "reason", pipeline.Clip(reason, 1024))
	limit := maxError
	for attempt := uint32(1); ; attempt++ {
		out.Headers = l.headers(source, reason, limit)
		err := l.send(leaving, out)
		if err == nil {
			l.options.Counts.DeadLetters.Add(1)
			return true
		}
		if leaving.Err() != nil {
			return false
		}
		l.options.Counts.Unsent.Add(1)
		if err.Kind == fault.TooLarge && limit > minError {
			limit = minError
			continue
		}
		delay := l.options.Backoff.Delay(attempt)
		log.Error("dead letter was not written, trying again", "attempt", attempt, "delay", delay,
			slog.String("error", pipeline.Clip(err.Text, 1024)))
		if clock.Sleep(leaving, l.options.Clock, delay) != nil {
			return false
		}
	}
}

// send waits for the end of one send, or for Leaving. An end that is there counts, also
// when Leaving has ended by then: the copy is written.
func (l *Letters) send(leaving context.Context, out producer.Outgoing) *fault.Error {
	ended := make(chan producer.Sent, 1)
	if err := l.options.Send(out, func(sent producer.Sent) { ended <- sent }); err != nil {
		return producer.Fault(err, "dead letter")
	}
	select {
	case sent := <-ended:
		return sent.Err
	case <-leaving.Done():
		select {
		case sent := <-ended:
			return sent.Err
		default:
		}
		return fault.Wrap(fault.Cancelled, context.Cause(leaving), "dead letter")
	}
}
