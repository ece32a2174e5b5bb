package main

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.opentelemetry.io/contrib/bridges/otelslog"

	"prosody/capi/internal/lines"
	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/observe/export"
	"prosody/core/observe/trace"
)

// exporting bounds a flush and the end of the export.
const exporting = 5 * time.Second

// telemetry is the export of the process, which its first client builds.
type telemetry struct {
	mutex  sync.Mutex
	built  *export.Export
	tracer atomic.Pointer[trace.Tracer] // nil: no traces are exported
}

// observe builds the export, once. Log lines may not pass yet: what is wrong with the
// settings is given to tell.
func (s *process) observe(environ config.Map, tell func(error)) *export.Export {
	t := &s.telemetry
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.built != nil {
		return t.built
	}
	err := export.Adopt(environ)
	made, wrong := export.New(context.Background(), s.mourn, s.metrics)
	if err = errors.Join(err, wrong); err != nil {
		tell(err)
	}
	t.tracer.Store(trace.New(made.Tracer(), "", ""))
	t.built = made
	return made
}

// mourn tells a client's log of an export that failed; after the last client, standard error.
func (s *process) mourn(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for p := range s.clients {
		if log := p.log.Load(); log != nil {
			log.Warn("telemetry was not exported", "target", "prosody.telemetry", "error", err)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "prosody: telemetry was not exported: %v\n", err)
}

// logger makes the logger of a client: its lines go to the host, and to the collector.
func (p *peer) logger(exported *export.Export) *slog.Logger {
	var beside slog.Handler
	if logs := exported.Logs(); logs != nil {
		beside = otelslog.NewHandler(export.Scope, otelslog.WithLoggerProvider(logs))
	}
	return slog.New(lines.New(lines.Parse(p.plan.Log()), p.print, beside))
}

// entered gives the span that the calling thread of the host has entered, or none.
func entered() trace.Context {
	if atomic.LoadInt32((*int32)(unsafe.Pointer(&C.shim_traced))) == 0 {
		return trace.Context{}
	}
	span := C.shim_entered()
	if span == nil || span.parent_size == 0 {
		return trace.Context{}
	}
	return trace.Parse(C.GoStringN(&span.parent[0], C.int(span.parent_size)), C.GoStringN(&span.state[0], C.int(span.state_size)))
}

// settle runs a call of the export that waits for the collector.
func settle(name string, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error, call func(*export.Export, context.Context) error) C.prosody_status {
	if !enter(name) {
		return refuse(e)
	}
	queue := queueOf(q)
	if queue == nil {
		return stale(e, kindQueue)
	}
	t := &library.telemetry
	t.mutex.Lock()
	built := t.built
	t.mutex.Unlock()
	if built == nil {
		queue.Push(answer(tag, nil))
		return C.PROSODY_PENDING
	}
	library.spawn(name, func() {
		ctx, cancel := context.WithTimeout(context.Background(), exporting)
		defer cancel()
		err := call(built, ctx)
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded):
			err = fault.Wrap(fault.Timeout, err, "telemetry was not exported in time")
		default:
			err = fault.Wrap(fault.Internal, err, "telemetry was not exported")
		}
		queue.Push(answer(tag, err))
	})
	return C.PROSODY_PENDING
}

//export goTelemetryFlush
func goTelemetryFlush(q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_telemetry_flush"
	defer guard(name, e, &status)
	return settle(name, q, tag, e, (*export.Export).Flush)
}

//export goTelemetryShutdown
func goTelemetryShutdown(q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_telemetry_shutdown"
	defer guard(name, e, &status)
	return settle(name, q, tag, e, (*export.Export).Shutdown)
}
