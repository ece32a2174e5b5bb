// Package deferral owns the deferred queue of a key: events that failed, and all that
// came for their key meanwhile, messages, excise records and timers alike. A failing
// event steps aside, so that it holds no permit and no watermark; the order within its
// key stays (I1).
//
// The queue is part of the key's record, so that stepping aside is as durable and as
// atomic as success is (I2, I3). The head is retried when it is due, and the next one
// follows at once. A queue that is there is worked off in every mode, also when nothing
// is deferred any more.
package deferral

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
	"prosody/core/pipeline/deadletter"
	"prosody/core/pipeline/gate"
	"prosody/core/pipeline/retry"
	"prosody/core/pipeline/span"
)

// Options say what is deferred, and for how long.
type Options struct {
	// Enabled lets a failing event step aside, as long as Gate is open.
	Enabled bool
	Gate    *gate.Gate
	// Keep makes a failing head stay until it succeeds or fails for good. Else the inner
	// chain has decided to give it up.
	Keep bool
	Base time.Duration // first wait; 1 s
	Most time.Duration // longest wait; 24 h
	// Read reads a record from its log again. A kafka.Error with the code Gone: it is
	// not there any more.
	Read    func(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error)
	Letters *deadletter.Letters // for records that are lost; nil: they are logged only
	Backoff retry.Backoff       // of what fails at the store
	Clock   clock.Clock
	Counts  *pipeline.Counts
	Log     *slog.Logger
	Tracer  *trace.Tracer // nil: no spans
	// Random is uniform in [0, limit); nil: the global source.
	Random func(limit int64) int64
}

type deferral struct {
	next pipeline.Handler
	Options
}

// New wraps the chain. An invocation without a record of its key passes unchanged.
func New(next pipeline.Handler, options Options) pipeline.Handler {
	if options.Base <= 0 {
		options.Base = time.Second
	}
	if options.Most <= 0 {
		options.Most = 24 * time.Hour
	}
	if options.Random == nil {
		options.Random = rand.Int64N
	}
	return &deferral{next: next, Options: options}
}

func (d *deferral) Handle(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	if invocation.Entity == nil {
		return d.next.Handle(ctx, invocation)
	}
	var queue entity.Queue
	err := d.repeat(invocation, "read the deferred queue", func() (err error) {
		queue, err = invocation.Entity.Queue(invocation.Leaving)
		return err
	})
	switch {
	case err != nil:
		return d.refused(invocation, err)
	case invocation.Event.Kind == event.Retry:
		return d.head(ctx, invocation)
	case queue.Head != queue.Tail:
		return d.aside(invocation, queue.Due, queue.Count, "events of the key wait already")
	}
	outcome := d.next.Handle(ctx, invocation)
	if outcome.Class != pipeline.Transient || !d.Enabled || invocation.Leaving.Err() != nil || !d.Gate.Open(invocation.Event.Topic) {
		return outcome
	}
	count := invocation.Demand.Retry
	if count < math.MaxUint32 {
		count++
	}
	delay := d.delay(1)
	d.Log.Warn("handler failed, deferring", append(pipeline.Fields(invocation.Event),
		slog.Duration("delay", delay), slog.String("error", pipeline.Clip(outcome.Text, 1024)))...)
	return d.aside(invocation, d.after(delay), count, outcome.Text)
}

// aside puts the event at the tail of the queue, whose head is due then.
func (d *deferral) aside(invocation *pipeline.Invocation, due int64, count uint32, text string) pipeline.Outcome {
	txn := invocation.Begin()
	if _, err := txn.Append(encode(invocation.Event)); err != nil {
		txn.Discard()
		return d.refused(invocation, err)
	}
	if queue := txn.Queue(); due == 0 {
		txn.Retry(d.after(0), count)
	} else if queue.Due != due || queue.Count != count {
		txn.Retry(due, count)
	}
	d.Counts.Deferred.Add(1)
	invocation.Txn = txn
	return pipeline.Outcome{Class: pipeline.Deferred, Text: text}
}

