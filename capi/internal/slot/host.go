package slot

import (
	"context"
	"errors"

	"prosody/capi/internal/keyed"
	"prosody/capi/internal/queue"
	"prosody/capi/internal/record"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

// Host is the innermost handler of a subscription: it hands events to the host by a
// queue and waits until the host ends them.
type Host struct {
	Table *Table
	Queue *queue.Queue
	// Refuse, when it gives a text, fails events at once.
	Refuse func() string
}

// Handle runs one attempt. It returns when the host has ended it, or when the host
// has never seen it.
func (h *Host) Handle(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	if text := h.Refuse(); text != "" {
		return gone(text)
	}
	within := invocation.Trace()
	parent, state := trace.Format(within)
	slot := h.Table.take(h.Queue, record.Message{
		Event:   invocation.Event,
		Parent:  parent,
		State:   state,
		Retry:   invocation.Demand.Retry,
		Failure: invocation.Demand.Failure,
		Asked:   invocation.Asked,
	}, invocation.Txn, sessionOf(invocation), within)
	defer h.Table.give(slot)
	if !h.Queue.Push(slot) {
		return gone(destroyed)
	}
	select {
	case <-slot.done:
		return slot.outcome
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	if h.Queue.Remove(slot) {
		return failure("not delivered to the host: " + cause.Error())
	}
	return h.stop(slot, invocation, cause)
}

// sessionOf gives the collections of an attempt, without an interface around nil.
func sessionOf(invocation *pipeline.Invocation) keyed.Binder {
	if invocation.State == nil {
		return nil
	}
	return invocation.State
}

// stop asks the host to end the event and waits until it does.
func (h *Host) stop(slot *Slot, invocation *pipeline.Invocation, cause error) pipeline.Outcome {
	if slot.move(cancelled) {
		h.Queue.Push(&record.Cancel{Token: slot.token(), Reason: reason(cause)})
	}
	select {
	case <-slot.done:
		return slot.outcome
	case <-invocation.Leaving.Done():
	}
	if !errors.Is(context.Cause(invocation.Leaving), pipeline.Lost) {
		select {
		case <-slot.done:
			return slot.outcome
		case <-invocation.Over:
		}
	}
	slot.move(revoked)
	<-slot.done
	return slot.outcome
}

// reason tells why, in the words of the ABI.
func reason(cause error) record.Reason {
	var known pipeline.Cause
	switch {
	case errors.As(cause, &known):
		return record.Reason(known)
	case errors.Is(cause, context.DeadlineExceeded):
		return record.Timeout
	}
	return record.Shutdown
}
