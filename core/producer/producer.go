// Package producer owns the sending of records: what may be sent, that a send ends in
// time and once, and that an event with an id is sent once.
//
// It upholds I8 (each send ends by its acknowledgement, an error or its deadline) and
// I4 (what is on its way and what is remembered are bounded by callers and by a cache).
package producer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"prosody/core/clock"
	"prosody/core/deadline"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
	"prosody/core/tally"
)

// Options says how to send.
type Options struct {
	Cluster     kafka.Cluster
	Servers     []string
	Properties  map[string]string
	Source      string        // value of the source-system header
	SendTimeout time.Duration // for the whole send with its acknowledgement; 0: none
	Cache       int           // events remembered against duplicates; 0: none
	Clock       clock.Clock
	Dates       clock.Clock   // tells the timestamps of records; nil: Clock
	Tracer      *trace.Tracer // nil: no spans
	Log         *slog.Logger  // for the client library's own lines; nil: none
	// Sent, when set, hears of each record that was written. It must not block.
	Sent func(record *kafka.Record, partition int32, offset int64)
}

// Outgoing is a record to send.
type Outgoing struct {
	Topic   string
	Key     string
	Payload []byte // JSON; nil makes an excise record
	Headers []kafka.Header
	// Reply, when set, makes the record a request. It is sent also when the payload's id
	// was sent before: without the record nobody could answer.
	Reply *event.Reply
	// Cause is the span that the record belongs to; none: what its headers say.
	Cause trace.Context
	// Raw sends the record as it is: no check but the topic's, no header added, no
	// look for duplicates. It is for copies of received records.
	Raw bool
	// Keyless gives a raw record a null key.
	Keyless bool
}

// Sent is the end of a send. Offset and Partition are -1 for a duplicate, which was
// not sent again.
type Sent struct {
	Partition int32
	Offset    int64
	Err       *fault.Error
}

// Stats is what a producer has counted.
type Stats struct {
	Pending    int64 `json:"pending"`
	Sent       int64 `json:"sent"`
	Failed     int64 `json:"failed"`
	Duplicates int64 `json:"duplicates"`
	Timeouts   int64 `json:"timeouts"`
	Late       int64 `json:"late"` // reports that came after the time-out
}

// Done is the label of sends that succeeded.
const Done = "done"

// Producer sends records. It is safe for use by many goroutines.
type Producer struct {
	options   Options
	inner     kafka.Producer
	source    []byte
	deadlines *deadline.Queue[*send] // all sends that have not ended
	known     *memory
	backlog   backlog
	closing   sync.Once
	closed    chan struct{}
	result    error

	pending, sent, failed, duplicates, timeouts, late atomic.Int64

	times tally.Family[string]
}

// send is one record on its way.
type send struct {
	entry  deadline.Entry[*send]
	began  time.Time
	record kafka.Record
	inline [4]kafka.Header // room for the usual few headers
	done   func(Sent)
	span   trace.Span
	flight *flight // of a record with an id
}

// New connects a producer.
func New(options Options) (*Producer, error) {
	if options.Source == "" {
		return nil, fault.New(fault.Config, "source_system: must be set, since each record names its sender")
	}
	if options.Dates == nil {
		options.Dates = options.Clock
	}
	inner, err := options.Cluster.Producer(kafka.ProducerConfig{
		Servers:     options.Servers,
		SendTimeout: options.SendTimeout,
		Properties:  options.Properties,
		OnLog:       library(options.Log),
	})
	if err != nil {
		return nil, Fault(err, "producer")
	}
	p := &Producer{
		options: options,
		inner:   inner,
		source:  []byte(options.Source),
		known:   newMemory(options.Cache),
		closed:  make(chan struct{}),
	}
	p.deadlines = deadline.New(options.Clock, options.SendTimeout, p.expire)
	return p, nil
}

// Send hands a record over; its bytes are copied before Send returns. A refusal is
// returned at once as a *fault.Error, and then done is not called. Otherwise done is
// called exactly once, perhaps before Send returns; it must not block or panic.
//
// The headers on the wire are the caller's in order, those of Reply, then source-system. The trace
// context that goes out is that of the send's span, else of Cause, and replaces the
// caller's; without either, the first traceparent of the caller goes out.
func (p *Producer) Send(o Outgoing, done func(Sent)) error {
	id, hasID, err := check(&o)
	if err != nil {
		return err
	}
	s := p.copy(&o)
	s.done = p.traced(s, done)
	role := leader
	if hasID && p.known.sent != nil {
		role = p.known.enter(s, p.known.digest(o.Topic, o.Key, id), p.begin)
	} else if !p.begin(s) {
		role = refused
	}
	switch role {
	case refused:
		s.span.Fail(errClosed(o.Topic))
		return errClosed(o.Topic)
	case duplicate:
		p.duplicates.Add(1)
		s.done(Sent{Partition: -1, Offset: -1})
		return nil
	case follower:
		return nil
	}
	refusal := p.hand(s)
	if refusal == nil {
		return nil
	}
	returned := p.forget(s)
	p.land(s, false)
	if returned {
		p.failed.Add(1)
		s.span.Fail(refusal)
		return refusal
	}
	return nil // its deadline was faster
}

