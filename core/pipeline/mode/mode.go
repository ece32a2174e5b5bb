// Package mode owns the composition of the middleware: one chain for each mode.
//
//	pipeline:    log, respond, durable, span, retry without limit, deferral, monopoly, cancel, schedule, timeout, gate, attempt, guard, host
//	low-latency: log, respond, durable, span, deferral, deadletter, retry with a limit, cancel, schedule, timeout, attempt, …
//	best-effort: log, respond, durable, span, deferral, cancel, schedule, …
//
// Only in pipeline mode an event is deferred; the others work off what was deferred before.
// Retries are outside of the permit, so that a wait between two attempts holds none.
// The time-out is inside of it, so that waiting for a permit does not count.
package mode

import (
	"context"
	"log/slog"
	"time"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/observe/topic"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
	"prosody/core/pipeline/attempt"
	"prosody/core/pipeline/cancel"
	"prosody/core/pipeline/deadletter"
	"prosody/core/pipeline/deferral"
	"prosody/core/pipeline/durable"
	"prosody/core/pipeline/gate"
	"prosody/core/pipeline/guard"
	"prosody/core/pipeline/log"
	"prosody/core/pipeline/monopoly"
	"prosody/core/pipeline/retry"
	"prosody/core/pipeline/schedule"
	"prosody/core/pipeline/span"
	"prosody/core/pipeline/timeout"
	"prosody/core/producer"
	"prosody/core/respond"
	"prosody/core/state"
)

// The modes, as option texts.
const (
	Pipeline   = "pipeline"
	LowLatency = "low-latency"
	BestEffort = "best-effort"
)

// The backoff of what fails at the store.
const (
	storeBase  = 20 * time.Millisecond
	storeDelay = 2 * time.Second
)

// headStart is how long the end of a timer gives way to handlers that wait for a permit.
const headStart = 100 * time.Millisecond

// Options is what the chains need.
type Options struct {
	Mode    string
	Host    pipeline.Handler
	Timeout time.Duration // of an attempt; 0: none

	MaxRetries    int // in low-latency mode
	RetryBase     time.Duration
	MaxRetryDelay time.Duration

	Schedule schedule.Options // Clock and Counts are filled in

	// Of pipeline mode. Read is needed in all modes that have a store.
	Defer    bool
	Base     time.Duration // of the waits of deferred events
	Most     time.Duration
	Gate     gate.Options      // Clock is filled in
	Monopoly *monopoly.Options // nil: no limit; Clock and Log are filled in
	Read     func(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error)

	FailureTopic string // empty: no dead letters; low-latency mode needs one
	Group        string
	Source       string
	State        *state.Registry // nil: no collections
	Tracer       *trace.Tracer   // nil: no spans
	Send         func(producer.Outgoing, func(producer.Sent)) error
	Answers      *respond.Responder // nil: none

	Story *topic.Story    // nil: no telemetry records
	Board *deferral.Board // nil: nobody looks at deferred keys

	Clock clock.Clock // measures how long things take
	Dates clock.Clock // of retries and what is deferred; nil: Clock
	Log   *slog.Logger
}

// Chain handles the events of all partitions of a client. It needs a Close.
type Chain struct {
	// Counts is read by statistics.
	Counts *pipeline.Counts
	// Letters writes to the failure topic; nil without one.
	Letters *deadletter.Letters

	handler   pipeline.Handler
	scheduler *schedule.Scheduler
	timeouts  *timeout.Handler
	gate      *gate.Gate         // nil: nothing is deferred
	monopoly  *monopoly.Monopoly // nil: no limit
}

