package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/partition"
	"prosody/core/pipeline"
	"prosody/core/timer"
)

// startable takes what can start now; under the mutex.
func (c *Consumer) startable(list []partition.Start) []partition.Start {
	now := time.Now()
	for {
		start, ok := c.set.Next(now)
		if !ok {
			return list
		}
		list = append(list, start)
	}
}

// dispatch gives each start to a worker without work, or to a new one.
func (c *Consumer) dispatch(starts []partition.Start) {
	for _, start := range starts {
		select {
		case c.work <- start:
		default:
			c.locked(func() { c.workers++ })
			go (&worker{consumer: c}).loop(start)
		}
	}
}

// fire takes timers and retries that are due. Those of another assignment are dropped.
func (c *Consumer) fire(fires []timer.Fire) {
	var starts []partition.Start
	c.locked(func() {
		for _, due := range fires {
			if held := c.leases[due.Event.At()]; held != nil && held.mark == any(due.Lease) {
				c.set.Offer(due.Event, int64(len(due.Event.Key))+256)
			}
		}
		starts = c.startable(nil)
	})
	c.dispatch(starts)
}

// ended tells the timers of the end of an event that they handed out.
func (c *Consumer) ended(start partition.Start, class pipeline.Class) {
	if c.options.Timers == nil || start.Event == nil || start.Event.Kind != event.Timer && start.Event.Kind != event.Retry {
		return
	}
	if lease, ok := start.Tag.(*lease).mark.(timer.Lease); ok {
		c.options.Timers.Ended(lease, start.Event, class == pipeline.Success || class == pipeline.Permanent)
	}
}

// worker handles one event after the other.
type worker struct {
	consumer *Consumer
	token    partition.Token
	beat     func(time.Duration) // progress
	extra    []partition.Start
}

func (w *worker) loop(start partition.Start) {
	c := w.consumer
	w.beat = w.progress
	defer func() {
		if thrown := recover(); thrown != nil {
			c.panicked("worker", thrown)
		}
		c.locked(func() { c.workers-- })
		poke(c.exited)
	}()
	for more := true; more; {
		class := w.run(start)
		if start, more = w.next(start, class); !more {
			start, more = w.park()
		}
	}
}

// next reports the end of an event and takes another one.
func (w *worker) next(ended partition.Start, class pipeline.Class) (start partition.Start, more bool) {
	c := w.consumer
	held := ended.Tag.(*lease)
	leaving, stopped := false, false
	var heir *Consumer
	c.locked(func() {
		heir = c.heir
		leaving = !held.final.IsZero()
		counted := c.set.Done(ended.Token, class)
		stopped = counted && !leaving && class != pipeline.Success && class != pipeline.Permanent
		if start, more = c.set.Next(time.Now()); more {
			w.extra = c.startable(w.extra[:0])
		}
	})
	c.ended(ended, class)
	if heir != nil && ended.Event != nil {
		heir.lift(partition.Gated{Partition: held.name, Key: ended.Event.Key})
	}
	if leaving {
		poke(c.wake)
	}
	if stopped {
		c.log.Error("event ended without a decision: its key stands still until the partition moves",
			w.about(ended, slog.String("class", class.String()))...)
	}
	if len(w.extra) > 0 {
		c.dispatch(w.extra)
		clear(w.extra)
		w.extra = w.extra[:0]
	}
	return start, more
}

// park waits for work, unless enough others do.
func (w *worker) park() (start partition.Start, more bool) {
	c := w.consumer
	w.token = partition.Token{}
	if c.idle.Add(1) > parked {
		c.idle.Add(-1)
		return partition.Start{}, false
	}
	defer c.idle.Add(-1)
	select {
	case start = <-c.work:
		return start, true
	case <-c.quit:
		return partition.Start{}, false
	}
}

// run handles one event.
func (w *worker) run(start partition.Start) (class pipeline.Class) {
	c := w.consumer
	held := start.Tag.(*lease)
	w.token = start.Token
	defer func() {
		if thrown := recover(); thrown != nil {
			c.panicked("pipeline", thrown)
			class = pipeline.Aborted
		}
	}()
	if start.Event == nil {
		return w.invalid(held.ctx, start)
	}
	outcome := c.options.Handler.Handle(held.ctx, &pipeline.Invocation{
		Event: start.Event, Leaving: held.ctx, Over: held.over, Progress: w.beat, Lease: held.mark,
	})
	if outcome.Class == pipeline.Transient && held.ctx.Err() != nil {
		return pipeline.Aborted
	}
	return outcome.Class
}

// progress is the Progress of the worker's invocations.
func (w *worker) progress(wait time.Duration) {
	c := w.consumer
	c.locked(func() { c.set.Beat(w.token, time.Now().Add(wait)) })
}

// invalid deals with an invalid record until that has worked or the partition leaves.
func (w *worker) invalid(ctx context.Context, start partition.Start) pipeline.Class {
	c := w.consumer
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		err := c.options.Invalid(ctx, start.Record, start.Reason)
		if err == nil {
			return pipeline.Success
		}
		if ctx.Err() != nil {
			return pipeline.Aborted
		}
		c.log.Error("invalid record could not be dealt with, trying again",
			w.about(start, slog.Duration("delay", wait), slog.String("error", pipeline.Clip(err.Error(), 1024)))...)
		w.progress(wait)
		if clock.Sleep(ctx, c.options.Clock, wait) != nil {
			return pipeline.Aborted
		}
	}
}

func (w *worker) about(start partition.Start, more ...any) []any {
	name, offset := start.Tag.(*lease).name, int64(-1)
	if start.Event != nil {
		offset = start.Event.Offset
	} else if start.Record != nil {
		offset = start.Record.Offset
	}
	return fields(name, append([]any{slog.Int64("offset", offset)}, more...)...)
}

// panicked reports a fault of Prosody itself.
func (c *Consumer) panicked(where string, thrown any) {
	text := fmt.Sprintf("%s panicked: %v", where, thrown)
	c.fail(text)
	c.log.Error(text, "stack", string(debug.Stack()))
	if c.options.Fault != nil {
		c.options.Fault(fault.New(fault.Internal, "%s", text))
	}
}

// fail keeps the first reason why the consumer cannot go on.
func (c *Consumer) fail(text string) {
	c.locked(func() {
		if c.broken == "" && !c.stopping {
			c.broken = text
		}
	})
}

func compare(a, b kafka.Partition) int {
	switch {
	case a.Topic != b.Topic && a.Topic < b.Topic, a.Topic == b.Topic && a.Index < b.Index:
		return -1
	case a == b:
		return 0
	}
	return 1
}
