package clock

import (
	"slices"
	"sync"
	"time"
)

// Shifted is a clock that flows like the real one and can be moved ahead of it: the one
// of mock mode. It is safe for use by many goroutines.
type Shifted struct {
	mutex   sync.Mutex
	ahead   time.Duration
	waiting map[*shiftedTimer]struct{}
}

type shiftedTimer struct {
	clock *Shifted
	due   time.Time
	call  func()
	real  *time.Timer
}

// NewShifted makes a clock that shows the real time.
func NewShifted() *Shifted { return &Shifted{waiting: map[*shiftedTimer]struct{}{}} }

// Now tells the time.
func (s *Shifted) Now() time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.now()
}

func (s *Shifted) now() time.Time { return time.Now().Add(s.ahead) }

// AfterFunc calls f once the clock has moved on by d.
func (s *Shifted) AfterFunc(d time.Duration, f func()) Timer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	timer := &shiftedTimer{clock: s, due: s.now().Add(d), call: f}
	timer.real = time.AfterFunc(d, timer.fire)
	s.waiting[timer] = struct{}{}
	return timer
}

// fire runs in a goroutine of its own.
func (t *shiftedTimer) fire() {
	if t.Stop() {
		t.call()
	}
}

// Stop prevents the callback.
func (t *shiftedTimer) Stop() bool {
	t.clock.mutex.Lock()
	defer t.clock.mutex.Unlock()
	_, waits := t.clock.waiting[t]
	delete(t.clock.waiting, t)
	t.real.Stop()
	return waits
}

// Advance moves the clock and starts what has become due, in order of time.
func (s *Shifted) Advance(d time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ahead += max(d, 0)
	now := s.now()
	var due []*shiftedTimer
	for timer := range s.waiting {
		if left := timer.due.Sub(now); left > 0 {
			timer.real.Reset(left)
		} else {
			due = append(due, timer)
		}
	}
	slices.SortFunc(due, func(a, b *shiftedTimer) int { return a.due.Compare(b.due) })
	for _, timer := range due {
		delete(s.waiting, timer)
		timer.real.Stop()
		go timer.call()
	}
}
