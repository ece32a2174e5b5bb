package confluent

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// What a reader starts from: few records are wanted, so little is fetched ahead.
var readerDefaults = map[string]string{
	"queued.min.messages":        "16",
	"queued.max.messages.kbytes": "4096",
	"fetch.wait.max.ms":          "50",
	"fetch.queue.backoff.ms":     "10",
}

var readerFixed = map[string]string{
	"group.id":                 "prosody-reader", // of no group: partitions are assigned by hand
	"enable.auto.commit":       "false",
	"enable.auto.offset.store": "false",
	"enable.partition.eof":     "true",
	"auto.offset.reset":        "earliest",
}

const (
	reading   = 30 * time.Second // of one Read
	peek      = 20               // ms of one poll
	asking    = 3000             // ms to ask for the ends of a log
	finishing = 5 * time.Second  // of Close
)

// seeker reads single records again. One goroutine drives the client; each partition
// with wanted records is assigned, so that several are read at once.
type seeker struct {
	library *library.Consumer
	timeout time.Duration
	discard int64
	log     func(level int, text string)
	wanted  chan *want
	quit    chan struct{}
	once    sync.Once
	ended   chan struct{}
	passes  map[kafka.Partition]*pass // of the goroutine
}

// want is one Read.
type want struct {
	at       kafka.Partition
	offset   int64
	deadline time.Time
	answer   chan answer
}

type answer struct {
	record *kafka.Record
	err    error
}

// pass is the reading of one partition.
type pass struct {
	at       kafka.Partition
	wants    map[int64][]*want
	floor    int64 // reading began here
	position int64 // the next offset; -1: not assigned yet
}

// Reader makes a reader.
func (Cluster) Reader(config kafka.ReaderConfig) (kafka.Reader, error) {
	properties, err := settings(config.Servers, readerDefaults, config.Properties, ownedConsumer)
	if err != nil {
		return nil, err
	}
	for name, value := range readerFixed {
		properties[name] = value
	}
	if err := validate(properties); err != nil {
		return nil, err
	}
	own := library.ConfigMap{"go.logs.channel.enable": true}
	for name, value := range properties {
		own[name] = value
	}
	made, err := library.NewConsumer(&own)
	if err != nil {
		text := err.Error()
		for name, value := range properties {
			text = redact(name, value, text)
		}
		return nil, fail(kafka.BadConfig, "reader: "+text)
	}
	r := &seeker{
		library: made, timeout: config.Timeout, discard: int64(max(0, config.Discard)), log: heard(config.OnLog),
		wanted: make(chan *want), quit: make(chan struct{}), ended: make(chan struct{}), passes: map[kafka.Partition]*pass{},
	}
	if r.timeout <= 0 {
		r.timeout = reading
	}
	go r.run()
	return r, nil
}

func (r *seeker) Read(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error) {
	if err := checkTopic(at.Topic); err != nil {
		return nil, err
	}
	one := &want{at: at, offset: offset, deadline: time.Now().Add(r.timeout), answer: make(chan answer, 1)}
	select {
	case r.wanted <- one:
	case <-r.quit:
		return nil, fail(kafka.Closed, "the reader is closed")
	case <-ctx.Done():
		return nil, translate("read", ctx.Err())
	}
	select {
	case got := <-one.answer:
		return got.record, got.err
	case <-ctx.Done():
		return nil, translate("read", ctx.Err())
	}
}

// Close ends what waits.
func (r *seeker) Close() error {
	r.once.Do(func() { close(r.quit) })
	select {
	case <-r.ended:
		return nil
	case <-time.After(finishing):
		return fail(kafka.TimedOut, "close of the reader: it did not end in time")
	}
}

func (r *seeker) run() {
	defer close(r.ended)
	defer func() {
		for _, p := range r.passes {
			for offset := range p.wants {
				r.answer(p, offset, nil, fail(kafka.Closed, "the reader is closed"))
			}
		}
		if err := r.library.Close(); err != nil {
			r.note(4, "close of the reader: "+err.Error())
		}
	}()
	defer func() {
		if thrown := recover(); thrown != nil {
			r.note(2, fmt.Sprintf("reader panicked: %v", thrown))
			r.once.Do(func() { close(r.quit) })
		}
	}()
	for r.intake() {
		for _, p := range r.passes {
			if err := r.place(p); err != nil {
				r.note(4, "reading "+label(p.at)+": "+err.Error())
			}
		}
		switch event := r.library.Poll(peek).(type) {
		case *library.Message:
			r.take(event)
		case library.PartitionEOF:
			r.tail(library.TopicPartition(event))
		case library.Error:
			r.note(4, event.Error())
		}
		r.expire(time.Now())
		r.lines()
	}
}

// intake takes new wishes; it waits for one while there is nothing to do. False: closed.
func (r *seeker) intake() bool {
	for {
		if len(r.passes) == 0 {
			select {
			case one := <-r.wanted:
				r.add(one)
			case <-time.After(time.Second):
				r.library.Poll(0)
				r.lines()
			case <-r.quit:
				return false
			}
			continue
		}
		select {
		case one := <-r.wanted:
			r.add(one)
		case <-r.quit:
			return false
		default:
			return true
		}
	}
}

func (r *seeker) add(one *want) {
	p := r.passes[one.at]
	if p == nil {
		p = &pass{at: one.at, wants: map[int64][]*want{}, position: -1}
		r.passes[one.at] = p
	}
	p.wants[one.offset] = append(p.wants[one.offset], one)
}

