package main

// #include "shim.h"
import "C"

import (
	"context"
	"time"
	"unsafe"

	"prosody/capi/internal/handle"
	"prosody/capi/internal/record"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/mock"
)

// within runs a call on the world of some servers.
func within(name string, servers C.prosody_bytes, e *C.prosody_error, call func(*mock.World) error) C.prosody_status {
	if !enter(name) {
		return refuse(e)
	}
	found, err := library.mocks.Find(text(servers))
	if err == nil {
		err = call(found)
	}
	if err != nil {
		return report(e, err)
	}
	return C.PROSODY_OK
}

//export goMockAdvance
func goMockAdvance(servers C.prosody_bytes, milliseconds C.int64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_advance"
	defer guard(name, e, &status)
	return within(name, servers, e, func(w *mock.World) error {
		w.Clock.Advance(time.Duration(milliseconds) * time.Millisecond)
		return nil
	})
}

//export goMockIdle
func goMockIdle(servers C.prosody_bytes, q C.uintptr_t, tag C.uint64_t, milliseconds C.int32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_idle"
	defer guard(name, e, &status)
	if !enter(name) {
		return refuse(e)
	}
	queue := queueOf(q)
	if queue == nil {
		return stale(e, kindQueue)
	}
	found, err := library.mocks.Find(text(servers))
	if err != nil {
		return report(e, err)
	}
	library.spawn(name, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(milliseconds)*time.Millisecond)
		defer cancel()
		queue.Push(answer(tag, found.Idle(ctx)))
	})
	return C.PROSODY_PENDING
}

//export goMockRecords
func goMockRecords(servers, topic C.prosody_bytes, skip C.uint64_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, count *C.uint32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_records"
	defer guard(name, e, &status)
	*size, *count = 0, 0
	short := false
	status = within(name, servers, e, func(w *mock.World) error {
		room := unsafe.Slice((*byte)(buffer), int(capacity))
		for _, one := range w.Records(text(topic), uint64(skip)) {
			packed := record.Message{Event: raw(one)}
			need := packed.Size()
			if need > len(room) {
				if short = *count == 0; short {
					*size = C.size_t(need)
				}
				return nil
			}
			packed.Encode(room[:need], 0)
			room = room[need:]
			*size += C.size_t(need)
			*count++
		}
		return nil
	})
	switch {
	case status != C.PROSODY_OK || *count > 0:
		return status
	case short:
		return C.PROSODY_SHORT
	}
	return C.PROSODY_END
}

// raw is a record as it stands in the log, whether or not it would be an event.
func raw(one *kafka.Record) *event.Event {
	kind := event.Message
	if one.Value == nil {
		kind = event.Excise
	}
	made := &event.Event{
		Kind: kind, Topic: one.Topic, Partition: one.Partition, Offset: one.Offset, Timestamp: one.Timestamp,
		Key: string(one.Key), Payload: one.Value, Headers: one.Headers,
	}
	for _, header := range one.Headers {
		if header.Name == event.SourceHeader && header.Value != nil {
			made.Source, made.HasSource = string(header.Value), true
			break
		}
	}
	return made
}

//export goMockFail
func goMockFail(servers C.prosody_bytes, calls C.uint32_t, of C.prosody_bytes, times C.int64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_fail"
	defer guard(name, e, &status)
	return within(name, servers, e, func(w *mock.World) error {
		return w.Fail(mock.Calls(calls), text(of), int64(times))
	})
}

//export goMockRebalance
func goMockRebalance(servers, group C.prosody_bytes, reason C.int32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_rebalance"
	defer guard(name, e, &status)
	return within(name, servers, e, func(w *mock.World) error {
		return w.Rebalance(text(group), reason == C.PROSODY_CANCEL_LOST)
	})
}

//export goMockForget
func goMockForget(servers C.prosody_bytes, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_forget"
	defer guard(name, e, &status)
	return within(name, servers, e, func(*mock.World) error { return library.mocks.Forget(text(servers)) })
}

//export goMockReader
func goMockReader(c C.uintptr_t, topic C.prosody_bytes, collection *C.prosody_collection, out *C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_reader"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		if p.core == nil {
			return report(e, p.failed)
		}
		opened, err := p.core.Kept(text(topic), identity(collection))
		if err != nil {
			return report(e, err)
		}
		made := &reader{Reader: opened, names: map[uint64]struct{}{}}
		*out = C.uintptr_t(handle.Open(library.handles, kindReader, made))
		return C.PROSODY_OK
	})
}
