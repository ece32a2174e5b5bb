// Package respond owns the answers of a subsystem: what the end of an event says to the
// sender that waits, and the delivery of it, beside the event's own way.
//
// It upholds I2 towards the sender (a success is said after the event's effects are
// durable) and I4: the answers on their way are limited, in all and for one client, and
// each is given up soon after its deadline.
package respond

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/peer"
	"prosody/core/pipeline"
	"prosody/core/pipeline/retry"
)

// The limits of what is on its way.
const (
	maxAnswers = 4096
	maxOfOne   = 1024
	maxBytes   = 64 << 20
)

// Of one delivery. The clock of who asked may be ahead or behind by the grace.
const (
	grace     = 30 * time.Second
	leastTime = time.Second
	mostTime  = 30 * time.Second
	base      = 10 * time.Millisecond
	mostDelay = time.Second
)

// maxError bounds the text of a failure.
const maxError = 64 << 10

// Options say who answers, and how.
type Options struct {
	Subsystem string
	// Deliver tries once. Its error is a *peer.Failure.
	Deliver func(ctx context.Context, answer peer.Answer) error
	Clock   clock.Clock
	Log     *slog.Logger
	Fault   func(err error) // hears of a panic
}

// Responder sends answers. It is safe for use by many goroutines.
type Responder struct {
	options Options
	backoff retry.Backoff
	life    context.Context
	cut     context.CancelFunc

	mutex   sync.Mutex
	closed  bool
	answers int
	bytes   int
	of      map[peer.ID]int
	idle    sync.WaitGroup

	counts counts
}

// New makes a responder.
func New(options Options) *Responder {
	r := &Responder{options: options, backoff: retry.Backoff{Base: base, Max: mostDelay}, of: map[peer.ID]int{}}
	r.life, r.cut = context.WithCancel(context.Background())
	return r
}

// Ask wraps the host's handler: it learns whether the sender waits for its response.
func (r *Responder) Ask(host pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		invocation.Asked = invocation.Event.Reply.Awaits(r.options.Subsystem)
		return host.Handle(ctx, invocation)
	})
}

// Wrap answers what leaves the durable layer. It adds no wait.
func (r *Responder) Wrap(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		outcome := next.Handle(ctx, invocation)
		reply := invocation.Event.Reply
		if reply == nil || outcome.Silent || !reply.Awaits(r.options.Subsystem) {
			return outcome
		}
		answer := peer.Answer{Target: reply.Peer, Request: reply.Request, Subsystem: r.options.Subsystem}
		switch {
		case outcome.Class == pipeline.Success && outcome.Failed == 0:
			answer.Format, answer.Payload = peer.JSON, outcome.Response
			if answer.Payload == nil {
				answer.Payload = []byte("null")
			}
		case outcome.Class == pipeline.Success:
			answer.Error = failure(outcome.Failed, outcome.Text)
		case outcome.Class == pipeline.Transient && invocation.Leaving.Err() != nil:
			return outcome // the next owner decides
		case outcome.Class == pipeline.Transient, outcome.Class == pipeline.Permanent:
			answer.Error = failure(outcome.Class, outcome.Text)
		default:
			return outcome
		}
		r.send(invocation.Event, answer)
		return outcome
	})
}

func failure(class pipeline.Class, text string) *peer.Error {
	made := &peer.Error{Category: peer.Transient, Text: pipeline.Clip(text, maxError)}
	if class == pipeline.Permanent {
		made.Category = peer.Permanent
	}
	return made
}

// send begins a delivery, when there is room for one.
func (r *Responder) send(e *event.Event, answer peer.Answer) {
	now := r.options.Clock.Now()
	if now.After(e.Reply.Deadline.Add(grace)) {
		r.counts.expired.Add(1)
		return
	}
	if len(answer.Payload) > peer.MaxPayload {
		answer = peer.TooLong(answer)
		r.counts.oversized.Add(1)
	}
	if !r.enter(answer) {
		r.counts.dropped.Add(1)
		r.options.Log.Warn("answer dropped: too many are on their way", pipeline.Fields(e)...)
		return
	}
	left := min(max(e.Reply.Deadline.Sub(now), leastTime), mostTime)
	go func() {
		defer r.leave(answer)
		defer r.guard()
		r.deliver(e, answer, left)
	}()
}

