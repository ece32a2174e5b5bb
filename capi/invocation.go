package main

// #include "shim.h"
import "C"

import (
	"bytes"
	"unsafe"

	"prosody/capi/internal/record"
	"prosody/capi/internal/slot"
	"prosody/core/pipeline"
)

var classes = [...]pipeline.Class{
	C.PROSODY_RESULT_SUCCESS:   pipeline.Success,
	C.PROSODY_RESULT_TRANSIENT: pipeline.Transient,
	C.PROSODY_RESULT_PERMANENT: pipeline.Permanent,
}

//export goComplete
func goComplete(outcomes *C.prosody_outcome, count C.size_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_complete", e, &status)
	if !enter("prosody_complete") {
		return refuse(e)
	}
	var first slot.Verdict
	list := unsafe.Slice(outcomes, int(count))
	for i := range list {
		one := &list[i]
		outcome := pipeline.Outcome{Class: classes[one.result]}
		if one.response.data != nil {
			outcome.Response = bytes.Clone(view(one.response))
			if outcome.Response == nil {
				outcome.Response = []byte{}
			}
		}
		if one.error_text.size > 0 {
			outcome.Text = record.Clip(text(one.error_text))
		}
		if verdict := library.slots.Complete(uint64(one.invocation), outcome); first == slot.Live {
			first = verdict
		}
	}
	switch first {
	case slot.Settled:
		return fail(e, C.PROSODY_ERR_SETTLED, "the invocation is over already")
	case slot.Gone:
		return fail(e, C.PROSODY_ERR_REVOKED, "the partition went to another member")
	case slot.Unknown:
		return fail(e, C.PROSODY_ERR_HANDLE, "not an invocation")
	}
	return C.PROSODY_OK
}

//export goShouldCancel
func goShouldCancel(invocation C.uint64_t) (status C.prosody_status) {
	defer guard("prosody_should_cancel", nil, &status)
	if !enter("prosody_should_cancel") {
		return C.PROSODY_ERR_POISONED
	}
	switch library.slots.Check(uint64(invocation)) {
	case slot.Stopped, slot.Gone:
		return C.PROSODY_ERR_CANCELLED
	case slot.Settled:
		return C.PROSODY_ERR_SETTLED
	case slot.Unknown:
		return C.PROSODY_ERR_HANDLE
	}
	return C.PROSODY_OK
}
