// Package request owns the requests of a client that have not ended: each ends once, by
// the answers of all subsystems, its deadline, an error of the send, its caller, or the
// end of the client.
//
// It upholds I8 (a request ends at its deadline at the latest) and I4: the requests that
// wait are limited, and what is remembered of others is too.
package request

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/observe/trace"
	"prosody/core/peer"
	"prosody/core/producer"
	"prosody/core/tally"
)

// most is how many requests may wait at once.
const most = 65536

// Kind says how a subsystem answered. The numbers are those of the C ABI.
type Kind uint8

// The kinds of answer.
const (
	Success   Kind = iota + 1
	Handler        // the handler failed; Text tells
	Timeout        // no answer before the deadline
	Format         // in a format other than JSON
	Malformed      // not JSON
)

// Answer is what came of one subsystem.
type Answer struct {
	Subsystem string
	Kind      Kind
	Value     []byte // JSON, of a success
	Text      string // of a failure of the handler
}

// Ask is what to request.
type Ask struct {
	Record     producer.Outgoing
	Subsystems []string
	Timeout    time.Duration
}

// Result is the end of a request: an answer for each subsystem, or an error of the whole.
type Result struct {
	Answers []Answer
	Err     *fault.Error
}

// Link is how answers come. Reach makes this client reachable and may wait; Ready tells
// that there is nothing to wait for.
type Link interface {
	ID() peer.ID
	Ready() bool
	Reach(ctx context.Context) error
}

// Options say how to request.
type Options struct {
	Send  func(producer.Outgoing, func(producer.Sent)) error
	Link  Link
	Clock clock.Clock
	// Tracer makes a span of each request; nil: none.
	Tracer *trace.Tracer
	Limit  int             // of requests that wait; 0: 65,536
	Fault  func(err error) // hears of a panic
}

// Requester makes requests. It is safe for use by many goroutines.
type Requester struct {
	options Options
	life    context.Context
	cut     context.CancelFunc
	running sync.WaitGroup // what waits for the link, or is about to call back

	mutex  sync.Mutex
	table  *table
	calls  map[ID]*call
	closed bool

	counts counts
}

// call is what belongs to a request that waits.
type call struct {
	done  func(Result)
	span  trace.Span
	timer clock.Timer
	begun time.Time
}

// New makes a requester.
func New(options Options) *Requester {
	if options.Limit <= 0 {
		options.Limit = most
	}
	r := &Requester{options: options, table: newTable(), calls: map[ID]*call{}}
	r.life, r.cut = context.WithCancel(context.Background())
	return r
}

// Request sends a record and gathers the answers to it. An error means that nothing was
// sent, and done is not called. Otherwise done is called once, perhaps before Request
// returns, unless Abandon was faster; it must not block. Bytes are copied before Request
// returns.
func (r *Requester) Request(ask Ask, done func(Result)) (ID, error) {
	names, err := check(ask)
	if err != nil {
		return ID{}, err
	}
	made, err := uuid.NewV7()
	if err != nil {
		return ID{}, fault.Wrap(fault.Internal, err, "request")
	}
	id, now := ID(made), r.options.Clock.Now()
	ask.Record.Reply = &event.Reply{Request: id, Peer: r.options.Link.ID(), Deadline: now.Add(ask.Timeout), Awaited: names}
	span := r.begin(&ask, made, names)
	if err := r.open(id, names, now, ask.Timeout, span, done); err != nil {
		span.Fail(err)
		return ID{}, err
	}
	if r.options.Link.Ready() {
		if err := r.send(id, ask.Record); err != nil {
			if r.take(id) == nil {
				return id, nil // its end was faster
			}
			span.Fail(err)
			return ID{}, err
		}
	} else {
		ask.Record = ask.Record.Owned()
		if !r.enter() {
			return id, nil // Close has ended the request
		}
		go func() {
			defer r.running.Done()
			defer r.guard()
			r.reach(id, ask)
		}()
	}
	if ask.Timeout == 0 {
		r.expire(id)
	}
	return id, nil
}

// begin begins the span of a request, which its record belongs to.
func (r *Requester) begin(ask *Ask, id uuid.UUID, names []string) trace.Span {
	if r.options.Tracer == nil {
		return trace.Span{}
	}
	record := &ask.Record
	cause := trace.First(record.Cause, trace.Of(record.Headers))
	span := r.options.Tracer.Request(cause, record.Topic, record.Key, uuid.UUID(r.options.Link.ID()).String(), id.String(), names)
	record.Cause = trace.First(span.Context(), record.Cause)
	return span
}