// head runs the first event of the queue, when it is due.
func (d *deferral) head(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	var queue entity.Queue
	var data []byte
	err := d.repeat(invocation, "read the deferred event", func() (err error) {
		queue, data, err = invocation.Entity.Head(invocation.Leaving)
		return err
	})
	if err != nil {
		return d.refused(invocation, err)
	}
	now := d.after(0)
	switch {
	case queue.Head == queue.Tail:
		return pipeline.Outcome{Class: pipeline.Success} // it was worked off meanwhile
	case queue.Due > now:
		// It has moved, or the clock was set back. The timers are to hear of it again.
		return d.wait(invocation, queue.Due+1, queue.Count, "")
	}
	call := invocation.Event
	start := time.Now()
	found, cached, lost, err := d.load(invocation, data)
	if err != nil && lost == nil {
		if invocation.Leaving.Err() != nil {
			return pipeline.Leave(invocation, err.Error())
		}
		d.Log.Warn("deferred event cannot be read, trying again", append(pipeline.Fields(call), slog.Any("error", err))...)
		return d.again(invocation, queue.Count, err.Error())
	}
	invocation.Next = max(now, queue.Due+1) // another time, which the timers hear of
	if lost != nil {
		return d.lose(invocation, lost, err)
	}
	given := invocation.Demand
	invocation.Event = found
	invocation.Demand = pipeline.Demand{Failure: queue.Count > 0, Retry: queue.Count}
	if queue.Count > 0 {
		d.Counts.Retries.Add(1)
	}
	invocation.Span = d.span(found, cached, start)
	outcome := pipeline.Outcome{Class: pipeline.Aborted, Text: "panicked"}
	defer func() { span.End(invocation, outcome) }()
	outcome = d.next.Handle(ctx, invocation)
	if outcome.Class != pipeline.Transient || !d.Keep {
		return outcome
	}
	invocation.Event, invocation.Demand, invocation.Next = call, given, 0
	if invocation.Leaving.Err() != nil {
		return pipeline.Leave(invocation, outcome.Text)
	}
	count := queue.Count
	if count < math.MaxUint32 {
		count++
	}
	d.Log.Warn("deferred event failed again", append(pipeline.Fields(found), slog.Int64("attempt", int64(count)),
		slog.String("error", pipeline.Clip(outcome.Text, 1024)))...)
	return d.again(invocation, count, outcome.Text)
}

// span is the work on a deferred event, which has begun with its loading.
func (d *deferral) span(found *event.Event, cached bool, start time.Time) trace.Span {
	if d.Tracer == nil {
		return trace.Span{}
	}
	if found.Kind == event.Timer {
		return d.Tracer.LoadTimer(found.Trace(), found.Key, found.Timestamp/1000, start)
	}
	return d.Tracer.Load(found.Trace(), found.Record(), cached, start)
}

// again lets the head wait for its next turn.
func (d *deferral) again(invocation *pipeline.Invocation, count uint32, text string) pipeline.Outcome {
	return d.wait(invocation, d.after(d.delay(count)), count, text)
}

func (d *deferral) wait(invocation *pipeline.Invocation, due int64, count uint32, text string) pipeline.Outcome {
	txn := invocation.Begin()
	txn.Retry(due, count)
	invocation.Txn = txn
	return pipeline.Outcome{Class: pipeline.Deferred, Text: text}
}

