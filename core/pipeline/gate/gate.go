// Package gate owns the decision whether a failing event may step aside: it may, as long
// as the share of failures of its topic is low. When nearly everything fails the cause
// is no single event, and putting all of them aside would only move the pile.
//
// It upholds I4: a topic costs a fixed ring of counters, and one that is silent for a
// window is forgotten when others come.
package gate

import (
	"context"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/pipeline"
)

// Options say when the gate closes.
type Options struct {
	Threshold float64       // it closes at this share of failures
	Window    time.Duration // over which is counted; 5 min
	Least     int           // events in the window below which it stays open; 32
	Clock     clock.Clock
}

const (
	slots  = 32  // of a ring
	topics = 256 // that are kept while they are silent
)

// Gate counts first deliveries by topic.
type Gate struct {
	options Options
	step    time.Duration
	mutex   sync.Mutex
	rings   map[string]*ring
}

// New makes a gate.
func New(options Options) *Gate {
	if options.Window <= 0 {
		options.Window = 5 * time.Minute
	}
	if options.Least <= 0 {
		options.Least = 32
	}
	return &Gate{options: options, step: max(1, options.Window/slots), rings: map[string]*ring{}}
}

// Wrap counts how the first deliveries of next end. Repeated ones say nothing new, and
// one that its owner cut off says nothing at all.
func (g *Gate) Wrap(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		outcome := next.Handle(ctx, invocation)
		if !invocation.Demand.Failure && outcome.Class != pipeline.Aborted {
			g.note(invocation.Event.Topic, outcome.Class == pipeline.Transient)
		}
		return outcome
	})
}

// Open tells whether a failing event of a topic may step aside.
func (g *Gate) Open(topic string) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	found := g.rings[topic]
	if found == nil {
		return true
	}
	return g.open(found.sum(g.now()))
}

func (g *Gate) note(topic string, failed bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := g.now()
	found := g.rings[topic]
	if found == nil {
		g.tidy(now)
		found = &ring{}
		g.rings[topic] = found
	}
	found.note(now, failed)
}

// now counts steps.
func (g *Gate) now() int64 { return g.options.Clock.Now().UnixNano() / int64(g.step) }

func (g *Gate) tidy(now int64) {
	if len(g.rings) < topics {
		return
	}
	for topic, found := range g.rings {
		if found.last <= now-slots {
			delete(g.rings, topic)
		}
	}
}

// ring counts by step.
type ring struct {
	last  int64 // step of the newest slot
	slots [slots]struct{ all, failed int }
}

// turn empties the slots that time has passed.
func (r *ring) turn(now int64) {
	for step := max(r.last+1, now-slots+1); step <= now; step++ {
		r.slots[step%slots] = struct{ all, failed int }{}
	}
	r.last = max(r.last, now)
}

func (r *ring) note(now int64, failed bool) {
	r.turn(now)
	slot := &r.slots[r.last%slots]
	slot.all++
	if failed {
		slot.failed++
	}
}

func (r *ring) sum(now int64) (all, failed int) {
	r.turn(now)
	for _, slot := range r.slots {
		all += slot.all
		failed += slot.failed
	}
	return all, failed
}
