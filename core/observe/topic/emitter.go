// Package topic owns the telemetry records: what happened to each event, as JSON records
// of a topic that other services read.
//
// The chain and the producer tell an Emitter, which never makes them wait: a record waits
// in a queue of bounded length and bytes, and one that finds it full is dropped and
// counted. While the topic is not there, records are dropped at once.
package topic

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"prosody/core/clock"
	"prosody/core/kafka"
)

// Options say where the records go.
type Options struct {
	Cluster    kafka.Cluster
	Servers    []string
	Properties map[string]string
	Topic      string
	Clock      clock.Clock // tells when something happened
	Log        *slog.Logger
}

const (
	length  = 32768            // records that wait
	most    = 16 << 20         // bytes of them
	flying  = 32768            // records on their way to the broker
	timeout = 30 * time.Second // of a send
	mute    = 30 * time.Second // after a send to a topic that is not there
	seldom  = 30 * time.Second // between two lines of the log about what is dropped
)

// tuned are the properties of the producer: many records in few requests. The user's own
// win.
var tuned = map[string]string{
	"linger.ms": "1000", "batch.size": "4194304", "queue.buffering.max.kbytes": "131072", "compression.codec": "lz4",
	"max.in.flight.requests.per.connection": "1",
	"topic.metadata.propagation.max.ms":     "2000", // a topic that is not there is known soon
}

// Facts are what an emitter has counted. Each record that was told is in one of them, or
// waits.
type Facts struct {
	Waiting int   `json:"waiting"`
	Sent    int64 `json:"sent"`
	Dropped int64 `json:"dropped"` // too many waited, or the topic was not there
	Failed  int64 `json:"failed"`  // the broker did not take it
}

// Emitter sends telemetry records. A nil one drops all. It needs a Close.
type Emitter struct {
	options Options
	inner   kafka.Producer
	host    string

	queue chan *Record
	slots chan struct{} // one for each record on its way
	done  chan struct{} // closed: the loop is over

	mutex  sync.RWMutex // closed, against Tell
	closed bool

	bytes, taken, sent, dropped, failed atomic.Int64
	muted                               atomic.Int64 // until then, in Unix nanoseconds
	told                                atomic.Int64 // when the log was told last
}

// New makes an emitter.
func New(options Options) (*Emitter, error) {
	if options.Clock == nil {
		options.Clock = clock.Real{}
	}
	properties := maps.Clone(tuned)
	maps.Copy(properties, options.Properties)
	e := &Emitter{
		options: options, queue: make(chan *Record, length), slots: make(chan struct{}, flying),
		done: make(chan struct{}),
	}
	var err error
	if e.host, err = os.Hostname(); err != nil {
		e.host = "unknown"
	}
	e.inner, err = options.Cluster.Producer(kafka.ProducerConfig{
		Servers: options.Servers, SendTimeout: timeout, Properties: properties, Lossy: true,
		OnLog: func(level int, text string) { options.Log.Debug(text, "level", level) },
	})
	if err != nil {
		return nil, err
	}
	go e.loop()
	return e, nil
}

// Tell takes a record. It never waits.
func (e *Emitter) Tell(r *Record) {
	if e == nil {
		return
	}
	if r.Time.IsZero() {
		r.Time = e.options.Clock.Now()
	}
	if !e.take(r) {
		e.dropped.Add(1)
	}
}

func (e *Emitter) take(r *Record) bool {
	if e.silent() {
		return false
	}
	e.mutex.RLock()
	defer e.mutex.RUnlock()
	if e.closed || e.bytes.Load() > most {
		return false
	}
	size := r.size()
	e.bytes.Add(size)
	e.taken.Add(1)
	select {
	case e.queue <- r:
		return true
	default:
		e.taken.Add(-1)
		e.bytes.Add(-size)
		return false
	}
}

// silent tells whether the topic was not there a while ago.
func (e *Emitter) silent() bool {
	until := e.muted.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// loop sends what waits, until the queue is closed and empty.
func (e *Emitter) loop() {
	defer close(e.done)
	for r := range e.queue {
		e.send(r)
	}
}

// send hands a record to the producer, and waits while that is full: meanwhile the queue
// fills, and what finds it full is dropped.
func (e *Emitter) send(r *Record) {
	e.bytes.Add(-r.size())
	e.slots <- struct{}{}
	record := &kafka.Record{Topic: e.options.Topic, Key: []byte(r.Key), Value: r.encode(e.host)}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := e.inner.Produce(record, e.reported)
		if err == nil {
			return
		}
		if !is(err, kafka.Full) {
			e.reported(kafka.Delivery{Err: err})
			return
		}
		time.Sleep(wait)
	}
}

func is(err error, code kafka.Code) bool {
	var failure *kafka.Error
	return errors.As(err, &failure) && failure.Code == code
}

// reported takes the end of a send.
func (e *Emitter) reported(end kafka.Delivery) {
	<-e.slots
	if end.Err == nil {
		e.sent.Add(1)
		return
	}
	if is(end.Err, kafka.UnknownTopic) || is(end.Err, kafka.Denied) || is(end.Err, kafka.BadTopic) {
		e.muted.Store(time.Now().Add(mute).UnixNano())
	}
	e.failed.Add(1) // who sees the count finds the topic muted
	now, last := time.Now().UnixNano(), e.told.Load()
	if now-last >= int64(seldom) && e.told.CompareAndSwap(last, now) {
		e.options.Log.Warn("telemetry records are lost", "telemetry_topic", e.options.Topic, "error", end.Err,
			"failed", e.failed.Load(), "dropped", e.dropped.Load())
	}
}

// Snapshot reads the counters.
func (e *Emitter) Snapshot() Facts {
	if e == nil {
		return Facts{}
	}
	facts := Facts{Sent: e.sent.Load(), Dropped: e.dropped.Load(), Failed: e.failed.Load()}
	facts.Waiting = int(e.taken.Load() - facts.Sent - facts.Failed) // read last: none has ended that was not taken
	return facts
}

// Close sends what waits, at most until ctx ends. What is left is counted as failed, which is no
// error of who closes.
func (e *Emitter) Close(ctx context.Context) {
	if e == nil {
		return
	}
	e.mutex.Lock()
	if !e.closed {
		e.closed = true
		close(e.queue)
	}
	e.mutex.Unlock()
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	if err := e.inner.Close(ctx); err != nil {
		e.options.Log.Debug("telemetry records were left", "error", err)
	}
	<-e.done
}
