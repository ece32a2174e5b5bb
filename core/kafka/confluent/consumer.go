package confluent

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// What a consumer starts from. The first two bound what librdkafka holds in memory for
// one partition; the short back-off keeps it full. A fetch of idle partitions holds up
// the busy ones, so it waits shortly. The short refresh finds new topics and partitions.
var consumerDefaults = map[string]string{
	"queued.min.messages":                "20000",
	"queued.max.messages.kbytes":         "4096",
	"fetch.queue.backoff.ms":             "10",
	"fetch.wait.max.ms":                  "100",
	"topic.metadata.refresh.interval.ms": "5000",
	"heartbeat.interval.ms":              "1000",
}

// What Prosody's guarantees rest on.
var consumerFixed = map[string]string{
	"enable.auto.commit":            "false",
	"enable.auto.offset.store":      "false",
	"enable.partition.eof":          "false",
	"auto.offset.reset":             "earliest",
	"partition.assignment.strategy": "cooperative-sticky",
}

// Bounds of Close: for leaving the group, for the library's threads to end, and for
// leaving when no broker answers.
const (
	leaving   = 3 * time.Second
	stopping  = 5 * time.Second
	abandoned = 2 * time.Minute
)

// slice is how long a wait inside C may last before it looks around.
const slice = 20 * time.Millisecond

// consumer is one group member. Lock order: life, then mutex.
type consumer struct {
	native  *C.prosody_consumer
	group   string
	log     func(level int, text string)
	closing atomic.Bool
	// life is held for reading by every call into native, for writing by Close.
	life sync.RWMutex

	mutex   sync.Mutex
	slots   map[kafka.Partition]*slot
	waiting map[kafka.Partition]bool // revoked, not released yet
	round   []kafka.Partition        // all that one revocation named
	joined  bool
	fatal   bool
	topics  []string        // subscribed by name
	missing map[string]bool // of topics: not there when last asked
	counts  map[string]int  // partitions of topics when last asked

	// Of Poll only.
	batch  uint64
	asked  time.Time
	asking bool
	names  map[string]string
}

// Consumer makes a group member.
func (Cluster) Consumer(config kafka.ConsumerConfig) (kafka.Consumer, error) {
	if config.Group == "" {
		return nil, fail(kafka.BadConfig, "group.id: it is empty")
	}
	if strings.ContainsRune(config.Group, 0) {
		return nil, fail(kafka.BadConfig, "group.id: it contains a NUL character")
	}
	properties, err := settings(config.Servers, consumerDefaults, config.Properties, ownedConsumer)
	if err != nil {
		return nil, err
	}
	for name, value := range consumerFixed {
		properties[name] = value
	}
	properties["group.id"] = config.Group
	native, err := open(properties)
	if err != nil {
		return nil, err
	}
	return &consumer{
		native: native, group: config.Group, log: heard(config.OnLog),
		slots: map[kafka.Partition]*slot{}, waiting: map[kafka.Partition]bool{}, names: map[string]string{},
		counts: map[string]int{},
	}, nil
}

// enter guards a call into native; the caller calls leave if it got true.
func (c *consumer) enter() bool {
	if c.closing.Load() {
		return false
	}
	c.life.RLock()
	if c.closing.Load() {
		c.life.RUnlock()
		return false
	}
	return true
}

func (c *consumer) leave() { c.life.RUnlock() }

func (c *consumer) shut() error { return fail(kafka.Closed, "the consumer is closed") }

func (c *consumer) Subscribe(topics []string) error {
	if len(topics) == 0 {
		return fail(kafka.BadConfig, "subscribe: no topic is named")
	}
	var positions []kafka.Position
	var named []string
	for _, topic := range slices.Compact(slices.Sorted(slices.Values(topics))) {
		if strings.HasPrefix(topic, "^") {
			if strings.ContainsRune(topic, 0) {
				return fail(kafka.BadTopic, fmt.Sprintf("topic pattern %q: it contains a NUL character", topic))
			}
			if fault := pattern(topic); fault != "" {
				return fail(kafka.BadTopic, fmt.Sprintf("topic pattern %s: %s", topic, fault))
			}
		} else if err := checkTopic(topic); err != nil {
			return err
		} else {
			named = append(named, topic)
		}
		positions = append(positions, kafka.Position{Partition: kafka.Partition{Topic: topic, Index: -1}, Offset: invalid})
	}
	if !c.enter() {
		return c.shut()
	}
	defer c.leave()
	made := list(positions)
	defer free(made)
	if code := C.rd_kafka_subscribe(C.prosody_client(c.native), made); code != 0 {
		return failure("subscribe", library.ErrorCode(code), "")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.topics, c.missing = named, map[string]bool{}
	return nil
}

func (c *consumer) Pause(partitions []kafka.Partition) error {
	return c.flow("pause", partitions, true)
}

func (c *consumer) Resume(partitions []kafka.Partition) error {
	return c.flow("resume", partitions, false)
}

func (c *consumer) flow(what string, partitions []kafka.Partition, paused bool) error {
	if !c.enter() {
		return c.shut()
	}
	defer c.leave()
	// A pause would stay with a partition that comes back, so only what is assigned.
	c.mutex.Lock()
	defer c.mutex.Unlock()
	partitions = slices.DeleteFunc(slices.Clone(partitions), func(p kafka.Partition) bool { return c.slots[p] == nil })
	if len(partitions) == 0 {
		return nil
	}
	made := places(partitions)
	defer free(made)
	stop := C.int(0)
	if paused {
		stop = 1
	}
	if code := C.prosody_flow(c.native, made, stop); code != 0 {
		return failure(what, library.ErrorCode(code), "")
	}
	for _, partition := range partitions {
		c.slots[partition].paused = paused
	}
	return nil
}

func (c *consumer) Commit(ctx context.Context, positions []kafka.Position) error {
	if !c.enter() {
		return c.shut()
	}
	defer c.leave()
	if len(positions) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return translate("commit", err)
	}
	made := list(positions)
	defer free(made)
	var code C.int
	queue := C.prosody_commit(c.native, made, &code)
	if queue == nil {
		return c.refusal(library.ErrorCode(code), "")
	}
	defer C.rd_kafka_queue_destroy(queue)
	for C.prosody_committed(queue, C.int(slice.Milliseconds()), made, &code) == 0 {
		if err := ctx.Err(); err != nil {
			return translate("commit", err)
		}
		if c.closing.Load() {
			return c.shut()
		}
	}
	for _, element := range elements(made) {
		if element.err != 0 {
			return c.refusal(library.ErrorCode(element.err), fmt.Sprintf(" of %s [%d]", C.GoString(element.topic), int(element.partition)))
		}
	}
	if code != 0 {
		return c.refusal(library.ErrorCode(code), "")
	}
	return nil
}

