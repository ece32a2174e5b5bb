// Package pipeline owns what happens to an event between its start and its end:
// the chain of middleware around the host's handler, one chain for each mode.
//
// It upholds I7: a failure is transient unless the caller said permanent, and
// nothing is dropped without a log line, a counter and, where set, a dead letter.
package pipeline

import (
	"context"
	"time"

	"prosody/core/event"
)

// Class says how an attempt or an event ended.
type Class uint8

// The classes of an outcome.
const (
	Success   Class = iota + 1
	Transient       // trying again may help
	Permanent       // this event is bad
	Aborted         // given up while its owner gives the partition up; the next owner decides
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
	}
	return "unknown"
}

// Outcome is the end of one attempt, or of the event.
type Outcome struct {
	Class    Class
	Text     string // what went wrong, for people
	Response []byte // JSON for a requester; nil when there is none
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
	// Leaving ends when the owner wants running handlers to stop: near the end of
	// its shutdown budget, or at once when the partition is lost. An outcome that is
	// no success is Aborted from then on.
	Leaving context.Context
	// Progress, when set, tells the owner that an attempt failed and that the next one
	// follows after the wait: the event is alive. It is called within Handle only.
	Progress func(wait time.Duration)
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
