// Package deadline owns many deadlines that lie the same time ahead: a queue in order
// of time with one timer for its head, so that a deadline costs no timer of its own.
//
// It upholds I8 (what waits is told when its time is over) and I4: an entry leaves the
// queue by Remove or by its end.
package deadline

import (
	"sync"
	"time"

	"prosody/core/clock"
)

// Entry is one deadline; it lives in the value that waits. The zero value is ready.
type Entry[T any] struct {
	Value      T
	due        time.Time
	queued     bool
	prev, next *Entry[T]
}

// Queue calls back for each entry that is still in it when its time is over.
type Queue[T any] struct {
	clock  clock.Clock
	after  time.Duration
	expire func(T)

	mutex      sync.Mutex
	running    sync.WaitGroup
	head, tail *Entry[T]
	timer      clock.Timer
	closed     bool
}

// New makes a queue. expire runs outside of its lock, in a goroutine of the clock. With
// an after of 0 nothing expires.
func New[T any](c clock.Clock, after time.Duration, expire func(T)) *Queue[T] {
	return &Queue[T]{clock: c, after: after, expire: expire}
}

// Add starts the time of an entry that is in no queue. False: the queue is closed.
func (q *Queue[T]) Add(entry *Entry[T]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.closed {
		return false
	}
	if q.after > 0 {
		entry.due = q.clock.Now().Add(q.after)
	}
	entry.queued = true
	entry.prev, entry.next = q.tail, nil
	if q.tail == nil {
		q.head = entry
	} else {
		q.tail.next = entry
	}
	q.tail = entry
	if q.timer == nil && q.after > 0 {
		q.arm(q.after)
	}
	return true
}

// Holds tells whether an entry still waits.
func (q *Queue[T]) Holds(entry *Entry[T]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return entry.queued
}

// Remove ends an entry's wait. False: it has expired, or was never added.
func (q *Queue[T]) Remove(entry *Entry[T]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if !entry.queued {
		return false
	}
	q.unlink(entry)
	return true
}

// Close takes all entries out, returns them in order and waits for a callback that
// runs. It must not be called by one.
func (q *Queue[T]) Close() []T {
	q.mutex.Lock()
	q.closed = true
	var left []T
	for q.head != nil {
		left = append(left, q.head.Value)
		q.unlink(q.head)
	}
	if q.timer != nil && q.timer.Stop() {
		q.running.Done()
	}
	q.timer = nil
	q.mutex.Unlock()
	q.running.Wait()
	return left
}

// arm needs the lock. The timer stays when its entry goes: it then only looks at the
// next head, so that adding and removing touch no timer.
func (q *Queue[T]) arm(wait time.Duration) {
	q.running.Add(1)
	q.timer = q.clock.AfterFunc(wait, q.fire)
}

func (q *Queue[T]) fire() {
	defer q.running.Done()
	for {
		entry := q.pop()
		if entry == nil {
			return
		}
		q.expire(entry.Value)
	}
}

// pop takes the head when its time is over; otherwise it arms the timer for it.
func (q *Queue[T]) pop() *Entry[T] {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.head == nil || q.closed {
		q.timer = nil
		return nil
	}
	if wait := q.head.due.Sub(q.clock.Now()); wait > 0 {
		q.arm(wait)
		return nil
	}
	entry := q.head
	q.unlink(entry)
	return entry
}

// unlink needs the lock.
func (q *Queue[T]) unlink(entry *Entry[T]) {
	if entry.prev == nil {
		q.head = entry.next
	} else {
		entry.prev.next = entry.next
	}
	if entry.next == nil {
		q.tail = entry.prev
	} else {
		entry.next.prev = entry.prev
	}
	entry.prev, entry.next, entry.queued = nil, nil, false
}