// load makes the event of a row; cached: it was all there. lost is what remains of an event that is not to be had
// any more; the error says why. Without it the error may pass.
func (d *deferral) load(invocation *pipeline.Invocation, data []byte) (found *event.Event, cached bool, lost *kafka.Record, err error) {
	call := invocation.Event
	at := &kafka.Record{Topic: call.Topic, Partition: call.Partition, Offset: -1, Timestamp: -1, Key: []byte(call.Key)}
	if data == nil {
		return nil, false, at, errors.New("its row is gone from the store")
	}
	r, err := decode(data)
	if err != nil {
		return nil, false, at, err
	}
	r.record.Topic, r.record.Key = call.Topic, []byte(call.Key)
	if r.absent {
		read, err := d.Read(invocation.Leaving, kafka.Partition{Topic: call.Topic, Index: r.record.Partition}, r.record.Offset)
		if failure := (*kafka.Error)(nil); errors.As(err, &failure) && failure.Code == kafka.Gone {
			return nil, false, &r.record, err
		}
		if err != nil {
			return nil, false, nil, err
		}
		if string(read.Key) != call.Key {
			return nil, false, &r.record, errors.New("the log was made anew: another key is at its offset")
		}
		timestamp := r.record.Timestamp
		if event.Instant(read.Timestamp, time.UnixMilli(timestamp)) != timestamp {
			return nil, false, &r.record, errors.New("the log was made anew: another record of the key is at its offset")
		}
		r.record = *read
		r.record.Timestamp = timestamp
	}
	made, err := r.event(call.Topic, call.Key, call.Partition)
	if err != nil {
		return nil, false, &r.record, err
	}
	return made, !r.absent, nil, nil
}

// lose gives up an event that is not to be had any more.
func (d *deferral) lose(invocation *pipeline.Invocation, lost *kafka.Record, reason error) pipeline.Outcome {
	d.Counts.Lost.Add(1)
	text := pipeline.Clip("deferred event is lost: "+reason.Error(), pipeline.MaxText)
	invocation.Event = &event.Event{
		Kind: event.Message, Topic: lost.Topic, Partition: lost.Partition, Offset: lost.Offset,
		Timestamp: lost.Timestamp, Key: string(lost.Key),
	}
	if d.Letters != nil && lost.Offset >= 0 {
		return d.Letters.Invalid(invocation.Leaving, lost, text)
	}
	return pipeline.Outcome{Class: pipeline.Permanent, Text: text}
}

// after is a time from now, in ms.
func (d *deferral) after(delay time.Duration) int64 { return d.Clock.Now().Add(delay).UnixMilli() }

// delay is the wait after a number of failed attempts: between half and all of base,
// doubled with each of them after the first, up to the most.
func (d *deferral) delay(count uint32) time.Duration {
	full := d.Most
	if shift := max(1, count) - 1; shift < 62 && d.Base <= d.Most>>shift {
		full = d.Base << shift
	}
	half := full / 2
	return half + time.Duration(d.Random(int64(full-half)+1))
}

// repeat calls until it works, cannot work, or the partition leaves.
func (d *deferral) repeat(invocation *pipeline.Invocation, what string, call func() error) error {
	for attempt := uint32(1); ; attempt++ {
		err := call()
		if err == nil || fault.Of(err) != fault.Store && fault.Of(err) != fault.Timeout || invocation.Leaving.Err() != nil {
			return err
		}
		d.Counts.Unstored.Add(1)
		delay := d.Backoff.Delay(attempt)
		d.Log.Warn("store failed, trying again", append(pipeline.Fields(invocation.Event), slog.String("what", what),
			slog.Duration("delay", delay), slog.String("error", pipeline.Clip(err.Error(), 1024)))...)
		if invocation.Progress != nil {
			invocation.Progress(delay)
		}
		if clock.Sleep(invocation.Leaving, d.Clock, delay) != nil {
			return err
		}
		attempt = min(attempt, math.MaxUint32-1)
	}
}

// refused is the outcome of an event that the store has not taken.
func (d *deferral) refused(invocation *pipeline.Invocation, err error) pipeline.Outcome {
	text := pipeline.Clip(err.Error(), pipeline.MaxText)
	if invocation.Leaving.Err() != nil {
		return pipeline.Leave(invocation, text)
	}
	return pipeline.Outcome{Class: pipeline.Aborted, Text: text}
}