// New composes the chain of a mode.
func New(o Options) (*Chain, error) {
	c := &Chain{Counts: &pipeline.Counts{}}
	if o.Dates == nil {
		o.Dates = o.Clock
	}
	backoff := retry.Backoff{Base: o.RetryBase, Max: o.MaxRetryDelay}
	if o.FailureTopic != "" {
		c.Letters = deadletter.New(deadletter.Options{
			Topic: o.FailureTopic, Group: o.Group, Source: o.Source, Send: o.Send,
			Backoff: backoff, Clock: o.Clock, Counts: c.Counts, Log: o.Log,
		})
	}
	if o.Answers != nil {
		o.Host = o.Answers.Ask(o.Host)
	}
	o.Schedule.Clock, o.Schedule.Counts = o.Clock, c.Counts
	c.scheduler = schedule.New(o.Schedule)
	o.Gate.Clock = o.Clock
	doors := gate.New(o.Gate)
	c.timeouts = timeout.New(doors.Wrap(attempt.New(o.Story.Attempt(guard.New(o.Host, c.Counts)), o.State)),
		timeout.Options{After: o.Timeout, Clock: o.Clock, Counts: c.Counts, Log: o.Log})
	once := cancel.New(c.scheduler.Wrap(c.timeouts))

	repeat := func(next pipeline.Handler, limit int) pipeline.Handler {
		return retry.New(next, retry.Options{
			Backoff: backoff, Limit: limit, Clock: o.Dates, Counts: c.Counts, Log: o.Log,
		})
	}
	queued := func(next pipeline.Handler) pipeline.Handler {
		return o.Board.Wrap(deferral.New(next, deferral.Options{
			Enabled: o.Defer && o.Mode == Pipeline, Keep: o.Mode == Pipeline, Gate: doors, Base: o.Base, Most: o.Most,
			Read: o.Read, Letters: c.Letters, Backoff: retry.Backoff{Base: storeBase, Max: storeDelay},
			Clock: o.Dates, Counts: c.Counts, Log: o.Log, Tracer: o.Tracer,
		}))
	}
	switch o.Mode {
	case Pipeline:
		if o.Monopoly != nil {
			share := *o.Monopoly
			share.Clock, share.Log = o.Clock, o.Log
			c.monopoly = monopoly.New(share)
			once = c.monopoly.Wrap(once)
		}
		if o.Defer {
			c.gate = doors
		}
		c.handler = repeat(queued(once), retry.Unlimited)
	case LowLatency:
		if c.Letters == nil {
			return nil, fault.New(fault.Config, "failure_topic: must be set in mode low-latency")
		}
		c.handler = queued(byKind(c.Letters.Wrap(repeat(once, max(o.MaxRetries, 0))), repeat(once, retry.Unlimited)))
	case BestEffort:
		c.handler = queued(once)
	default:
		return nil, fault.New(fault.Config, "mode: %q is none of %s, %s, %s", o.Mode, Pipeline, LowLatency, BestEffort)
	}
	c.handler = durable.New(span.New(o.Story.Waits(c.handler), o.Tracer), durable.Options{
		Dedup: o.Mode == Pipeline, Backoff: retry.Backoff{Base: storeBase, Max: storeDelay},
		Yield: func(ctx context.Context) { c.scheduler.Calm(ctx, headStart) },
		Clock: o.Clock, Counts: c.Counts, Log: o.Log,
	})
	c.handler = o.Story.Event(c.handler)
	if o.Answers != nil {
		c.handler = o.Answers.Wrap(c.handler)
	}
	c.handler = log.New(c.handler, c.Counts, o.Log)
	return c, nil
}

// Handle takes an event to its end. ctx is Leaving or derived from it.
func (c *Chain) Handle(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	return c.handler.Handle(ctx, invocation)
}

// Late lists the attempts that are over their time and still run.
func (c *Chain) Late() []timeout.Late { return c.timeouts.Late() }

// Close stops the timers of the chain.
func (c *Chain) Close() { c.timeouts.Close() }

// byKind sends timers another way: without a record they leave no dead letter.
func byKind(records, timers pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		if invocation.Event.Kind == event.Timer {
			return timers.Handle(ctx, invocation)
		}
		return records.Handle(ctx, invocation)
	})
}
