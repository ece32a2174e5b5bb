package confluent

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// batchBytes is after how much one Poll stops taking.
const batchBytes = 1 << 20

// slot is what Poll knows of one assigned partition. It tells copies, which
// librdkafka may deliver around a pause, from a log that starts again.
type slot struct {
	at     kafka.Partition
	next   int64  // offset that is due, or more; -1 at first
	anchor anchor // first record of its last batch: copies start there or later
	batch  uint64 // of anchor
	skip   uint64 // batch of which no more is taken
	paused bool
	// Identity of the topic, and whether the log started again since it was read.
	high, low int64
	again     bool
}

type anchor struct{ offset, timestamp, key, value int64 }

// What a record can be.
const (
	due = iota
	copied
	restarted
)

// judge compares a record with what came before it.
func (s *slot) judge(here anchor) int {
	switch {
	case here.offset >= s.next:
		return due
	case here.offset > s.anchor.offset || here == s.anchor:
		return copied
	}
	return restarted
}

func (c *consumer) Poll(wait time.Duration, limit int) (events kafka.Events) {
	if !c.enter() {
		return events
	}
	defer c.leave()
	limit = max(1, min(limit, 1<<16))
	wait = max(0, min(wait, time.Hour))
	count := C.prosody_poll(c.native, C.int((wait+time.Millisecond-1)/time.Millisecond), C.int(limit), batchBytes)
	defer C.prosody_done(c.native)

	found, missed := notes(c.native)
	for _, one := range found {
		if one.kind == C.PROSODY_LOG {
			c.tell(one)
		}
	}
	c.missed(missed)

	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.batch++
	for _, one := range found {
		c.problem(&events, one)
	}
	c.changes(&events)
	var again []kafka.Position
	again = c.identities(&events, again)
	if count > 0 {
		again = c.records(&events, int(count), again)
	}
	if len(again) > 0 {
		made := list(again)
		C.prosody_seek(c.native, made)
		free(made)
	}
	return events
}

// problem reports an error. Fatal ones are told once.
func (c *consumer) problem(events *kafka.Events, one note) {
	switch one.kind {
	case C.PROSODY_ERROR:
		events.Errors = append(events.Errors, failure("", library.ErrorCode(one.code), one.text))
	case C.PROSODY_FATAL:
		c.die(events, one.text)
	}
}

// die reports a fatal error, once, and that all is lost: librdkafka revokes nothing
// any more.
func (c *consumer) die(events *kafka.Events, text string) {
	if c.fatal {
		return
	}
	c.fatal, c.joined = true, false
	events.Errors = append(events.Errors, fail(kafka.Fatal, text))
	for at := range c.slots {
		events.Lost = append(events.Lost, at)
	}
	for at := range c.waiting {
		events.Lost = append(events.Lost, at)
	}
	clear(c.slots)
	clear(c.waiting)
}

// changes takes what the group decided, in its order.
func (c *consumer) changes(events *kafka.Events) {
	var count C.int
	first := C.prosody_changes(c.native, &count)
	if count == 0 {
		return
	}
	revoked := false
	var paused []kafka.Partition // lost, and a pause outlives what comes back at once
	for _, change := range unsafe.Slice(first, int(count)) {
		at := kafka.Partition{Topic: C.GoString(change.topic), Index: int32(change.partition)}
		switch change.kind {
		case C.PROSODY_ASSIGNED:
			if c.fatal {
				continue
			}
			c.joined = true
			c.asked = time.Time{}
			if at.Index >= 0 {
				c.slots[at] = &slot{at: at, next: -1, anchor: anchor{offset: -1}, paused: slices.Contains(paused, at)}
				events.Assigned = append(events.Assigned, at)
			}
		case C.PROSODY_REVOKED:
			if c.slots[at] == nil {
				continue // told before
			}
			revoked = true
			delete(c.slots, at)
			c.round = append(c.round, at)
			if !withdraw(events, at) {
				events.Revoked = append(events.Revoked, at)
				c.waiting[at] = true
			}
		case C.PROSODY_LOST:
			c.joined = false
			s := c.slots[at]
			if s == nil && !c.waiting[at] {
				continue // told before
			}
			if s != nil && s.paused {
				paused = append(paused, at)
			}
			delete(c.slots, at)
			delete(c.waiting, at)
			if !withdraw(events, at) {
				events.Lost = append(events.Lost, at)
			}
		}
	}
	C.prosody_forget(c.native)
	if len(paused) > 0 {
		made := places(slices.DeleteFunc(paused, func(at kafka.Partition) bool { return c.slots[at] == nil }))
		C.prosody_flow(c.native, made, 1)
		free(made)
	}
	if revoked && len(c.waiting) == 0 {
		if err := c.unassign(); err != nil {
			events.Errors = append(events.Errors, err)
		}
	}
}

// withdraw takes back an assignment that nobody has heard of yet.
func withdraw(events *kafka.Events, at kafka.Partition) bool {
	place := slices.Index(events.Assigned, at)
	if place < 0 {
		return false
	}
	events.Assigned = slices.Delete(events.Assigned, place, place+1)
	return true
}

