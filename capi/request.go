package main

// #include "shim.h"
import "C"

import (
	"math"
	"sync"
	"time"
	"unsafe"

	"prosody/capi/internal/queue"
	"prosody/capi/internal/record"
	"prosody/core/fault"
	"prosody/core/request"
)

// asked are the requests of a client whose completion has not come, by the host's name.
type asked struct {
	mutex sync.Mutex
	calls map[question]*asking
}

// question is how the host names a request.
type question struct {
	queue *queue.Queue
	tag   uint64
}

// asking is a request; its name in the core comes a moment later than its begin.
type asking struct {
	end   func(*record.Completion)
	id    request.ID
	named bool
	ended bool
}

//export goClientRequest
func goClientRequest(c, q C.uintptr_t, tag C.uint64_t, asks *C.prosody_request, e *C.prosody_error) (status C.prosody_status) {
	name := "prosody_client_request"
	if asks.record.payload.data == nil {
		name = "prosody_client_request_excise"
	}
	defer guard(name, e, &status)
	p, d, status := pair(name, c, q, e)
	if status != C.PROSODY_OK {
		return status
	}
	ask := request.Ask{Timeout: time.Duration(min(int64(asks.timeout_ms), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond}
	if ask.Record, status = outgoing(asks.record, e); status != C.PROSODY_OK {
		return status
	}
	for _, one := range unsafe.Slice(asks.subsystems, int(asks.subsystems_count)) {
		if !readable(one) {
			return fail(e, C.PROSODY_ERR_ARGUMENT, "subsystems: NULL with a size, or over 1 GiB")
		}
		ask.Subsystems = append(ask.Subsystems, text(one))
	}
	if err := p.request(question{d.Queue, uint64(tag)}, ask); err != nil {
		return report(e, err)
	}
	return C.PROSODY_PENDING
}

// request makes a request, now or when the client is made.
func (p *peer) request(by question, ask request.Ask) error {
	one := &asking{end: func(c *record.Completion) { by.queue.Push(c) }}
	p.mutex.Lock()
	if p.settled {
		p.mutex.Unlock()
		if p.core == nil {
			return p.failed
		}
		return p.ask(by, one, ask)
	}
	defer p.mutex.Unlock()
	ask.Record = ask.Record.Owned()
	p.waiting = append(p.waiting, func(err error) {
		if err == nil {
			err = p.ask(by, one, ask)
		}
		if err != nil {
			one.end(answer(C.uint64_t(by.tag), err))
		}
	})
	return nil
}

func (p *peer) ask(by question, one *asking, ask request.Ask) error {
	p.asked.add(by, one)
	id, err := p.core.Request(ask, func(result request.Result) {
		if p.asked.end(by, one) {
			one.end(gathered(by.tag, result))
		}
	})
	if err != nil {
		p.asked.end(by, one)
		return err
	}
	if p.asked.name(one, id) {
		p.core.Abandon(id)
	}
	return nil
}

// gathered makes the completion of a request.
func gathered(tag uint64, result request.Result) *record.Completion {
	if result.Err != nil {
		return answer(C.uint64_t(tag), result.Err)
	}
	for i := range result.Answers {
		switch one := &result.Answers[i]; one.Kind {
		case request.Timeout:
			one.Text = "no response arrived before the deadline"
		case request.Format:
			one.Text = "the responder answered in another format"
		case request.Malformed:
			one.Text = "the response did not decode"
		}
	}
	return &record.Completion{Tag: tag, Value: int64(len(result.Answers)), Data: record.Answers(result.Answers)}
}

//export goClientAbandon
func goClientAbandon(c, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_client_abandon"
	defer guard(name, e, &status)
	p, d, status := pair(name, c, q, e)
	if status != C.PROSODY_OK {
		return status
	}
	one := p.asked.find(question{d.Queue, uint64(tag)})
	if one == nil {
		return C.PROSODY_ABSENT
	}
	if one.named {
		p.core.Abandon(one.id)
	}
	one.end(answer(tag, fault.New(fault.Cancelled, "the request was given up")))
	return C.PROSODY_OK
}

func (a *asked) add(by question, one *asking) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.calls == nil {
		a.calls = map[question]*asking{}
	}
	a.calls[by] = one
}

// name tells what the core calls a request. True: it was given up meanwhile, or has ended.
func (a *asked) name(one *asking, id request.ID) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	one.id, one.named = id, true
	return one.ended
}

// end ends a request, once. False: it has ended already.
func (a *asked) end(by question, one *asking) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if one.ended {
		return false
	}
	one.ended = true
	if a.calls[by] == one {
		delete(a.calls, by)
	}
	return true
}

// find ends the request of a name, and gives it; nil when there is none.
func (a *asked) find(by question) *asking {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	one := a.calls[by]
	if one == nil {
		return nil
	}
	one.ended = true
	delete(a.calls, by)
	found := *one
	return &found
}
