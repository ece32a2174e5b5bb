package main

// #include "shim.h"
import "C"

import (
	"encoding/json"
	"strings"
	"unsafe"

	"prosody/capi/internal/handle"
	"prosody/capi/internal/record"
	"prosody/capi/internal/slot"
	"prosody/core/client"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/producer"
)

func clientOf(address C.uintptr_t) *peer {
	return handle.Get[peer](library.handles, uintptr(address))
}

//export goClientCreate
func goClientCreate(c, q C.uintptr_t, tag C.uint64_t, out *C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_client_create", e, &status)
	if !enter("prosody_client_create") {
		return refuse(e)
	}
	s := handle.Get[settings](library.handles, uintptr(c))
	if s == nil {
		return stale(e, kindConfig)
	}
	queue := queueOf(q)
	if queue == nil {
		return stale(e, kindQueue)
	}
	variables := environment()
	plan, err := client.Prepare(s.copied(), variables)
	if err != nil {
		return report(e, err)
	}
	p := newPeer(plan, queue.Queue)
	p.observe(variables)
	*out = C.uintptr_t(handle.Open(library.handles, kindClient, p))
	library.spawn("prosody_client_create", func() {
		inject("client")
		p.build(func(err error) { queue.Push(answer(tag, err)) })
	})
	return C.PROSODY_PENDING
}

//export goClientLog
func goClientLog(c, q C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_client_log", e, &status)
	if !enter("prosody_client_log") {
		return refuse(e)
	}
	p := clientOf(c)
	if p == nil {
		return stale(e, kindClient)
	}
	if q == 0 {
		p.sink.Store(nil)
		return C.PROSODY_OK
	}
	queue := queueOf(q)
	if queue == nil {
		return stale(e, kindQueue)
	}
	p.sink.Store(queue.Queue)
	return C.PROSODY_OK
}

// pair gives the client and the queue of a call that begins.
func pair(name string, c, q C.uintptr_t, e *C.prosody_error) (*peer, *desk, C.prosody_status) {
	if !enter(name) {
		return nil, nil, refuse(e)
	}
	p := clientOf(c)
	if p == nil {
		return nil, nil, stale(e, kindClient)
	}
	d := queueOf(q)
	if d == nil {
		return nil, nil, stale(e, kindQueue)
	}
	return p, d, C.PROSODY_OK
}

// begin starts an asynchronous call of a client and a queue.
func begin(name string, c, q C.uintptr_t, e *C.prosody_error, call func(*peer, *desk)) C.prosody_status {
	p, d, status := pair(name, c, q, e)
	if status != C.PROSODY_OK {
		return status
	}
	call(p, d)
	return C.PROSODY_PENDING
}

//export goClientSubscribe
func goClientSubscribe(c, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_subscribe"
	defer guard(name, e, &status)
	return begin(name, c, q, e, func(p *peer, d *desk) {
		host := &slot.Host{Table: library.slots, Queue: d.Queue, Refuse: library.refusal}
		p.later(name, func(err error) {
			if err == nil {
				err = p.core.Subscribe(p.life, host)
			}
			d.Push(answer(tag, err))
		})
	})
}

//export goClientUnsubscribe
func goClientUnsubscribe(c, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_unsubscribe"
	defer guard(name, e, &status)
	return begin(name, c, q, e, func(p *peer, d *desk) {
		p.later(name, func(err error) {
			if err == nil {
				err = p.core.Unsubscribe(p.life)
			}
			d.Push(answer(tag, err))
		})
	})
}

//export goClientShutdown
func goClientShutdown(c, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_shutdown"
	defer guard(name, e, &status)
	return begin(name, c, q, e, func(p *peer, d *desk) {
		library.spawn(name, func() { d.Push(answer(tag, p.shutdown(p.life))) })
	})
}

//export goClientSend
func goClientSend(c, q C.uintptr_t, tag C.uint64_t, o *C.prosody_outgoing, e *C.prosody_error) (status C.prosody_status) {
	name := "prosody_client_send"
	if o.payload.data == nil {
		name = "prosody_client_excise"
	}
	defer guard(name, e, &status)
	p, d, status := pair(name, c, q, e)
	if status != C.PROSODY_OK {
		return status
	}
	out, status := outgoing(o, e)
	if status != C.PROSODY_OK {
		return status
	}
	if err := p.send(out, func(sent producer.Sent) { d.Push(delivered(tag, sent)) }); err != nil {
		return report(e, err)
	}
	return C.PROSODY_PENDING
}

