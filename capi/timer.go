package main

// #include "shim.h"
import "C"

import (
	"context"
	"encoding/binary"
	"unsafe"

	"prosody/capi/internal/record"
	"prosody/capi/internal/slot"
	"prosody/core/fault"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

// atOnce is the context of calls that must not wait.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// borrowed is the transaction of an invocation, to be returned after use.
type borrowed struct {
	pipeline.Txn
	slot *slot.Slot
}

// txnOf finds the transaction of an invocation.
func txnOf(invocation C.uint64_t, e *C.prosody_error) (borrowed, C.prosody_status) {
	held, verdict := library.slots.Lend(uint64(invocation))
	if held == nil {
		return borrowed{}, unlent(verdict, over, e)
	}
	if held.Txn() == nil {
		held.Return()
		return borrowed{}, fail(e, C.PROSODY_ERR_STATE, "timers need a consumer that keeps records of keys")
	}
	return borrowed{held.Txn(), held}, C.PROSODY_OK
}

// span begins the span of a call, and makes it what a timer comes from.
func (b borrowed) span(label string) (trace.Span, context.Context) {
	cause := trace.First(entered(), b.slot.Within())
	span := library.telemetry.tracer.Load().Call(cause, label)
	return span, trace.With(context.Background(), trace.First(span.Context(), cause))
}

const over = "The context is no longer valid because the event has already been processed"

// change makes a change of the timers: in the attempt, or durably in a goroutine.
func change(
	name, label string, invocation C.uint64_t, q C.uintptr_t, tag C.uint64_t, flags C.uint32_t, e *C.prosody_error,
	what string, do func(ctx context.Context, txn pipeline.Txn, immediate bool) error,
) C.prosody_status {
	if !enter(name) {
		return refuse(e)
	}
	immediate := flags&C.PROSODY_TIMER_IMMEDIATE != 0
	var queue *desk
	if immediate {
		if queue = queueOf(q); queue == nil {
			return stale(e, kindQueue)
		}
	}
	txn, status := txnOf(invocation, e)
	if status != C.PROSODY_OK {
		return status
	}
	span, ctx := txn.span(label)
	if !immediate {
		defer txn.slot.Return()
		err := do(ctx, txn, false)
		span.Fail(err)
		if err != nil {
			return report(e, failed(what, err))
		}
		return C.PROSODY_OK
	}
	library.spawn(name, func() {
		defer txn.slot.Return()
		err := do(ctx, txn, true)
		span.Fail(err)
		queue.Push(answer(tag, failed(what, err)))
	})
	return C.PROSODY_PENDING
}

// failed says what has failed.
func failed(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.Of(err) == fault.Settled:
		return fault.New(fault.Settled, over)
	}
	return fault.Wrap(fault.Of(err), err, "Failed to "+what)
}

//export goTimerSchedule
func goTimerSchedule(invocation C.uint64_t, q C.uintptr_t, tag C.uint64_t, second C.int64_t, flags C.uint32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_timer_schedule"
	defer guard(name, e, &status)
	label := "schedule"
	if flags&C.PROSODY_TIMER_CLEAR != 0 {
		label = "clear_and_schedule"
	}
	return change(name, label, invocation, q, tag, flags, e, "schedule timer",
		func(ctx context.Context, txn pipeline.Txn, immediate bool) error {
			if flags&C.PROSODY_TIMER_CLEAR != 0 {
				return txn.Replace(ctx, int64(second), immediate)
			}
			return txn.Schedule(ctx, int64(second), immediate)
		})
}

//export goTimerUnschedule
func goTimerUnschedule(invocation C.uint64_t, q C.uintptr_t, tag C.uint64_t, second C.int64_t, flags C.uint32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_timer_unschedule"
	defer guard(name, e, &status)
	return change(name, "unschedule", invocation, q, tag, flags, e, "unschedule timer",
		func(ctx context.Context, txn pipeline.Txn, immediate bool) error {
			return txn.Unschedule(ctx, int64(second), immediate)
		})
}

//export goTimerClear
func goTimerClear(invocation C.uint64_t, q C.uintptr_t, tag C.uint64_t, flags C.uint32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_timer_clear"
	defer guard(name, e, &status)
	return change(name, "clear_scheduled", invocation, q, tag, flags, e, "clear timers",
		func(ctx context.Context, txn pipeline.Txn, immediate bool) error { return txn.Clear(ctx, immediate) })
}

//export goTimerList
func goTimerList(
	invocation C.uint64_t, q C.uintptr_t, tag C.uint64_t,
	out *C.int64_t, capacity C.size_t, count *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	const name = "prosody_timer_list"
	defer guard(name, e, &status)
	if !enter(name) {
		return refuse(e)
	}
	queue := queueOf(q)
	if queue == nil {
		return stale(e, kindQueue)
	}
	txn, status := txnOf(invocation, e)
	if status != C.PROSODY_OK {
		return status
	}
	span, _ := txn.span("scheduled")
	seconds, err := txn.Scheduled(atOnce)
	switch {
	case err == nil:
		defer txn.slot.Return()
		*count = C.size_t(len(seconds))
		if len(seconds) > int(capacity) {
			return C.PROSODY_SHORT // the call comes again: this span is none
		}
		span.End("")
		copy(unsafe.Slice((*int64)(unsafe.Pointer(out)), len(seconds)), seconds)
		return C.PROSODY_OK
	case fault.Of(err) == fault.Settled:
		defer txn.slot.Return()
		span.Fail(err)
		return fail(e, C.PROSODY_ERR_SETTLED, over)
	}
	library.spawn(name, func() { // the record has to be read anew
		defer txn.slot.Return()
		seconds, err := txn.Scheduled(context.Background())
		span.Fail(err)
		queue.Push(listed(tag, seconds, failed("list timers", err)))
	})
	return C.PROSODY_PENDING
}

// listed is the completion of a list.
func listed(tag C.uint64_t, seconds []int64, err error) *record.Completion {
	completion := answer(tag, err)
	data := make([]byte, 0, 8*len(seconds))
	for _, second := range seconds {
		data = binary.NativeEndian.AppendUint64(data, uint64(second))
	}
	completion.Value, completion.Data = int64(len(seconds)), string(data)
	return completion
}
