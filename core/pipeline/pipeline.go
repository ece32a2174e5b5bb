// Package pipeline owns what happens to an event between its start and its end:
// the chain of middleware around the host's handler, one chain for each mode.
//
// It upholds I7: a failure is transient unless the caller said permanent, and
// nothing is dropped without a log line, a counter and, where set, a dead letter.
package pipeline

import (
	"context"
	"time"

	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/observe/trace"
	"prosody/core/state"
)

// Class says how an attempt or an event ended.
type Class uint8

// The classes of an outcome.
const (
	Success   Class = iota + 1
	Transient       // trying again may help
	Permanent       // this event is bad
	Aborted         // given up while its owner gives the partition up; the next owner decides
	Deferred        // within the chain: the key's queue has it once Txn is committed
)

func (c Class) String() string {
	switch c {
	case Success:
		return "success"
	case Transient:
		return "transient"
	case Permanent:
		return "permanent"
	case Aborted:
		return "aborted"
	case Deferred:
		return "deferred"
	}
	return "unknown"
}

// Outcome is the end of one attempt, or of the event.
type Outcome struct {
	Class    Class
	Text     string // what went wrong, for people
	Response []byte // JSON for a requester; nil when there is none
	// Failed is how the handler failed, where the event is done all the same: by a dead letter.
	Failed Class
	// Silent is set when this is not the end of the event: it waits in its key's queue, or
	// was done before.
	Silent bool
}

// Demand says whether an attempt is a first delivery or a retry.
type Demand struct {
	Failure bool
	Retry   uint32 // 0 for a first delivery, 1 for the first retry
}

// Invocation is one event on its way through the chain. Middleware may change
// Demand for the calls that it makes.
type Invocation struct {
	Event  *event.Event
	Demand Demand
	// Asked is set when the event's sender waits for the handler's response.
	Asked bool
	// Leaving ends when the owner wants running handlers to stop: near the end of
	// its shutdown budget, or at once when the partition is lost. An outcome that is
	// no success is Aborted from then on.
	Leaving context.Context
	// Over is closed when the outcome counts no more: the budget is over. nil: never.
	Over <-chan struct{}
	// Progress, when set, tells the owner that an attempt failed and that the next one
	// follows after the wait: the event is alive. It is called within Handle only.
	Progress func(wait time.Duration)
	// Lease is what the consumer's ledger has made of the assignment.
	Lease any
	// Span is the core's work on the event; the host's part of it is below.
	Span trace.Span
	// Entity is the key's record, once the durable layer has opened it.
	Entity *entity.Entity
	// Txn is the attempt's transaction. A layer that returns Success or Deferred leaves
	// the one to commit, or nil.
	Txn Txn
	// State is the attempt's collections; nil without a record.
	State *state.Session
	// Next is set when Event is the head of its key's deferred queue: it is when the one
	// behind it is to run, in ms. What ends the event takes it off the queue.
	Next int64
}

// Trace gives the trace context that the host's part belongs to: the core's own span,
// else what the event came with.
func (i *Invocation) Trace() trace.Context {
	if own := i.Span.Context(); own.IsValid() {
		return own
	}
	return i.Event.Trace()
}

// Begin starts a transaction for the event.
func (i *Invocation) Begin() *entity.Txn {
	if i.Next == 0 {
		txn := i.Entity.Begin(i.Event)
		txn.Trace = i.Trace()
		return txn
	}
	// A timer in the queue is none of the key's timers any more.
	txn := i.Entity.Begin(nil)
	txn.Trace = i.Trace()
	txn.Advance()
	if queue := txn.Queue(); queue.Head != queue.Tail {
		txn.Retry(i.Next, 0)
	}
	return txn
}

// Txn is what a host may change of the event's key. Changes become durable with the
// attempt's success, or at once when they are immediate. Seconds are those since the
// epoch. After the attempt each call fails with fault.Settled.
type Txn interface {
	Schedule(ctx context.Context, second int64, immediate bool) error
	// Replace removes all timers and schedules one.
	Replace(ctx context.Context, second int64, immediate bool) error
	Unschedule(ctx context.Context, second int64, immediate bool) error
	Clear(ctx context.Context, immediate bool) error
	// Scheduled lists the seconds in ascending order, without the one that fires.
	Scheduled(ctx context.Context) ([]int64, error)
}

// Handler handles an event. It returns when the attempt has really ended. ctx ends
// when the attempt is cancelled: at its time-out, or with Leaving.
type Handler interface {
	Handle(ctx context.Context, invocation *Invocation) Outcome
}

// Func is a Handler made of a function.
type Func func(ctx context.Context, invocation *Invocation) Outcome

// Handle calls the function.
func (f Func) Handle(ctx context.Context, invocation *Invocation) Outcome { return f(ctx, invocation) }
