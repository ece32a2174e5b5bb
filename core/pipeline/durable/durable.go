// Package durable owns the two ends of an event at its key's record: whether the event
// was done before, and the one write that makes its effects and its end durable.
//
// It upholds I2 in the chain, and I7 where the store fails: the handler's work is not
// repeated, only the reading or writing is, until it works or the partition leaves.
package durable

import (
	"context"
	"log/slog"
	"math"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
	"prosody/core/pipeline/retry"
)

// Options say what is remembered.
type Options struct {
	// Dedup marks each event as done, by offset and id, and skips those done before.
	// Without it only events that changed something are marked, by offset, so that
	// nothing is changed twice.
	Dedup bool
	// Yield, when set, waits a little before a timer's end is written: many timers of one
	// second are to start before the ends of the first compete with them.
	Yield   func(ctx context.Context)
	Backoff retry.Backoff
	Clock   clock.Clock
	Counts  *pipeline.Counts
	Log     *slog.Logger
}

type durable struct {
	next pipeline.Handler
	Options
}

// New wraps the chain. An invocation without a lease passes unchanged.
func New(next pipeline.Handler, options Options) pipeline.Handler {
	return &durable{next: next, Options: options}
}

func (d *durable) Handle(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	lease, leased := invocation.Lease.(*entity.Lease)
	if !leased || lease == nil {
		return d.next.Handle(ctx, invocation)
	}
	var record *entity.Entity
	err := d.repeat(invocation, "load the key's record", func() (err error) {
		record, err = lease.Open(invocation.Leaving, invocation.Event.Key)
		return err
	})
	if err != nil {
		return d.refused(invocation, err, "")
	}
	defer record.Close()
	invocation.Entity = record
	seen := false
	err = d.repeat(invocation, "look for a duplicate", func() (err error) {
		seen, err = d.seen(invocation, record)
		return err
	})
	switch {
	case err != nil:
		return d.refused(invocation, err, "")
	case seen:
		d.Counts.Duplicates.Add(1)
		d.Log.Debug("event was done before, skipping it", pipeline.Fields(invocation.Event)...)
		return pipeline.Outcome{Class: pipeline.Success, Silent: true}
	}
	traced(invocation)
	defer func() { discard(invocation) }()
	return d.end(invocation, d.next.Handle(ctx, invocation))
}

func (d *durable) seen(invocation *pipeline.Invocation, record *entity.Entity) (bool, error) {
	switch invocation.Event.Kind {
	case event.Message, event.Excise, event.Timer:
		return record.Seen(invocation.Leaving, invocation.Event, d.Dedup)
	}
	return false, nil
}

// traced gives a timer the trace context of what scheduled it.
func traced(invocation *pipeline.Invocation) {
	if invocation.Event.Kind != event.Timer {
		return
	}
	headers := trace.Headers(trace.Read(invocation.Entity.Trace(invocation.Event.Timestamp / 1000)))
	if headers == nil {
		return
	}
	due := *invocation.Event
	due.Headers = headers
	invocation.Event = &due
}

// end makes an outcome durable.
func (d *durable) end(invocation *pipeline.Invocation, outcome pipeline.Outcome) pipeline.Outcome {
	switch outcome.Class {
	case pipeline.Success, pipeline.Deferred:
		err := d.commit(invocation)
		if err == nil {
			outcome.Silent = outcome.Class == pipeline.Deferred
			outcome.Class = pipeline.Success
			return outcome
		}
		if kind := fault.Of(err); kind != fault.TooLarge && kind != fault.Invalid {
			return d.refused(invocation, err, outcome.Text)
		}
		outcome = pipeline.Outcome{Class: pipeline.Permanent, Text: pipeline.Clip("its changes cannot be stored: "+err.Error(), pipeline.MaxText)}
	case pipeline.Permanent:
	case pipeline.Transient:
		// In a mode that gives an event up like this, its timer is over all the same.
		if d.Dedup || invocation.Leaving.Err() != nil {
			return outcome
		}
	default:
		return outcome
	}
	discard(invocation)
	if err := d.commit(invocation); err != nil {
		return d.refused(invocation, err, outcome.Text)
	}
	return outcome
}

// commit writes what the invocation's transaction holds, with the mark of its event.
func (d *durable) commit(invocation *pipeline.Invocation) error {
	txn, begun := invocation.Txn.(*entity.Txn)
	if !begun || txn == nil {
		if !d.Dedup && invocation.Event.Kind != event.Timer && invocation.Next == 0 {
			return nil
		}
		txn = invocation.Begin()
		invocation.Txn = txn
	}
	if !d.Dedup && invocation.Event.Kind != event.Timer && !txn.Dirty() {
		return nil
	}
	if d.Yield != nil && invocation.Event.Kind == event.Timer {
		d.Yield(invocation.Leaving)
	}
	mark := entity.Mark{Event: invocation.Event, ID: d.Dedup}
	return d.repeat(invocation, "write the key's record", func() error { return txn.Commit(invocation.Leaving, mark) })
}

// repeat calls until it works, cannot work, or the partition leaves.
func (d *durable) repeat(invocation *pipeline.Invocation, what string, call func() error) error {
	for attempt := uint32(1); ; attempt++ {
		err := call()
		if err == nil {
			return nil
		}
		if kind := fault.Of(err); kind != fault.Store && kind != fault.Kafka && kind != fault.Timeout || invocation.Leaving.Err() != nil {
			return err
		}
		d.Counts.Unstored.Add(1)
		delay := d.Backoff.Delay(attempt)
		d.Log.Warn("store failed, trying again", append(pipeline.Fields(invocation.Event),
			slog.String("what", what), slog.Int64("attempt", int64(attempt)), slog.Duration("delay", delay),
			slog.String("error", pipeline.Clip(err.Error(), 1024)))...)
		if invocation.Progress != nil {
			invocation.Progress(delay)
		}
		if clock.Sleep(invocation.Leaving, d.Clock, delay) != nil {
			return err
		}
		if attempt == math.MaxUint32 {
			attempt--
		}
	}
}

// refused is the outcome of an event that the store has not taken.
func (d *durable) refused(invocation *pipeline.Invocation, err error, text string) pipeline.Outcome {
	if kind := fault.Of(err); kind == fault.TooLarge || kind == fault.Invalid {
		return pipeline.Outcome{Class: pipeline.Permanent, Text: pipeline.Clip(err.Error(), pipeline.MaxText)}
	}
	if text != "" {
		text += "; "
	}
	text = pipeline.Clip(text+err.Error(), pipeline.MaxText)
	if invocation.Leaving.Err() == nil {
		return pipeline.Outcome{Class: pipeline.Aborted, Text: text}
	}
	return pipeline.Leave(invocation, text)
}

func discard(invocation *pipeline.Invocation) {
	if txn, begun := invocation.Txn.(*entity.Txn); begun && txn != nil {
		txn.Discard()
	}
	invocation.Txn = nil
}
