package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"strings"
	"unsafe"

	"prosody/capi/internal/record"
	"prosody/core/fault"
	"prosody/core/kafka"
)

// fail fills an error of the host and gives its status.
func fail(e *C.prosody_error, status C.prosody_status, text string) C.prosody_status {
	if text == "" {
		text = "unknown"
	}
	data := (*C.char)(unsafe.Pointer(unsafe.StringData(text)))
	return C.shim_fail(e, status, data, C.size_t(len(text)))
}

func stale(e *C.prosody_error, kind string) C.prosody_status {
	return fail(e, C.PROSODY_ERR_HANDLE, "not a live handle of a "+kind)
}

// report is fail for an error of the core.
func report(e *C.prosody_error, err error) C.prosody_status {
	return fail(e, statusOf(err), strings.ToValidUTF8(err.Error(), "\uFFFD"))
}

// statusOf gives the status of an error.
func statusOf(err error) C.prosody_status {
	var own *fault.Error
	var port *kafka.Error
	switch {
	case err == nil:
		return C.PROSODY_OK
	case errors.As(err, &own) && own.Kind != fault.Internal:
		return statusOfKind(own.Kind)
	case errors.As(err, &port):
		return statusOfCode(port.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return C.PROSODY_ERR_TIMEOUT
	case errors.Is(err, context.Canceled):
		return C.PROSODY_ERR_CANCELLED
	}
	return C.PROSODY_ERR_INTERNAL
}

func statusOfKind(kind fault.Kind) C.prosody_status {
	switch kind {
	case fault.Argument:
		return C.PROSODY_ERR_ARGUMENT
	case fault.Config:
		return C.PROSODY_ERR_CONFIG
	case fault.State:
		return C.PROSODY_ERR_STATE
	case fault.Settled:
		return C.PROSODY_ERR_SETTLED
	case fault.Closed:
		return C.PROSODY_ERR_CLOSED
	case fault.Revoked:
		return C.PROSODY_ERR_REVOKED
	case fault.Timeout:
		return C.PROSODY_ERR_TIMEOUT
	case fault.Kafka:
		return C.PROSODY_ERR_KAFKA
	case fault.Store:
		return C.PROSODY_ERR_STORE
	case fault.Cancelled:
		return C.PROSODY_ERR_CANCELLED
	case fault.TooLarge:
		return C.PROSODY_ERR_TOO_LARGE
	case fault.Invalid:
		return C.PROSODY_ERR_INVALID
	case fault.Exists:
		return C.PROSODY_ERR_EXISTS
	case fault.Unpublished:
		return C.PROSODY_ERR_UNPUBLISHED
	case fault.Identity:
		return C.PROSODY_ERR_IDENTITY
	case fault.Unregistered:
		return C.PROSODY_ERR_UNREGISTERED
	}
	return C.PROSODY_ERR_INTERNAL
}

func statusOfCode(code kafka.Code) C.prosody_status {
	switch code {
	case kafka.TimedOut:
		return C.PROSODY_ERR_TIMEOUT
	case kafka.TooLarge:
		return C.PROSODY_ERR_TOO_LARGE
	case kafka.BadTopic:
		return C.PROSODY_ERR_INVALID
	case kafka.Exists:
		return C.PROSODY_ERR_EXISTS
	case kafka.BadConfig:
		return C.PROSODY_ERR_CONFIG
	case kafka.Closed:
		return C.PROSODY_ERR_CLOSED
	}
	return C.PROSODY_ERR_KAFKA
}

// answer makes the completion of a call that came to err.
func answer(tag C.uint64_t, err error) *record.Completion {
	completion := &record.Completion{Tag: uint64(tag)}
	if err != nil {
		status := statusOf(err)
		completion.Status = int32(status)
		completion.Category = int32(C.shim_category(status))
		completion.Text = record.Clip(err.Error())
	}
	return completion
}

// emit writes text to a buffer of the host.
func emit(text []byte, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t) C.prosody_status {
	*size = C.size_t(len(text))
	if len(text) > int(capacity) {
		return C.PROSODY_SHORT
	}
	copy(unsafe.Slice((*byte)(buffer), len(text)), text)
	return C.PROSODY_OK
}

// view gives bytes of the host as they are: for use within the call only.
func view(b C.prosody_bytes) []byte {
	if b.data == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.data), int(b.size))
}

// text copies text of the host.
func text(b C.prosody_bytes) string { return string(view(b)) }

// borrow gives text of the host as it is: for use within the call only.
func borrow(b C.prosody_bytes) string { return unsafe.String((*byte)(b.data), int(b.size)) }