// refusal is the error of a commit.
func (c *consumer) refusal(code library.ErrorCode, of string) error {
	problem := failure("commit"+of+" for group "+c.group, code, "")
	switch code {
	case library.ErrFencedInstanceID:
		problem.Code = kafka.Stale
	case library.ErrIllegalGeneration:
		// In the middle of a rebalance the group may be a generation ahead.
		if C.rd_kafka_assignment_lost(C.prosody_client(c.native)) == 0 && C.prosody_member(c.native) != 0 {
			problem.Code = kafka.Rebalancing
		}
	}
	return problem
}

// Release gives revoked partitions up. librdkafka takes one answer for a whole
// revocation, so it hears of it when the last partition is released.
func (c *consumer) Release(partitions []kafka.Partition) error {
	if !c.enter() {
		return c.shut()
	}
	defer c.leave()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.waiting) == 0 {
		return nil
	}
	for _, partition := range partitions {
		delete(c.waiting, partition)
	}
	if len(c.waiting) > 0 {
		return nil
	}
	return c.unassign()
}

// unassign answers the revocation. The caller holds mutex.
func (c *consumer) unassign() error {
	made := places(c.round)
	defer free(made)
	c.round = nil
	clear(c.waiting)
	why := (*C.char)(C.calloc(1, textSize))
	defer C.free(unsafe.Pointer(why))
	if code := C.prosody_unassign(c.native, made, why, textSize); code != 0 {
		return failure("release", library.ErrorCode(code), C.GoString(why))
	}
	return nil
}

func (c *consumer) Count(topic string) (int, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	count, known := c.counts[topic]
	return count, known
}

func (c *consumer) End(partition kafka.Partition) (int64, bool) {
	if !c.enter() {
		return 0, false
	}
	defer c.leave()
	topic := C.CString(partition.Topic)
	defer C.free(unsafe.Pointer(topic))
	var low, high C.int64_t
	if C.rd_kafka_get_watermark_offsets(C.prosody_client(c.native), topic, C.int32_t(partition.Index), &low, &high) != 0 || high < 0 {
		return 0, false
	}
	return int64(high), true
}

func (c *consumer) Joined() bool {
	if !c.enter() {
		return false
	}
	defer c.leave()
	c.mutex.Lock()
	joined := c.joined && !c.fatal
	c.mutex.Unlock()
	return joined && C.prosody_member(c.native) != 0
}

// Close leaves the group and ends librdkafka's threads. Both end in bounded time: a
// commit that no broker answers holds librdkafka up for a session time-out, and then
// the rest of the work is done behind Close.
func (c *consumer) Close() error {
	if !c.closing.CompareAndSwap(false, true) {
		return nil
	}
	C.prosody_wake(c.native) // a Poll that waits
	c.life.Lock()
	defer c.life.Unlock()
	c.mutex.Lock()
	if c.round != nil {
		_ = c.unassign() // leaving follows, whatever it says
	}
	clear(c.slots)
	c.mutex.Unlock()

	left := C.prosody_leave(c.native, C.int(leaving.Milliseconds())) != 0
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		// The client must not be destroyed before: librdkafka would wait in a busy loop.
		for start := time.Now(); !left && time.Since(start) < abandoned; {
			left = C.prosody_leave(c.native, 1000) != 0
		}
		C.prosody_stop(c.native)
		found, missed := notes(c.native)
		C.prosody_free(c.native)
		for _, one := range found {
			c.tell(one)
		}
		c.missed(missed)
	}()
	if left {
		select {
		case <-stopped:
			return nil
		case <-time.After(stopping):
		}
	}
	return fail(kafka.TimedOut, "close of the consumer: no broker answers; the group forgets the member after its session time-out")
}

// tell hands a line to the caller's log.
func (c *consumer) tell(one note) {
	if c.log == nil {
		return
	}
	level := one.code
	if one.kind != C.PROSODY_LOG {
		level = 3
	}
	c.log(level, one.text)
}

func (c *consumer) missed(count int) {
	if count > 0 && c.log != nil {
		c.log(4, fmt.Sprintf("%d lines of librdkafka's log were dropped: nobody polled", count))
	}
}