func (p *pass) lowest() int64 {
	lowest := int64(math.MaxInt64)
	for offset := range p.wants {
		lowest = min(lowest, offset)
	}
	return lowest
}

func (p *pass) spot(offset int64) library.TopicPartition {
	return library.TopicPartition{Topic: &p.at.Topic, Partition: p.at.Index, Offset: library.Offset(offset)}
}

// place assigns a partition, or seeks where reading on would take too long.
func (r *seeker) place(p *pass) error {
	target := p.lowest()
	switch {
	case p.position < 0:
		if err := r.library.IncrementalAssign([]library.TopicPartition{p.spot(target)}); err != nil {
			return err
		}
	case target < p.position || target > p.position+r.discard:
		if err := r.library.Seek(p.spot(target), 0); err != nil {
			return err
		}
	default:
		return nil
	}
	p.floor, p.position = target, target
	return nil
}

// take answers with a record. What is wanted before it, from where reading began, is
// not in the log.
func (r *seeker) take(message *library.Message) {
	at := kafka.Partition{Topic: *message.TopicPartition.Topic, Index: message.TopicPartition.Partition}
	p := r.passes[at]
	offset := int64(message.TopicPartition.Offset)
	switch {
	case p == nil:
		return
	case message.TopicPartition.Error != nil:
		r.note(4, "reading "+label(at)+": "+message.TopicPartition.Error.Error())
		return
	case offset < p.floor:
		// The log does not reach that far: reading began anew at its beginning.
		p.floor = offset
		r.ends(p)
	}
	p.position = offset + 1
	for wanted := range p.wants {
		if wanted >= p.floor && wanted < offset {
			r.answer(p, wanted, nil, gone(at, wanted))
		}
	}
	if p.wants[offset] != nil {
		r.answer(p, offset, convert(at, message), nil)
	}
	r.leave(p)
}

// tail is at the end of a log: what is wanted before it will not come.
func (r *seeker) tail(end library.TopicPartition) {
	p := r.passes[kafka.Partition{Topic: *end.Topic, Index: end.Partition}]
	if p == nil || p.position < 0 {
		return
	}
	offset := int64(end.Offset)
	beyond := false
	for wanted := range p.wants {
		switch {
		case wanted < offset && wanted >= p.floor:
			r.answer(p, wanted, nil, gone(p.at, wanted))
		case wanted >= offset:
			beyond = true
		}
	}
	p.position = max(p.position, offset)
	if beyond {
		r.ends(p)
	}
	r.leave(p)
}

// ends asks for the ends of a log: nothing is to be had outside of them.
func (r *seeker) ends(p *pass) {
	low, high, err := r.library.QueryWatermarkOffsets(p.at.Topic, p.at.Index, asking)
	if err != nil {
		r.note(4, "ends of "+label(p.at)+": "+err.Error())
		return
	}
	for wanted := range p.wants {
		if wanted < low || wanted >= high {
			r.answer(p, wanted, nil, gone(p.at, wanted))
		}
	}
}

func (r *seeker) answer(p *pass, offset int64, record *kafka.Record, err error) {
	for _, one := range p.wants[offset] {
		one.answer <- answer{record, err}
	}
	delete(p.wants, offset)
}

// leave ends the reading of a partition of which nothing is wanted any more.
func (r *seeker) leave(p *pass) {
	if len(p.wants) > 0 {
		return
	}
	delete(r.passes, p.at)
	if p.position < 0 {
		return
	}
	if err := r.library.IncrementalUnassign([]library.TopicPartition{p.spot(0)}); err != nil {
		r.note(4, "leaving "+label(p.at)+": "+err.Error())
	}
}

func (r *seeker) expire(now time.Time) {
	for _, p := range r.passes {
		for offset, wants := range p.wants {
			kept := wants[:0]
			for _, one := range wants {
				if now.Before(one.deadline) {
					kept = append(kept, one)
				} else {
					one.answer <- answer{nil, fail(kafka.TimedOut, fmt.Sprintf("offset %d of %s: no broker has told in time", offset, label(p.at)))}
				}
			}
			if p.wants[offset] = kept; len(kept) == 0 {
				delete(p.wants, offset)
			}
		}
		r.leave(p)
	}
}

func (r *seeker) lines() {
	for {
		select {
		case line, open := <-r.library.Logs():
			if !open {
				return
			}
			r.note(line.Level, line.Tag+": "+line.Message)
		default:
			return
		}
	}
}

func (r *seeker) note(level int, text string) {
	if r.log != nil {
		r.log(level, text)
	}
}

func label(at kafka.Partition) string { return fmt.Sprintf("%s [%d]", at.Topic, at.Index) }

func gone(at kafka.Partition, offset int64) error {
	return fail(kafka.Gone, fmt.Sprintf("no record is at offset %d of %s", offset, label(at)))
}

func convert(at kafka.Partition, message *library.Message) *kafka.Record {
	record := &kafka.Record{
		Topic: at.Topic, Partition: at.Index, Offset: int64(message.TopicPartition.Offset), Timestamp: -1,
		Key: message.Key, Value: message.Value,
	}
	if message.TimestampType != library.TimestampNotAvailable {
		record.Timestamp = message.Timestamp.UnixMilli()
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, kafka.Header{Name: header.Key, Value: header.Value})
	}
	return record
}
