package schedule

import (
	"container/heap"
	"container/list"
	"time"
)

// The classes of demand.
const (
	normal = iota
	failure
)

// place is where a waiter stands in the order of arrival.
type place = *list.Element

// class holds the waiters of one demand and the time that it has used. The scheduler's
// mutex guards it.
type class struct {
	least   leastUsed // by level
	arrived list.List // by arrival
	used    float64   // seconds, as of `as`
	as      time.Duration
	running int64
	starts  time.Duration // sum of the starts of those that run
}

func (c *class) len() int { return len(c.least) }

func (c *class) push(w *waiter) {
	heap.Push(&c.least, w)
	w.place = c.arrived.PushBack(w)
}

func (c *class) remove(w *waiter) {
	heap.Remove(&c.least, w.index)
	c.arrived.Remove(w.place)
}

func (c *class) begin(now time.Duration) {
	c.running++
	c.starts += now
}

func (c *class) cancel(start time.Duration) {
	c.running--
	c.starts -= start
}

func (c *class) finish(start, took, now time.Duration) {
	c.cancel(start)
	c.used = c.decayed(now) + took.Seconds()
	c.as = now
}

// time is what the class has used, with what runs now.
func (c *class) time(now time.Duration) float64 {
	return c.decayed(now) + (time.Duration(c.running)*now - c.starts).Seconds()
}

func (c *class) decayed(now time.Duration) float64 {
	if c.used == 0 {
		return 0
	}
	return c.used * level(0).at(now-c.as)
}

// best compares the waiter that has used the least with the one that has waited
// longest. The class must not be empty.
//
// A wait counts by the square of its length, so no fixed order of all waiters exists.
// These two bound both unfairness and waiting without a look at each waiter.
func (c *class) best(now time.Duration, options Options) *waiter {
	least, oldest := c.least[0], c.arrived.Front().Value.(*waiter)
	if oldest != least && oldest.priority(now, options) < least.priority(now, options) {
		return oldest
	}
	return least
}

// priority is the key's used time, less what the wait makes up for; the lowest wins.
func (w *waiter) priority(now time.Duration, options Options) float64 {
	waited := 1.0
	if options.MaxWait > 0 {
		waited = min(1, (now-w.since).Seconds()/options.MaxWait.Seconds())
	}
	return w.level.at(now) - options.WaitWeight*waited*waited
}

// leastUsed is a heap of waiters by level, then by arrival.
type leastUsed []*waiter

func (h leastUsed) Len() int { return len(h) }

func (h leastUsed) Less(i, j int) bool {
	if h[i].level != h[j].level {
		return h[i].level < h[j].level
	}
	return h[i].order < h[j].order
}

func (h leastUsed) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *leastUsed) Push(w any) {
	added := w.(*waiter)
	added.index = len(*h)
	*h = append(*h, added)
}

func (h *leastUsed) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