// restart makes a new assignment of a partition whose log starts again.
func (c *consumer) restart(events *kafka.Events, s *slot, why string) {
	events.Records = slices.DeleteFunc(events.Records, func(r *kafka.Record) bool {
		return r.Partition == s.at.Index && r.Topic == s.at.Topic
	})
	if !slices.Contains(events.Assigned, s.at) {
		events.Lost = append(events.Lost, s.at)
		events.Assigned = append(events.Assigned, s.at)
	}
	events.Errors = append(events.Errors, fail(kafka.UnknownTopic,
		fmt.Sprintf("%s [%d]: %s; it is read from its beginning", s.at.Topic, s.at.Index, why)))
	s.next, s.anchor, s.skip = -1, anchor{offset: -1}, c.batch
}

// records copies a batch out of C. Records and bytes come from few allocations.
func (c *consumer) records(events *kafka.Events, count int, again []kafka.Position) []kafka.Position {
	items := unsafe.Slice(C.prosody_items(c.native), count)
	headers := C.prosody_headers(c.native)
	arena := arena{left: int(C.prosody_size(c.native))}
	events.Records = make([]*kafka.Record, 0, count)
	var slab []kafka.Record
	var s *slot
	var topic *C.char
	index := C.int32_t(-1)
	for i := range items {
		item := &items[i]
		if item.err != 0 {
			c.trouble(events, item)
			continue
		}
		if item.topic != topic || item.partition != index {
			topic, index = item.topic, item.partition
			s = c.slots[kafka.Partition{Topic: C.GoString(topic), Index: int32(index)}]
		}
		if s == nil || s.skip == c.batch {
			continue
		}
		here := anchor{int64(item.offset), int64(item.timestamp), int64(item.key_size), int64(item.value_size)}
		switch s.judge(here) {
		case copied:
			continue
		case restarted:
			c.restart(events, s, fmt.Sprintf("its log starts again at offset %d, below %d", here.offset, s.next))
			s.again = true
			again = append(again, kafka.Position{Partition: s.at, Offset: here.offset})
			continue
		}
		if s.batch != c.batch {
			s.batch, s.anchor = c.batch, here
		}
		s.next = here.offset + 1
		if len(slab) == 0 {
			slab = make([]kafka.Record, min(slabSize, count-i))
		}
		record := &slab[0]
		slab = slab[1:]
		record.Topic = s.at.Topic
		record.Partition = s.at.Index
		record.Offset = here.offset
		record.Timestamp = here.timestamp
		record.Key = arena.copy(item.key, int(item.key_size))
		record.Value = arena.copy(item.value, int(item.value_size))
		if item.headers > 0 {
			record.Headers = c.headers(&arena, unsafe.Slice((*C.prosody_header)(unsafe.Add(
				unsafe.Pointer(headers), uintptr(item.header)*unsafe.Sizeof(*headers))), int(item.headers)))
		}
		events.Records = append(events.Records, record)
	}
	return again
}

func (c *consumer) headers(arena *arena, found []C.prosody_header) []kafka.Header {
	copied := make([]kafka.Header, len(found))
	for i := range found {
		copied[i].Name = c.name(found[i].name)
		copied[i].Value = arena.copy(found[i].value, int(found[i].size))
	}
	return copied
}

// name is a header's name. Names repeat, so that the first ones are kept.
func (c *consumer) name(text *C.char) string {
	size := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), size)) != 0 {
		size++
	}
	view := unsafe.String((*byte)(unsafe.Pointer(text)), size)
	if known, found := c.names[view]; found {
		return known
	}
	name := string([]byte(view))
	if len(c.names) < maxNames && size < 256 {
		c.names[name] = name
	}
	return name
}

// trouble reports an error of a partition or of the group.
func (c *consumer) trouble(events *kafka.Events, item *C.prosody_item) {
	code := library.ErrorCode(item.err)
	switch code {
	case library.ErrFatal:
		c.die(events, C.GoString(item.text))
		return
	case library.ErrMaxPollExceeded:
		c.joined = false
	}
	what := ""
	if topic := C.GoString(item.topic); topic != "" {
		what = topic
		if item.partition >= 0 {
			what = fmt.Sprintf("%s [%d]", topic, int(item.partition))
		}
	}
	events.Errors = append(events.Errors, failure(what, code, C.GoString(item.text)))
}

// Sizes of what records of one batch share. Whoever keeps a record keeps its share.
const (
	slabSize  = 32
	chunkSize = 16 << 10
	bigSize   = 4 << 10
	maxNames  = 256
)

// arena copies bytes out of C: small ones side by side, big ones by themselves.
type arena struct {
	free []byte
	left int // bytes of the batch that are still to come
}

func (a *arena) copy(from unsafe.Pointer, n int) []byte {
	if from == nil {
		return nil // null, not empty
	}
	if n == 0 {
		return []byte{}
	}
	a.left -= n
	var to []byte
	if n > bigSize {
		to = make([]byte, n)
	} else {
		if len(a.free) < n {
			a.free = make([]byte, max(n, min(chunkSize, a.left+n)))
		}
		to = a.free[:n:n]
		a.free = a.free[n:]
	}
	copy(to, unsafe.Slice((*byte)(from), n))
	return to
}