// open begins a request and its time.
func (r *Requester) open(id ID, names []string, now time.Time, timeout time.Duration, span trace.Span, done func(Result)) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case r.closed:
		return fault.New(fault.Closed, "the requester is shutting down")
	case len(r.calls) >= r.options.Limit:
		r.counts.refused.Add(1)
		return fault.New(fault.State, "%d requests wait for their answers; more are not possible", len(r.calls))
	}
	r.table.open(id, names)
	one := &call{done: done, span: span, begun: now}
	r.calls[id] = one
	if timeout > 0 {
		r.running.Add(1)
		one.timer = r.options.Clock.AfterFunc(timeout, func() {
			defer r.running.Done()
			defer r.guard()
			r.expire(id)
		})
	}
	r.counts.requests.Add(1)
	return nil
}

// guard is deferred where a goroutine begins.
func (r *Requester) guard() {
	if thrown := recover(); thrown != nil {
		err := fmt.Errorf("a request: %v\n%s", thrown, debug.Stack())
		if r.options.Fault == nil {
			panic(err)
		}
		r.options.Fault(err)
	}
}

// reach makes the client reachable, then sends. A request that is over meanwhile is not
// sent, but for one that had no time to wait.
func (r *Requester) reach(id ID, ask Ask) {
	if err := r.options.Link.Reach(r.life); err != nil {
		r.fail(id, producer.Fault(err, "request"))
		return
	}
	if ask.Timeout > 0 && !r.waits(id) {
		return
	}
	if err := r.send(id, ask.Record); err != nil {
		r.fail(id, producer.Fault(err, "request"))
	}
}

func (r *Requester) send(id ID, record producer.Outgoing) error {
	return r.options.Send(record, func(sent producer.Sent) {
		if sent.Err != nil {
			r.fail(id, sent.Err)
		}
	})
}

// Deliver takes an answer that came for this client.
func (r *Requester) Deliver(answer peer.Answer) peer.Verdict {
	made := read(answer)
	r.mutex.Lock()
	verdict, answers := r.table.settle(ID(answer.Request), made)
	var one *call
	if answers != nil {
		one = r.close(ID(answer.Request))
	}
	r.mutex.Unlock()
	r.counts.verdict(verdict)
	if one != nil {
		r.finish(one, Result{Answers: answers})
	}
	switch verdict {
	case Accepted:
		return peer.Accepted
	case Duplicate:
		return peer.Duplicate
	}
	return peer.Refused
}

// read judges the content of an answer.
func read(answer peer.Answer) Answer {
	made := Answer{Subsystem: answer.Subsystem}
	switch {
	case answer.Error != nil:
		made.Kind, made.Text = Handler, answer.Error.Text
	case answer.Format != peer.JSON:
		made.Kind = Format
	default:
		if _, err := event.CheckPayload(answer.Payload); err != nil {
			made.Kind = Malformed
			break
		}
		made.Kind, made.Value = Success, answer.Payload
	}
	return made
}

// Abandon ends a request whose caller has gone; done is not called any more. False: it
// is over already.
func (r *Requester) Abandon(id ID) bool {
	one := r.take(id)
	if one == nil {
		return false
	}
	one.span.End("abandoned")
	r.counts.abandoned.Add(1)
	return true
}

// expire ends a request whose time is over.
func (r *Requester) expire(id ID) {
	r.mutex.Lock()
	answers := r.table.expire(id)
	one := r.close(id)
	r.mutex.Unlock()
	if one != nil {
		r.finish(one, Result{Answers: answers})
	}
}

// fail ends a request whose record was not sent.
func (r *Requester) fail(id ID, err *fault.Error) {
	if one := r.take(id); one != nil {
		r.counts.failed.Add(1)
		one.span.Fail(err)
		one.done(Result{Err: err})
	}
}

func (r *Requester) finish(one *call, result Result) {
	took := r.options.Clock.Now().Sub(one.begun)
	r.counts.ended(result.Answers, took)
	if one.span.Context().IsValid() {
		one.span.Answered(summed(result.Answers, took))
	}
	one.done(result)
}

// summed is what the span of a request tells of its answers.
func summed(answers []Answer, took time.Duration) trace.Answers {
	made := trace.Answers{Failures: map[string]string{}, Took: took}
	for i := range answers {
		switch one := &answers[i]; one.Kind {
		case Success:
			made.Succeeded++
		case Timeout:
			made.Missing = append(made.Missing, one.Subsystem)
		case Handler:
			made.Failures[one.Subsystem] = "handler"
		case Format:
			made.Failures[one.Subsystem] = "format"
		default:
			made.Failures[one.Subsystem] = "malformed"
		}
	}
	return made
}

