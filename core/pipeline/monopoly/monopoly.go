// Package monopoly owns how much of the recent time the handlers of a key may take: a
// key that is busy nearly all the time steps back, so that it does not hold a permit
// for good.
//
// Time is counted where it is spent, when the handler ends, however it ends. So nothing
// can be left open, and a key that was refused is always admitted again later.
//
// It upholds I4: the keys are bounded, the one used last stays longest.
package monopoly

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Options say when a key is refused.
type Options struct {
	Threshold float64       // share of the window that handlers may take
	Window    time.Duration // 5 min
	Cache     int           // keys; 8192
	Clock     clock.Clock
	Log       *slog.Logger
}

const (
	parts = 32        // of the window
	slots = parts + 1 // of a ring: the window ends within the oldest
)

// Monopoly counts the time of handlers by topic, partition and key.
type Monopoly struct {
	options Options
	step    time.Duration
	mutex   sync.Mutex
	keys    map[place]*list.Element
	recent  *list.List // of *usage, the one used last in front
}

type place struct {
	at  kafka.Partition
	key string
}

// usage is a ring of times by step.
type usage struct {
	place
	last  int64
	slots [slots]time.Duration
}

// New makes a Monopoly.
func New(options Options) *Monopoly {
	if options.Window <= 0 {
		options.Window = 5 * time.Minute
	}
	if options.Cache <= 0 {
		options.Cache = 8192
	}
	return &Monopoly{
		options: options, step: max(1, options.Window/parts), keys: map[place]*list.Element{}, recent: list.New(),
	}
}

// Wrap refuses the events of a key that takes more than its share.
func (m *Monopoly) Wrap(next pipeline.Handler) pipeline.Handler {
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		where := place{invocation.Event.At(), invocation.Event.Key}
		if share := m.share(where); share > m.options.Threshold {
			m.options.Log.Warn("key takes more than its share of time", append(pipeline.Fields(invocation.Event),
				slog.Float64("share", share))...)
			return pipeline.Outcome{Class: pipeline.Transient, Text: fmt.Sprintf(
				"monopolization: the handlers of the key took %.0f%% of the last %s", share*100, m.options.Window)}
		}
		began := m.options.Clock.Now()
		defer func() { m.spend(where, began, m.options.Clock.Now()) }()
		return next.Handle(ctx, invocation)
	})
}

// share is the part of the window that the key has taken.
func (m *Monopoly) share(where place) float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	found := m.keys[where]
	if found == nil {
		return 0
	}
	return m.shared(found.Value.(*usage), m.options.Clock.Now().UnixNano())
}

// shared is the share of a usage; under the mutex.
func (m *Monopoly) shared(u *usage, now int64) float64 {
	u.turn(now / int64(m.step))
	var total time.Duration
	for _, spent := range u.slots {
		total += spent
	}
	// Of the oldest step only a part is in the window.
	oldest := &u.slots[(u.last+1)%slots]
	total -= time.Duration(float64(*oldest) * float64(now%int64(m.step)) / float64(m.step))
	return float64(total) / float64(m.step*parts)
}

// spend adds an interval.
func (m *Monopoly) spend(where place, began, ended time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	found := m.keys[where]
	if found == nil {
		found = m.recent.PushFront(&usage{place: where})
		m.keys[where] = found
		if oldest := m.recent.Back(); m.recent.Len() > m.options.Cache {
			m.recent.Remove(oldest)
			delete(m.keys, oldest.Value.(*usage).place)
		}
	}
	m.recent.MoveToFront(found)
	u, step := found.Value.(*usage), int64(m.step)
	end := ended.UnixNano()
	u.turn(end / step)
	for from := max(began.UnixNano(), (end/step-slots+1)*step); from < end; {
		to := min(end, (from/step+1)*step)
		u.slots[from/step%slots] += time.Duration(to - from)
		from = to
	}
}

// turn empties the slots that time has passed.
func (u *usage) turn(now int64) {
	for step := max(u.last+1, now-slots+1); step <= now; step++ {
		u.slots[step%slots] = 0
	}
	u.last = max(u.last, now)
}
