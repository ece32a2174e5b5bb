package entity

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

type step struct {
	kind   string
	second uint32
}

func steps(t *rapid.T, label string) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			rapid.SampledFrom([]string{"schedule", "unschedule", "clear", "replace"}).Draw(t, "kind"),
			rapid.Uint32Range(1, 12).Draw(t, "second"),
		}
	}), 0, 5).Draw(t, label)
}

func (s step) to(a *agenda) {
	switch s.kind {
	case "schedule":
		a.schedule(s.second, "new")
	case "unschedule":
		a.unschedule(s.second)
	case "clear":
		a.all()
	case "replace":
		a.all()
		a.schedule(s.second, "new")
	}
}

func (s step) model(set map[int64]bool) {
	if s.kind == "clear" || s.kind == "replace" {
		clear(set)
	}
	switch s.kind {
	case "schedule", "replace":
		set[int64(s.second)] = true
	case "unschedule":
		delete(set, int64(s.second))
	}
}

func sorted(set map[int64]bool) []int64 { return slices.AppendSeq([]int64{}, sortedKeys(set)) }

func sortedKeys(set map[int64]bool) func(func(int64) bool) {
	return slices.Values(slices.Sorted(maps.Keys(set)))
}

func seconds(timers []timer) (list []int64) {
	list = []int64{}
	for _, t := range timers {
		list = append(list, int64(t.second))
	}
	return list
}

// What an attempt sees is a set without the firing second; what becomes durable is that
// set, and while the firing is not over, its second too. Rows, root, memory and what the
// observer hears agree.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		present := rapid.MapOfN(rapid.Uint32Range(1, 12), rapid.Just(true), 0, 12).Draw(t, "present")
		var timers []timer
		model := map[int64]bool{}
		for _, second := range slices.Sorted(maps.Keys(present)) {
			timers = append(timers, timer{second: second, trace: "old"})
			model[int64(second)] = true
		}
		a := agenda{firing: never}
		if rapid.Bool().Draw(t, "fires") {
			a.firing = int64(rapid.Uint32Range(1, 12).Draw(t, "firing"))
			delete(model, a.firing)
		}
		heap := maps.Clone(model) // the observer's: what fires has left it
		for _, s := range steps(t, "steps") {
			s.to(&a)
			s.model(model)
			assert.Equal(t, sorted(model), a.view(timers))
		}
		_, rings := find(timers, uint32(a.firing))
		rings = rings && a.firing >= 0
		a.final = a.firing >= 0 && rapid.Bool().Draw(t, "final")
		want := maps.Clone(model)
		if rings && !a.final {
			want[a.firing] = true
		}
		s := a.apply(timers)
		first, count := s.first(timers, 4)
		rows := map[int64]bool{}
		for _, t := range timers {
			rows[int64(t.second)] = true
		}
		for _, second := range s.drops {
			assert.True(t, rows[int64(second)])
			delete(rows, int64(second))
		}
		for _, put := range s.puts {
			rows[int64(put.second)] = true
		}
		after := s.install(slices.Clone(timers))
		assert.Equal(t, sorted(want), seconds(after))
		assert.Equal(t, sorted(want), sorted(rows))
		assert.Equal(t, len(want), count)
		for i, second := range first {
			assert.Equal(t, after[i].second, second)
		}
		assert.Len(t, first, min(4, count))
		for _, second := range s.removed {
			delete(heap, second)
		}
		for _, second := range s.added {
			assert.False(t, heap[second], "%d twice", second)
			heap[second] = true
		}
		if a.final || a.firing < 0 || !rings {
			assert.Equal(t, sorted(model), sorted(heap))
		}
	})
}

func TestWhatIsScheduledAnewWhileItFires(t *testing.T) {
	durably := func(timers []timer, change func(*agenda)) []timer {
		a := agenda{firing: 5}
		change(&a)
		s := a.apply(timers)
		assert.Empty(t, s.added)
		assert.Empty(t, s.removed)
		return s.install(timers)
	}
	over := func(timers []timer, change func(*agenda)) (shift, []timer) {
		a := agenda{firing: 5, final: true}
		change(&a)
		s := a.apply(timers)
		return s, s.install(timers)
	}
	nothing := func(*agenda) {}
	again := func(a *agenda) { a.schedule(5, "again") }

	timers := durably([]timer{{second: 5}}, again)
	assert.Equal(t, []int64{5}, (&agenda{firing: 5}).view(timers), "the next attempt sees it")
	s, timers := over(timers, nothing)
	assert.Equal(t, []timer{{second: 5, trace: "again"}}, timers, "it fires once more")
	assert.Equal(t, []int64{5}, s.removed)
	assert.Equal(t, []int64{5}, s.added)
	s, timers = over(timers, nothing)
	assert.Empty(t, timers, "but once")
	assert.Equal(t, []int64{5}, s.removed)
	assert.Empty(t, s.added)

	timers = durably(durably([]timer{{second: 5}}, again), (*agenda).all)
	assert.Equal(t, []int64{5}, seconds(timers), "what fires stays until it is over")
	_, timers = over(timers, nothing)
	assert.Empty(t, timers)

	s, timers = over(durably([]timer{{second: 5}}, again), func(a *agenda) { a.unschedule(5) })
	assert.Empty(t, timers)
	assert.Empty(t, s.added)
}

func TestManyTimers(t *testing.T) {
	a := agenda{firing: never}
	for second := range uint32(5000) {
		a.schedule(second*3, "t")
	}
	s := a.apply(nil)
	timers := s.install(nil)
	assert.Len(t, timers, 5000)
	assert.True(t, slices.IsSortedFunc(timers, func(a, b timer) int { return int(a.second) - int(b.second) }))
	b := agenda{firing: never}
	b.all()
	b.schedule(7, "t")
	s = b.apply(timers)
	assert.Equal(t, []int64{7}, seconds(s.install(timers)))
}

func TestTimerRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := timer{second: rapid.Uint32().Draw(t, "second"), trace: rapid.String().Draw(t, "trace")}
		put := want.put()
		assert.NotNil(t, put.Data)
		second, ok := instant(put.Coordinate)
		assert.True(t, ok)
		assert.Equal(t, want, decodeTimer(second, put.Data))
		decodeTimer(0, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) // no panic
	})
	assert.Less(t, at(255).Coordinate, at(256).Coordinate)
}