// outgoing gives a record as the core takes it; its bytes belong to the host.
func outgoing(o *C.prosody_outgoing, e *C.prosody_error) (out producer.Outgoing, status C.prosody_status) {
	if strings.IndexByte(borrow(o.topic), 0) >= 0 {
		return out, fail(e, C.PROSODY_ERR_INVALID, "topic: holds a NUL")
	}
	out = producer.Outgoing{Topic: borrow(o.topic), Key: borrow(o.key), Payload: view(o.payload), Cause: entered()}
	if o.headers_count > 0 {
		out.Headers = make([]kafka.Header, o.headers_count)
	}
	for i, header := range unsafe.Slice(o.headers, int(o.headers_count)) {
		if !readable(header.name) || !readable(header.value) {
			return out, fail(e, C.PROSODY_ERR_ARGUMENT, "header: NULL with a size, or over 1 GiB")
		}
		if header.name.data == nil {
			return out, fail(e, C.PROSODY_ERR_ARGUMENT, "header: the name is null")
		}
		out.Headers[i] = kafka.Header{Name: borrow(header.name), Value: view(header.value)}
	}
	return out, C.PROSODY_OK
}

// delivered makes the completion of a send.
func delivered(tag C.uint64_t, sent producer.Sent) *record.Completion {
	if sent.Err != nil {
		return answer(tag, sent.Err)
	}
	return &record.Completion{Tag: uint64(tag), Value: sent.Offset, Extra: int64(sent.Partition)}
}

// ask runs a call that needs a client which is made.
func ask(name string, c C.uintptr_t, e *C.prosody_error, call func(*peer) C.prosody_status) C.prosody_status {
	if !enter(name) {
		return refuse(e)
	}
	p := clientOf(c)
	if p == nil {
		return stale(e, kindClient)
	}
	if !p.made() {
		return report(e, fault.New(fault.State, "the client is still being made"))
	}
	return call(p)
}

//export goClientState
func goClientState(c C.uintptr_t, out *C.int32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_state"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		number, err := stateOf(p)
		*out = number
		if err != nil {
			return report(e, err)
		}
		return C.PROSODY_OK
	})
}

// stateOf tells the client's state, and why it can never consume.
func stateOf(p *peer) (C.int32_t, error) {
	if p.core == nil {
		return C.PROSODY_STATE_SHUT_DOWN, nil
	}
	state, err := p.core.State()
	switch {
	case err != nil:
		return C.PROSODY_STATE_UNCONFIGURED, err
	case state == client.Running:
		return C.PROSODY_STATE_RUNNING, nil
	case state == client.ShutDown:
		return C.PROSODY_STATE_SHUT_DOWN, nil
	}
	return C.PROSODY_STATE_CONFIGURED, nil
}

//export goClientPartitions
func goClientPartitions(c C.uintptr_t, out *C.uint32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_partitions"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		*out = 0
		if p.core != nil {
			*out = C.uint32_t(p.core.Partitions())
		}
		return C.PROSODY_OK
	})
}

//export goClientStalled
func goClientStalled(c C.uintptr_t, out *C.int32_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_stalled"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		*out = 0
		if p.core != nil && len(p.core.Stalled()) > 0 {
			*out = 1
		}
		return C.PROSODY_OK
	})
}

//export goClientSource
func goClientSource(c C.uintptr_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_source"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		if p.core == nil {
			return report(e, p.failed)
		}
		return emit([]byte(p.core.Source()), buffer, capacity, size)
	})
}

//export goClientStats
func goClientStats(c C.uintptr_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_stats"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		if p.core == nil {
			return report(e, p.failed)
		}
		stats, err := p.core.Stats()
		if err != nil {
			return report(e, err)
		}
		own, err := json.Marshal(map[string]any{
			"handles": library.handles.Live(), "invocations": library.slots.Used(), "states": library.keyed.Used(),
		})
		if err != nil {
			return report(e, err)
		}
		return emit(join(stats, "library", own), buffer, capacity, size)
	})
}

// join adds a member to a JSON object.
func join(object []byte, name string, value []byte) []byte {
	inner := strings.TrimSuffix(strings.TrimSpace(string(object)), "}")
	if strings.TrimSpace(inner) != "{" {
		inner += ","
	}
	return []byte(inner + `"` + name + `":` + string(value) + "}")
}

//export goClientDestroy
func goClientDestroy(c C.uintptr_t) {
	const name = "prosody_client_destroy"
	var status C.prosody_status
	defer guard(name, nil, &status)
	inject(name)
	if p := handle.Close[peer](library.handles, kindClient, uintptr(c)); p != nil {
		library.spawn(name, func() { _ = p.shutdown(p.life) })
	}
}
