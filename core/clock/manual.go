package clock

import (
	"sync"
	"time"
)

// Manual is a clock that stands still until Advance. It is safe for use by many
// goroutines.
type Manual struct {
	mutex   sync.Mutex
	now     time.Time
	waiting map[*manualTimer]struct{}
}

type manualTimer struct {
	clock *Manual
	due   time.Time
	call  func()
}

// NewManual makes a clock that shows now.
func NewManual(now time.Time) *Manual {
	return &Manual{now: now, waiting: map[*manualTimer]struct{}{}}
}

// Now tells the time.
func (m *Manual) Now() time.Time {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.now
}

// AfterFunc calls f once the clock has advanced by d.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	timer := &manualTimer{clock: m, due: m.now.Add(d), call: f}
	if d <= 0 {
		go f()
		return timer
	}
	m.waiting[timer] = struct{}{}
	return timer
}

// Stop prevents the callback.
func (t *manualTimer) Stop() bool {
	t.clock.mutex.Lock()
	defer t.clock.mutex.Unlock()
	_, waits := t.clock.waiting[t]
	delete(t.clock.waiting, t)
	return waits
}

// Advance moves the clock and starts what has become due, in order of time.
func (m *Manual) Advance(d time.Duration) {
	m.mutex.Lock()
	end := m.now.Add(d)
	for {
		var next *manualTimer
		for timer := range m.waiting {
			if !timer.due.After(end) && (next == nil || timer.due.Before(next.due)) {
				next = timer
			}
		}
		if next == nil {
			break
		}
		delete(m.waiting, next)
		if next.due.After(m.now) {
			m.now = next.due
		}
		go next.call()
	}
	m.now = end
	m.mutex.Unlock()
}
