package timer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/entity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whatever is scheduled, taken back, fails, moves or crashes: each timer and retry comes,
// never early, and only once unless its handler was cut off.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		limit := rapid.IntRange(1, 6).Draw(rt, "limit")
		most := rapid.SampledFrom([]int{4, 12, 1000}).Draw(rt, "most")
		steps := rapid.SliceOfN(rapid.IntRange(0, 99), 5, 60).Draw(rt, "steps")
		var faults []string
		synctest.Test(t, func(*testing.T) { faults = play(seed, limit, most, steps) })
		if len(faults) > 0 {
			rt.Fatalf("%d faults, first: %v", len(faults), faults[:min(5, len(faults))])
		}
	})
}

func play(seed uint64, limit, most int, steps []int) []string {
	w := newWorld(seed)
	w.broken = int(w.pick(3)) * 10
	start := func() *owner {
		o := w.own(limit, most)
		o.timers.Start(o.fire)
		for index := range w.count {
			o.assign(int32(index))
		}
		return o
	}
	o := start()
	for _, step := range steps {
		key := fmt.Sprint("key-", w.pick(12))
		now := time.Now().Unix()
		switch {
		case step < 50: // near, past and far
			second := now + w.pick(200) - 20
			if step < 4 {
				second = w.pick(1000)
			} else if step < 8 {
				second = now + w.pick(10_000)
			}
			o.due(key, entity.Change{Added: []int64{second}})
		case step < 60:
			w.mutex.Lock()
			var removed []int64
			for second := range w.key(key).timers {
				if w.key(key).timers[second].started == 0 {
					removed = append(removed, second)
				}
			}
			w.mutex.Unlock()
			if len(removed) > 0 {
				o.due(key, entity.Change{Removed: removed})
			}
		case step < 68:
			o.due(key, entity.Change{Moved: true, Due: time.Now().UnixMilli() + 1 + w.pick(200_000)})
		case step < 88:
			time.Sleep(time.Duration(w.pick(60_000)) * time.Millisecond)
		case step < 92: // a new assignment of one partition
			for at, l := range o.leases {
				w.mutex.Lock()
				idle := true
				for name, f := range w.keys {
					idle = idle && (!f.runs || w.homed(name) != at)
				}
				w.mutex.Unlock()
				if idle {
					o.timers.Leave(l)
					o.assign(at.Index)
				}
				break
			}
		case step < 97:
			o.crash()
			time.Sleep(time.Duration(w.pick(200_000)) * time.Millisecond)
			o = start()
		default:
			w.mutex.Lock()
			w.broken = 10 - w.broken
			w.broken = max(0, w.broken)
			w.mutex.Unlock()
		}
	}
	w.mutex.Lock()
	w.broken = 0
	w.mutex.Unlock()
	time.Sleep(30 * time.Minute)
	if left := w.left(time.Now().Add(-10 * time.Second)); len(left) > 0 {
		w.fault("not fired: %v; %+v", left, o.timers.Snapshot())
	}
	o.crash()
	return w.faults
}
