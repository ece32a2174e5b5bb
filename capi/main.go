// Package main is the C library. It owns the boundary: handles, queues, invocations in
// the host's hands, errors; no logic of Kafka.
//
// It upholds I5: Go holds no function pointer of the host, and no thread of Go calls
// into it; what reaches the host waits in a queue. The exported functions are in C
// (api.c, dispatch.c, guard.c, status.c); they check what they can and enter Go by the
// functions here, whose names the linker hides. Each of these, and each goroutine
// started here, recovers from panics and then poisons the library.
package main

// #cgo CFLAGS: -I${SRCDIR}/../include -std=gnu11 -Wall -Wextra -fexceptions
// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"prosody/capi/internal/handle"
	"prosody/capi/internal/keyed"
	"prosody/capi/internal/queue"
	"prosody/capi/internal/record"
	"prosody/capi/internal/slot"
	"prosody/core/mock"
	"prosody/core/observe/metric"
	answers "prosody/core/peer"
)

func main() {}

// The kinds of handle, as the counters name them.
const (
	kindConfig = "config"
	kindQueue  = "queue"
	kindClient = "client"
	kindAdmin  = "admin"
	kindReader = "reader"
)

// process is all that the library keeps for the process.
type process struct {
	handles  *handle.Table
	slots    *slot.Table
	keyed    *keyed.Table
	mocks    *mock.Worlds      // of clients in mock mode
	peers    *answers.Exchange // the way of answers between them
	metrics  *metric.Registry  // of all clients
	poisoned atomic.Pointer[string]

	mutex   sync.Mutex
	queues  map[*queue.Queue]struct{} // those with a handle
	clients map[*peer]struct{}        // those that are not closed

	telemetry telemetry
}

// library is the one state of a process: the host names nothing but handles.
var library = &process{
	handles: handle.New(),
	slots:   slot.New(),
	keyed:   keyed.New(),
	mocks:   mock.NewWorlds(),
	peers:   answers.NewExchange(),
	metrics: metric.New(),
	queues:  map[*queue.Queue]struct{}{},
	clients: map[*peer]struct{}{},
}

// refusal is why the library refuses work; empty when it does not.
func (s *process) refusal() string {
	if text := s.poisoned.Load(); text != nil {
		return *text
	}
	return ""
}

// poison makes the library refuse work from now on and says so once in each queue.
// Clients leave their groups, so that other members take over.
func (s *process) poison(where string, fault any) {
	text := fmt.Sprintf("fault in %s: %v", where, fault)
	if !s.poisoned.CompareAndSwap(nil, &text) {
		return
	}
	whole := record.Clip(text + "\n" + string(debug.Stack()))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for q := range s.queues {
		q.Fatal(whole)
	}
	s.slots.Fail(nil, text)
	for p := range s.clients {
		s.spawn("shutdown", func() { _ = p.shutdown(context.Background()) })
	}
}

// spawn runs a task that ends by itself.
func (s *process) spawn(name string, task func()) {
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				s.poison(name, fault)
			}
		}()
		task()
	}()
}

// guard is deferred by each function that C calls.
func guard(name string, e *C.prosody_error, status *C.prosody_status) {
	if fault := recover(); fault != nil {
		library.poison(name, fault)
		*status = refuse(e)
	}
}

// enter begins a call: false when the library refuses it.
func enter(name string) bool {
	if library.poisoned.Load() != nil {
		return false
	}
	inject(name)
	return true
}

// refuse is the error of a poisoned library.
func refuse(e *C.prosody_error) C.prosody_status {
	return fail(e, C.PROSODY_ERR_POISONED, "the library refuses work: "+library.refusal())
}
