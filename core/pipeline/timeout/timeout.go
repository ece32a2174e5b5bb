// Package timeout owns the deadline of an attempt: it asks a handler to stop when its
// time is over, and knows which handlers have not stopped since.
//
// It upholds I1 and I7: it always waits for the handler's real end, and a failure after
// the deadline stays what it was, with a text that tells of the time-out.
package timeout

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/deadline"
	"prosody/core/event"
	"prosody/core/pipeline"
)

// Options says how long an attempt may take.
type Options struct {
	After  time.Duration // 0: no time-out
	Clock  clock.Clock
	Counts *pipeline.Counts
	Log    *slog.Logger
}

// Late is an attempt that has not ended although its time is over.
type Late struct {
	Event *event.Event
	Since time.Time // when its time was over
}

// Handler is the middleware. It needs a Close.
type Handler struct {
	next pipeline.Handler
	Options
	deadlines *deadline.Queue[*attempt]

	mutex sync.Mutex
	late  map[*attempt]time.Time // bounded by the events that run
}

type attempt struct {
	entry   deadline.Entry[*attempt]
	event   *event.Event
	cancel  context.CancelCauseFunc
	ended   bool // under the handler's mutex, as expired
	expired bool
}

// New wraps a handler. The context of an attempt ends with the given one, which ends
// with Leaving, or at the deadline with the cause pipeline.TimedOut.
func New(next pipeline.Handler, options Options) *Handler {
	h := &Handler{next: next, Options: options, late: map[*attempt]time.Time{}}
	h.deadlines = deadline.New(options.Clock, options.After, h.expire)
	return h
}

// Handle runs one attempt.
func (h *Handler) Handle(ctx context.Context, invocation *pipeline.Invocation) (outcome pipeline.Outcome) {
	if h.After <= 0 {
		return h.next.Handle(ctx, invocation)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a := &attempt{event: invocation.Event, cancel: cancel}
	a.entry.Value = a
	h.deadlines.Add(&a.entry)
	defer func() {
		if h.end(a) && outcome.Class != pipeline.Success {
			outcome.Text = pipeline.Clip("timed out after "+h.After.String()+": "+outcome.Text, pipeline.MaxText)
		}
	}()
	return h.next.Handle(ctx, invocation)
}

// Late lists the attempts that are over their time and still run.
func (h *Handler) Late() []Late {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	list := make([]Late, 0, len(h.late))
	for a, since := range h.late {
		list = append(list, Late{Event: a.event, Since: since})
	}
	return list
}

// Close stops the deadlines; attempts that still run have none any more.
func (h *Handler) Close() { h.deadlines.Close() }

// end tells whether the attempt's time was over.
func (h *Handler) end(a *attempt) bool {
	defer a.cancel(nil)
	if h.deadlines.Remove(&a.entry) {
		return false
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	a.ended = true
	delete(h.late, a)
	return a.expired
}

// expire marks the attempt before its context ends, so that a handler that stops at
// once knows why.
func (h *Handler) expire(a *attempt) {
	if !h.mark(a) {
		return
	}
	h.Counts.Timeouts.Add(1)
	h.Log.Warn("handler timed out, waiting for its end",
		append(pipeline.Fields(a.event), slog.Duration("timeout", h.After))...)
	a.cancel(pipeline.TimedOut)
}

func (h *Handler) mark(a *attempt) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if a.ended {
		return false
	}
	a.expired = true
	h.late[a] = h.Clock.Now()
	return true
}
