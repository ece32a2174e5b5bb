// Package queue owns what waits for the host: records in the order in which they were
// made, and the bell, a descriptor that is readable exactly while something waits.
//
// It upholds I5: the host takes records out on a thread of its own, nothing is pushed
// into it. It upholds I4 for log lines, of which it keeps the newest; the other records
// are bounded by the calls and invocations that are open.
package queue

import (
	"fmt"
	"sync"
	"time"

	"prosody/capi/internal/record"
)

// Lines is the number of log lines that a queue keeps.
const Lines = 1024

// Record is something that waits for the host.
type Record interface {
	Size() int
	// Encode fills a buffer of that size; the record has left the queue then.
	Encode(buffer []byte)
	// Drop says that the queue was destroyed before Encode.
	Drop()
}

type entry struct {
	number uint64
	record Record
}

// Queue hands records over to the host. It is safe for use by many goroutines.
type Queue struct {
	// Owner is free for whoever made the queue.
	Owner any

	reading sync.Mutex // before filling
	out     []entry    // what the host takes next, from at on
	at      int

	filling sync.Mutex
	in      []entry
	number  uint64
	lines   []*record.Log // a ring of entries, oldest at first
	order   []uint64      // their numbers
	first   int
	lost    uint64 // lines overwritten since the last one taken
	bell    bell
	rung    bool
	woken   bool
	closed  bool
	fatal   bool
}

// New makes a queue.
func New() (*Queue, error) {
	bell, err := newBell()
	if err != nil {
		return nil, err
	}
	return &Queue{bell: bell}, nil
}

// Descriptor is readable while something waits. Whoever made the queue closes it, after
// Close.
func (q *Queue) Descriptor() int { return q.bell.descriptor() }

// Push adds a record. It tells false, and does nothing, when the queue is closed.
func (q *Queue) Push(r Record) bool {
	q.filling.Lock()
	defer q.filling.Unlock()
	if q.closed {
		return false
	}
	q.in = append(q.in, entry{q.next(), r})
	q.ring()
	return true
}

// Fatal adds a record of a fault of the library, once.
func (q *Queue) Fatal(text string) {
	q.filling.Lock()
	defer q.filling.Unlock()
	if q.closed || q.fatal {
		return
	}
	q.fatal = true
	q.in = append(q.in, entry{q.next(), &record.Fatal{Text: text}})
	q.ring()
}

// Log adds a line of the log; the oldest one is dropped when there are too many. It
// tells false when the queue is closed.
func (q *Queue) Log(line *record.Log) bool {
	q.filling.Lock()
	defer q.filling.Unlock()
	if q.closed {
		return false
	}
	if len(q.lines) < Lines {
		q.lines = append(q.lines, line)
		q.order = append(q.order, q.next())
	} else {
		q.lines[q.first], q.order[q.first] = line, q.next()
		q.first = (q.first + 1) % Lines
		q.lost++
	}
	q.ring()
	return true
}

// Wake makes one Take that finds nothing say so at once.
func (q *Queue) Wake() {
	q.filling.Lock()
	defer q.filling.Unlock()
	if !q.closed {
		q.woken = true
		q.ring()
	}
}

// Remove takes a record back. It tells false when the host has it, or the queue is
// closed.
func (q *Queue) Remove(r Record) bool {
	q.reading.Lock()
	defer q.reading.Unlock()
	q.filling.Lock()
	defer q.filling.Unlock()
	for i := q.at; i < len(q.out); i++ {
		if q.out[i].record == r {
			q.out = append(q.out[:i], q.out[i+1:]...)
			q.settle()
			return true
		}
	}
	for i := range q.in {
		if q.in[i].record == r {
			q.in = append(q.in[:i], q.in[i+1:]...)
			q.settle()
			return true
		}
	}
	return false
}

// Batch is what one Take found.
type Batch struct {
	Size   int  // bytes filled
	Count  int  // records
	Need   int  // when nothing fits: the size of the first record
	Woken  bool // nothing waits, but Wake was called
	Closed bool
	Fatal  bool // nothing waits, and Fatal was called
}

// Take fills buffer with as many records as wait and fit, at most limit.
func (q *Queue) Take(buffer []byte, limit int) (batch Batch) {
	q.reading.Lock()
	defer q.reading.Unlock()
	for batch.Count < limit {
		if q.at == len(q.out) && !q.refill() {
			break
		}
		next := q.out[q.at].record
		size := next.Size()
		if size > len(buffer)-batch.Size {
			if batch.Count == 0 {
				batch.Need = size
			}
			return batch
		}
		next.Encode(buffer[batch.Size : batch.Size+size : batch.Size+size])
		q.out[q.at] = entry{}
		q.at++
		batch.Size += size
		batch.Count++
	}
	q.filling.Lock()
	defer q.filling.Unlock()
	batch.Closed = q.closed
	if batch.Count == 0 && !q.closed {
		batch.Woken, q.woken = q.woken, false
		batch.Fatal = q.fatal && len(q.in) == 0
	}
	q.settle()
	return batch
}

// Close drops what waits; from then on nothing comes in. The bell stays rung.
func (q *Queue) Close() {
	q.filling.Lock()
	q.closed = true
	q.ring()
	q.filling.Unlock()

	q.reading.Lock()
	defer q.reading.Unlock()
	for q.at < len(q.out) || q.refill() {
		q.out[q.at].record.Drop()
		q.at++
	}
	q.out = nil
	q.at = 0
}

// refill moves what came in to out, lines among it at their place.
func (q *Queue) refill() bool {
	q.filling.Lock()
	defer q.filling.Unlock()
	clear(q.out)
	out := q.out[:0]
	if len(q.lines) == 0 {
		q.out, q.in = q.in, out
		q.at = 0
		return len(q.out) > 0
	}
	if q.lost > 0 {
		out = append(out, entry{record: &record.Log{
			Time: time.Now().UnixNano(), Level: 30, Target: "prosody.log", Fields: "{}",
			Text: fmt.Sprintf("%d log lines were dropped: the queue was not read", q.lost),
		}})
		q.lost = 0
	}
	rest := q.in
	for i := range q.lines {
		at := (q.first + i) % len(q.lines)
		for len(rest) > 0 && rest[0].number < q.order[at] {
			out = append(out, rest[0])
			rest = rest[1:]
		}
		out = append(out, entry{q.order[at], q.lines[at]})
	}
	q.out, q.at = append(out, rest...), 0
	clear(q.in)
	clear(q.lines)
	q.in, q.lines, q.order, q.first = q.in[:0], q.lines[:0], q.order[:0], 0
	return true
}

func (q *Queue) next() uint64 {
	q.number++
	return q.number
}

// ring makes the descriptor readable.
func (q *Queue) ring() {
	if !q.rung {
		q.rung = true
		q.bell.ring()
	}
}

// settle makes the descriptor unreadable when nothing waits. Both locks are held.
func (q *Queue) settle() {
	if q.rung && !q.closed && !q.woken && q.at == len(q.out) && len(q.in) == 0 && len(q.lines) == 0 {
		q.rung = false
		q.bell.reset()
	}
}
