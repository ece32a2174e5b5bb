package main

// #include "shim.h"
import "C"

import (
	"math"
	"unsafe"

	"prosody/capi/internal/handle"
	"prosody/capi/internal/queue"
)

// desk is a queue with the gate to its descriptor.
type desk struct {
	*queue.Queue
	gate *C.shim_gate
}

func queueOf(address C.uintptr_t) *desk {
	return handle.Get[desk](library.handles, uintptr(address))
}

//export goQueueCreate
func goQueueCreate(out *C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_queue_create", e, &status)
	if !enter("prosody_queue_create") {
		return refuse(e)
	}
	made, err := queue.New()
	if err != nil {
		return fail(e, C.PROSODY_ERR_INTERNAL, "no descriptor for the queue: "+err.Error())
	}
	gate := C.shim_gate_new(C.int(made.Descriptor()))
	if gate == nil {
		panic("out of memory")
	}
	library.mutex.Lock()
	library.queues[made] = struct{}{}
	library.mutex.Unlock()
	if text := library.refusal(); text != "" { // poisoned meanwhile
		made.Fatal(text)
	}
	*out = C.uintptr_t(handle.Open(library.handles, kindQueue, &desk{made, gate}))
	return C.PROSODY_OK
}

//export goQueueDescriptor
func goQueueDescriptor(address C.uintptr_t) (descriptor C.int) {
	status := C.prosody_status(C.PROSODY_OK)
	defer func() {
		if status != C.PROSODY_OK {
			descriptor = -1
		}
	}()
	defer guard("prosody_queue_fd", nil, &status)
	inject("prosody_queue_fd")
	if q := queueOf(address); q != nil {
		return C.int(q.Descriptor())
	}
	return -1
}

// goQueueTake polls once. With a place for a gate and nothing to take, it lends the
// gate: the caller waits for its descriptor and leaves it.
//
//export goQueueTake
func goQueueTake(
	address C.uintptr_t, buffer unsafe.Pointer, capacity C.size_t, limit C.uint32_t,
	size *C.size_t, count *C.uint32_t, gate **C.shim_gate, e *C.prosody_error,
) (status C.prosody_status) {
	defer guard("prosody_queue_poll", e, &status)
	inject("prosody_queue_poll")
	q := queueOf(address)
	if q == nil {
		return stale(e, kindQueue)
	}
	most := math.MaxInt
	if limit > 0 {
		most = int(limit)
	}
	batch := q.Take(unsafe.Slice((*byte)(buffer), int(capacity)), most)
	switch {
	case batch.Count > 0:
		*size, *count = C.size_t(batch.Size), C.uint32_t(batch.Count)
	case batch.Need > 0:
		*size = C.size_t(batch.Need)
		return C.PROSODY_SHORT
	case batch.Closed:
		return fail(e, C.PROSODY_ERR_CLOSED, "the queue was destroyed")
	case batch.Fatal:
		return refuse(e) // all that waited is delivered
	case gate != nil && !batch.Woken:
		return lend(q, gate, e)
	}
	return C.PROSODY_OK
}

// lend gives the gate away, unless the queue's handle was freed meanwhile.
func lend(q *desk, gate **C.shim_gate, e *C.prosody_error) C.prosody_status {
	library.mutex.Lock()
	defer library.mutex.Unlock()
	if _, live := library.queues[q.Queue]; !live {
		return fail(e, C.PROSODY_ERR_CLOSED, "the queue was destroyed")
	}
	C.shim_gate_enter(q.gate)
	*gate = q.gate
	return C.PROSODY_OK
}

//export goQueueWake
func goQueueWake(address C.uintptr_t) (status C.prosody_status) {
	defer guard("prosody_queue_wake", nil, &status)
	inject("prosody_queue_wake")
	q := queueOf(address)
	if q == nil {
		return C.PROSODY_ERR_HANDLE
	}
	q.Wake()
	return C.PROSODY_OK
}

//export goQueueDestroy
func goQueueDestroy(address C.uintptr_t) {
	var status C.prosody_status
	defer guard("prosody_queue_destroy", nil, &status)
	inject("prosody_queue_destroy")
	q := handle.Close[desk](library.handles, kindQueue, uintptr(address))
	if q == nil {
		return
	}
	q.Close()
	library.slots.Fail(q.Queue, "the queue was destroyed")
	library.mutex.Lock()
	delete(library.queues, q.Queue)
	library.mutex.Unlock()
	C.shim_gate_leave(q.gate)
}
