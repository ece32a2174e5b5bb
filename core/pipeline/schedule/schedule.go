// Package schedule owns the permits to run a handler: at most max_concurrency at once
// over all partitions of a client, given fairly when there are too few.
//
// Fair means: first deliveries and retries share the time by weight, and within each
// the key that has used the least time lately goes first, unless another has waited
// too long. The time is accounted here and now, by whoever gives a permit back.
//
// It upholds I4 (the memory of used time is bounded) and I8 (a wait ends with its
// context or its owner's leaving).
package schedule

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/pipeline"
)

// Options says how many may run and who goes first.
type Options struct {
	Concurrency   int           // permits; at least 1
	FailureWeight float64       // share of retries in the time, 0 to 1
	MaxWait       time.Duration // after which a waiter has all of WaitWeight
	WaitWeight    float64       // seconds of used time that a full wait makes up for
	Cache         int           // keys whose used time is remembered; at least 1
	Clock         clock.Clock
	Counts        *pipeline.Counts
}

// Scheduler gives permits. One serves all partitions of a client.
type Scheduler struct {
	options Options
	origin  time.Time
	seed    maphash.Seed

	mutex   sync.Mutex
	free    int           // above 0 only when nobody waits
	calm    chan struct{} // closed as soon as nobody waits; nil: nobody asked
	order   uint64
	classes [2]class
	levels  *simplelru.LRU[uint64, *level] // used time by account
}

// permit is the right to run; it says whom to charge.
type permit struct {
	account uint64
	class   int
	start   time.Duration
}

// waiter waits for a permit.
type waiter struct {
	permit  permit
	level   level
	since   time.Duration
	order   uint64
	ready   chan struct{}
	granted bool // under the scheduler's mutex
	index   int  // in the heap
	place   place
}

// New makes a scheduler.
func New(options Options) *Scheduler {
	options.Concurrency = max(options.Concurrency, 1)
	levels, _ := simplelru.NewLRU[uint64, *level](max(options.Cache, 1), nil) // fails below 1 only
	return &Scheduler{
		options: options,
		origin:  options.Clock.Now(),
		seed:    maphash.MakeSeed(),
		free:    options.Concurrency,
		levels:  levels,
	}
}

// Wrap gives a handler whose calls run with a permit.
func (s *Scheduler) Wrap(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		held, err := s.acquire(ctx, invocation)
		if err != nil {
			if invocation.Leaving.Err() != nil {
				return pipeline.Leave(invocation, "not started")
			}
			return pipeline.Outcome{Class: pipeline.Transient, Text: "no permit to run: " + err.Error()}
		}
		defer s.release(held)
		return next.Handle(ctx, invocation)
	})
}

// Permits tells how many there are.
func (s *Scheduler) Permits() int { return s.options.Concurrency }

// Running tells how many permits are held.
func (s *Scheduler) Running() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.options.Concurrency - s.free
}

// Waiting tells how many wait for a permit.
func (s *Scheduler) Waiting() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.classes[normal].len() + s.classes[failure].len()
}

// Calm waits until nobody waits for a permit, but no longer than a time, and not beyond
// the end of ctx. It is for work that others' starts should not compete with.
func (s *Scheduler) Calm(ctx context.Context, most time.Duration) {
	s.mutex.Lock()
	if s.classes[normal].len()+s.classes[failure].len() == 0 {
		s.mutex.Unlock()
		return
	}
	if s.calm == nil {
		s.calm = make(chan struct{})
	}
	calm := s.calm
	s.mutex.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alarm := s.options.Clock.AfterFunc(most, cancel)
	defer alarm.Stop()
	select {
	case <-calm:
	case <-ctx.Done():
	}
}

// remove ends a wait. It needs the mutex.
func (s *Scheduler) remove(w *waiter) {
	s.classes[w.permit.class].remove(w)
	if s.calm != nil && s.classes[normal].len()+s.classes[failure].len() == 0 {
		close(s.calm)
		s.calm = nil
	}
}