// Close waits for what is on its way, at most until ctx ends; what is left then ends
// with an error. All callers wait for the same end. It must not be called by a done.
func (p *Producer) Close(ctx context.Context) error {
	p.closing.Do(func() {
		defer close(p.closed)
		p.known.close()
		p.result = p.inner.Close(ctx)
		for _, s := range p.deadlines.Close() {
			p.pending.Add(-1)
			p.failed.Add(1)
			s.done(Sent{Partition: -1, Offset: -1, Err: errClosed(s.record.Topic)})
		}
	})
	<-p.closed
	return p.result
}

// Stats reads the counters.
func (p *Producer) Stats() Stats {
	return Stats{
		Pending:    p.pending.Load(),
		Sent:       p.sent.Load(),
		Failed:     p.failed.Load(),
		Duplicates: p.duplicates.Load(),
		Timeouts:   p.timeouts.Load(),
		Late:       p.late.Load(),
	}
}

// Times tells how long sends took, by their end: Done, or the kind of fault.
func (p *Producer) Times() map[string]tally.Durations { return p.times.Snapshot() }

// delivered takes the adapter's report.
func (p *Producer) delivered(s *send, report kafka.Delivery) {
	result := Sent{Partition: report.Partition, Offset: report.Offset}
	if report.Err != nil {
		result = Sent{Partition: -1, Offset: -1, Err: Fault(report.Err, "send to topic "+quote(s.record.Topic))}
	}
	p.settle(s, result)
	p.flush()
}

// settle ends a send that was handed over, then those that wait for its result.
func (p *Producer) settle(s *send, result Sent) {
	ok := result.Err == nil
	if ok {
		p.known.learn(s)
		if p.options.Sent != nil {
			p.options.Sent(&s.record, result.Partition, result.Offset)
		}
	}
	if !p.finish(s, result) {
		p.late.Add(1)
	} else if ok {
		p.sent.Add(1)
	} else {
		p.failed.Add(1)
	}
	p.land(s, ok)
}

// land ends a flight: its followers are duplicates of a success; after a failure one
// of them is sent in its place.
func (p *Producer) land(s *send, ok bool) {
	for s != nil && s.flight != nil {
		if ok {
			for _, follower := range p.known.followers(s.flight) {
				if p.finish(follower, Sent{Partition: -1, Offset: -1}) {
					p.duplicates.Add(1)
				}
			}
			return
		}
		s = p.known.promote(s.flight)
		if s == nil {
			return
		}
		refusal := p.hand(s)
		if refusal == nil {
			return
		}
		p.failed.Add(1)
		p.finish(s, Sent{Partition: -1, Offset: -1, Err: refusal})
	}
}

// begin starts the time of a send; false when the producer is closed.
func (p *Producer) begin(s *send) bool {
	p.pending.Add(1)
	s.began = time.Now()
	if p.deadlines.Add(&s.entry) {
		return true
	}
	p.pending.Add(-1)
	return false
}

// finish calls done unless the send has ended already.
func (p *Producer) finish(s *send, result Sent) bool {
	if !p.forget(s) {
		return false
	}
	p.took(s, result)
	s.done(result)
	return true
}

// took counts how long a send took, unless it was a duplicate of another.
func (p *Producer) took(s *send, result Sent) {
	switch {
	case result.Err != nil:
		p.times.Of(result.Err.Kind.String()).Note(time.Since(s.began))
	case result.Partition >= 0:
		p.times.Of(Done).Note(time.Since(s.began))
	}
}

func (p *Producer) forget(s *send) bool {
	if !p.deadlines.Remove(&s.entry) {
		return false
	}
	p.pending.Add(-1)
	return true
}

// expire answers a caller whose time is over. A flight goes on until the adapter
// reports, so that a late success is known to be one.
func (p *Producer) expire(s *send) {
	p.pending.Add(-1)
	p.timeouts.Add(1)
	if s.flight != nil {
		p.known.leave(s)
	}
	problem := fault.New(fault.Timeout,
		"send to topic %s timed out after %s (send_timeout); whether the record was written is not known",
		quote(s.record.Topic), p.options.SendTimeout)
	if inner, ok := p.inner.(troubled); ok {
		if trouble := inner.Trouble(); trouble != "" {
			problem.Text += "; the last trouble of the client: " + trouble
		}
	}
	result := Sent{Partition: -1, Offset: -1, Err: problem}
	p.took(s, result)
	s.done(result)
}

// Trouble tells why nothing gets through to the broker; empty: it does, or nothing was
// tried.
func (p *Producer) Trouble() string {
	if inner, ok := p.inner.(troubled); ok {
		return inner.Trouble()
	}
	return ""
}

// troubled is an adapter that tells why nothing gets through; empty: it knows of nothing.
type troubled interface{ Trouble() string }

// library passes the client library's lines on; its levels are those of syslog.
func library(log *slog.Logger) func(level int, text string) {
	if log == nil {
		return nil
	}
	return func(level int, text string) {
		severity := slog.LevelDebug
		switch {
		case level <= 3:
			severity = slog.LevelError
		case level == 4:
			severity = slog.LevelWarn
		case level <= 6:
			severity = slog.LevelInfo
		}
		log.Log(context.Background(), severity, text)
	}
}