// take ends a request without its answers; nil: it is over already.
func (r *Requester) take(id ID) *call {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.table.end(id)
	return r.close(id)
}

// close needs the lock.
func (r *Requester) close(id ID) *call {
	one := r.calls[id]
	if one != nil {
		r.still(one)
	}
	delete(r.calls, id)
	return one
}

// still stops the timer of a call; one that runs already ends by itself.
func (r *Requester) still(one *call) {
	if one.timer != nil && one.timer.Stop() {
		r.running.Done()
	}
}

// enter is called before a goroutine begins: false once Close may no longer wait for it.
func (r *Requester) enter() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.closed {
		r.running.Add(1)
	}
	return !r.closed
}

func (r *Requester) waits(id ID) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.calls[id] != nil
}

// Close ends all requests with an error, and refuses more. Nothing of them runs after it.
func (r *Requester) Close() {
	r.mutex.Lock()
	r.closed = true
	left := r.calls
	for id := range left {
		r.table.end(id)
	}
	for _, one := range left {
		r.still(one)
	}
	r.calls = map[ID]*call{}
	r.mutex.Unlock()
	r.cut()
	for _, one := range left {
		r.counts.failed.Add(1)
		err := fault.New(fault.Closed, "the client shut down before all answers came; whether the record is handled is not known")
		one.span.Fail(err)
		one.done(Result{Err: err})
	}
	r.running.Wait()
}

// counts is what a requester has counted.
type counts struct {
	requests, abandoned, refused, failed        atomic.Int64
	succeeded, rejected, timeouts, unreadable   atomic.Int64
	accepted, duplicate, foreign, late, unknown atomic.Int64
	microseconds                                atomic.Int64
	times                                       tally.Histogram
}

func (c *counts) verdict(verdict Verdict) {
	switch verdict {
	case Accepted:
		c.accepted.Add(1)
	case Duplicate:
		c.duplicate.Add(1)
	case Foreign:
		c.foreign.Add(1)
	case Late:
		c.late.Add(1)
	case Unknown:
		c.unknown.Add(1)
	}
}

func (c *counts) ended(answers []Answer, took time.Duration) {
	c.microseconds.Add(took.Microseconds())
	c.times.Note(took)
	for i := range answers {
		switch answers[i].Kind {
		case Success:
			c.succeeded.Add(1)
		case Handler:
			c.rejected.Add(1)
		case Timeout:
			c.timeouts.Add(1)
		default:
			c.unreadable.Add(1)
		}
	}
}

// Stats is what a requester can tell about itself. All but Pending only grow.
type Stats struct {
	Pending   int   `json:"pending"`
	Requests  int64 `json:"requests"`
	Abandoned int64 `json:"abandoned"`
	Refused   int64 `json:"refused"` // too many waited
	Failed    int64 `json:"failed"`  // not sent, or ended by the end of the client
	// Outcomes, one for each subsystem of a request that ended.
	Successes     int64 `json:"successes"`
	HandlerErrors int64 `json:"handler_errors"`
	Timeouts      int64 `json:"timeouts"`
	Unreadable    int64 `json:"unreadable"` // of another format, or malformed
	// Answers that came.
	Accepted  int64 `json:"accepted"`
	Duplicate int64 `json:"duplicate"`
	Foreign   int64 `json:"foreign"`
	Late      int64 `json:"late"`
	Unknown   int64 `json:"unknown"`
	// Microseconds is the time that requests with outcomes took, together.
	Microseconds int64 `json:"microseconds"`
}

// Times tells how long requests with outcomes took.
func (r *Requester) Times() tally.Durations { return r.counts.times.Snapshot() }

// Stats reads the counters.
func (r *Requester) Stats() Stats {
	r.mutex.Lock()
	pending := len(r.calls)
	r.mutex.Unlock()
	c := &r.counts
	return Stats{
		Pending: pending, Requests: c.requests.Load(), Abandoned: c.abandoned.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
		Successes: c.succeeded.Load(), HandlerErrors: c.rejected.Load(), Timeouts: c.timeouts.Load(), Unreadable: c.unreadable.Load(),
		Accepted: c.accepted.Load(), Duplicate: c.duplicate.Load(), Foreign: c.foreign.Load(), Late: c.late.Load(), Unknown: c.unknown.Load(),
		Microseconds: c.microseconds.Load(),
	}
}