func (s *Scheduler) acquire(ctx context.Context, invocation *pipeline.Invocation) (permit, error) {
	wanted := permit{account: s.account(invocation.Event), class: normal}
	if invocation.Demand.Failure {
		wanted.class = failure
	}
	s.mutex.Lock()
	now := s.now()
	if s.free > 0 {
		s.free--
		wanted.start = now
		s.classes[wanted.class].begin(now)
		s.mutex.Unlock()
		return wanted, nil
	}
	w := s.enqueue(wanted, now)
	s.mutex.Unlock()

	s.options.Counts.Waiting.Add(1)
	defer s.options.Counts.Waiting.Add(-1)
	select {
	case <-w.ready:
		return w.permit, nil
	case <-ctx.Done():
		s.withdraw(w)
		return permit{}, context.Cause(ctx)
	case <-invocation.Leaving.Done():
		s.withdraw(w)
		return permit{}, context.Cause(invocation.Leaving)
	}
}

// enqueue needs the mutex.
func (s *Scheduler) enqueue(wanted permit, now time.Duration) *waiter {
	used := unused
	if known, found := s.levels.Get(wanted.account); found {
		used = *known
	}
	s.order++
	w := &waiter{permit: wanted, level: used, since: now, order: s.order, ready: make(chan struct{})}
	s.classes[wanted.class].push(w)
	return w
}

// withdraw ends a wait; a permit that came at the same moment is passed on.
func (s *Scheduler) withdraw(w *waiter) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if w.granted {
		s.classes[w.permit.class].cancel(w.permit.start)
		s.pass(s.now())
		return
	}
	s.remove(w)
}

// release charges the time and passes the permit on.
func (s *Scheduler) release(held permit) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.now()
	took := max(now-held.start, 0)
	if used, found := s.levels.Get(held.account); found {
		*used = used.add(took, now)
	} else {
		fresh := unused.add(took, now)
		s.levels.Add(held.account, &fresh)
	}
	s.classes[held.class].finish(held.start, took, now)
	s.pass(now)
}

// pass gives a permit to the next waiter or lays it down. It needs the mutex.
func (s *Scheduler) pass(now time.Duration) {
	w := s.choose(now)
	if w == nil {
		s.free++
		return
	}
	s.remove(w)
	w.permit.start = now
	s.classes[w.permit.class].begin(now)
	w.granted = true
	close(w.ready)
}

// choose finds the next waiter: the class by its weighted time, then within it. It
// needs the mutex.
func (s *Scheduler) choose(now time.Duration) *waiter {
	first, again := &s.classes[normal], &s.classes[failure]
	switch {
	case first.len() == 0 && again.len() == 0:
		return nil
	case again.len() == 0:
		return first.best(now, s.options)
	case first.len() == 0:
		return again.best(now, s.options)
	}
	weight := s.options.FailureWeight
	if share(first.time(now), 1-weight) <= share(again.time(now), weight) {
		return first.best(now, s.options)
	}
	return again.best(now, s.options)
}

// now is the time since the scheduler was made.
func (s *Scheduler) now() time.Duration { return s.options.Clock.Now().Sub(s.origin) }

// account names the (topic, partition, key) that is charged. A hash keeps long keys
// out of the memory; the seed keeps senders from choosing collisions.
func (s *Scheduler) account(e *event.Event) uint64 {
	var hash maphash.Hash
	hash.SetSeed(s.seed)
	var fixed [12]byte
	binary.LittleEndian.PutUint64(fixed[:], uint64(len(e.Topic)))
	binary.LittleEndian.PutUint32(fixed[8:], uint32(e.Partition))
	_, _ = hash.Write(fixed[:])
	_, _ = hash.WriteString(e.Topic)
	_, _ = hash.WriteString(e.Key)
	return hash.Sum64()
}