// guard is deferred where a goroutine begins.
func (r *Responder) guard() {
	if thrown := recover(); thrown != nil {
		err := fmt.Errorf("an answer: %v\n%s", thrown, debug.Stack())
		if r.options.Fault == nil {
			panic(err)
		}
		r.options.Fault(err)
	}
}

// deliver tries until the answer is there, is not wanted, or its time is over.
func (r *Responder) deliver(e *event.Event, answer peer.Answer, left time.Duration) {
	ctx, cancel := context.WithTimeout(r.life, left)
	defer cancel()
	began := r.options.Clock.Now()
	for attempt := uint32(1); ; attempt++ {
		err := r.options.Deliver(ctx, answer)
		if err == nil {
			r.counts.delivered.Add(1)
			r.counts.microseconds.Add(r.options.Clock.Now().Sub(began).Microseconds())
			return
		}
		var failed *peer.Failure
		switch errors.As(err, &failed); {
		case failed != nil && failed.Kind == peer.TooLarge && answer.Error == nil:
			answer = peer.TooLong(answer)
			r.counts.oversized.Add(1)
			continue
		case failed != nil && failed.Kind != peer.Unreachable:
			r.counts.unwanted.Add(1)
			r.options.Log.Debug("answer is not wanted", r.fields(e, err)...)
			return
		}
		if clock.Sleep(ctx, r.options.Clock, r.backoff.Delay(attempt)) != nil {
			r.counts.failed.Add(1)
			r.options.Log.Warn("answer was not delivered", r.fields(e, err)...)
			return
		}
		r.counts.retried.Add(1)
	}
}

func (r *Responder) fields(e *event.Event, err error) []any {
	return append(pipeline.Fields(e), slog.String("requester", peer.ID(e.Reply.Peer).String()), slog.String("error", pipeline.Clip(err.Error(), 1024)))
}

// enter takes room for an answer.
func (r *Responder) enter(answer peer.Answer) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	size := len(answer.Payload)
	if r.closed || r.answers >= maxAnswers || r.bytes+size > maxBytes || r.of[answer.Target] >= maxOfOne {
		return false
	}
	r.answers++
	r.bytes += size
	r.of[answer.Target]++
	r.idle.Add(1)
	return true
}

func (r *Responder) leave(answer peer.Answer) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.answers--
	r.bytes -= len(answer.Payload)
	if r.of[answer.Target]--; r.of[answer.Target] == 0 {
		delete(r.of, answer.Target)
	}
	r.idle.Done()
}

// Close takes no more answers and waits for those on their way, until ctx ends; then
// they are given up.
func (r *Responder) Close(ctx context.Context) {
	r.mutex.Lock()
	r.closed = true
	r.mutex.Unlock()
	stop := context.AfterFunc(ctx, r.cut)
	defer stop()
	r.idle.Wait()
	r.cut()
}

type counts struct {
	delivered, retried, unwanted, failed, expired, dropped, oversized, microseconds atomic.Int64
}

// Stats is what a responder can tell about itself. All but Pending only grow.
type Stats struct {
	Pending   int   `json:"pending"`
	Delivered int64 `json:"delivered"`
	Retried   int64 `json:"retried"`
	Unwanted  int64 `json:"unwanted"`  // nobody waited any more
	Failed    int64 `json:"failed"`    // not delivered in time
	Expired   int64 `json:"expired"`   // too late to be tried
	Dropped   int64 `json:"dropped"`   // too many were on their way
	Oversized int64 `json:"oversized"` // replaced by a failure that names the size
	// Microseconds is the time that successful deliveries took, together.
	Microseconds int64 `json:"microseconds"`
}

// Stats reads the counters.
func (r *Responder) Stats() Stats {
	r.mutex.Lock()
	pending := r.answers
	r.mutex.Unlock()
	c := &r.counts
	return Stats{
		Pending: pending, Delivered: c.delivered.Load(), Retried: c.retried.Load(), Unwanted: c.unwanted.Load(), Failed: c.failed.Load(),
		Expired: c.expired.Load(), Dropped: c.dropped.Load(), Oversized: c.oversized.Load(), Microseconds: c.microseconds.Load(),
	}
}
