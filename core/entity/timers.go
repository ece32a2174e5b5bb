package entity

import (
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"prosody/core/store"
)

// timer is a durable timer of a key. Renewed: it was scheduled anew, durably, while it
// was firing.
type timer struct {
	second  uint32
	renewed bool
	trace   string
}

func at(second uint32) store.Slot {
	return store.Slot{Kind: store.Timer, Coordinate: string(binary.BigEndian.AppendUint32(nil, second))}
}

const fieldTrace protowire.Number = 1

func (t timer) put() store.Put {
	data := []byte{}
	if t.trace != "" {
		data = protowire.AppendTag(data, fieldTrace, protowire.BytesType)
		data = protowire.AppendString(data, t.trace)
	}
	return store.Put{Row: store.Row{Slot: at(t.second), Data: data}}
}

func decodeTimer(second uint32, data []byte) timer {
	t := timer{second: second}
	for len(data) > 0 {
		field, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			break
		}
		length := protowire.ConsumeFieldValue(field, kind, data[size:])
		if length < 0 {
			break
		}
		if field == fieldTrace && kind == protowire.BytesType {
			t.trace, _ = protowire.ConsumeString(data[size:])
		}
		data = data[size+length:]
	}
	return t
}

func find(timers []timer, second uint32) (int, bool) {
	return slices.BinarySearchFunc(timers, second, func(t timer, s uint32) int {
		switch {
		case t.second < s:
			return -1
		case t.second > s:
			return 1
		}
		return 0
	})
}

// never is a second at which nothing fires.
const never = -1

// wish is what becomes of a second.
type wish struct {
	keep  bool
	trace string
}

// agenda is what an attempt changes of the timers.
type agenda struct {
	clear  bool
	wishes map[uint32]wish
	firing int64 // the second that fires; the attempt does not see its timer
	final  bool  // the firing is over
}

func (a *agenda) schedule(second uint32, trace string) {
	if a.wishes == nil {
		a.wishes = map[uint32]wish{}
	}
	a.wishes[second] = wish{keep: true, trace: trace}
}

func (a *agenda) unschedule(second uint32) {
	if a.wishes == nil {
		a.wishes = map[uint32]wish{}
	}
	a.wishes[second] = wish{}
}

func (a *agenda) all() { a.clear, a.wishes = true, nil }

func (a *agenda) empty() bool { return !a.clear && len(a.wishes) == 0 && !a.final }

// view lists the seconds that an attempt sees.
func (a *agenda) view(timers []timer) []int64 {
	seconds := make([]int64, 0, len(timers)+len(a.wishes))
	for _, t := range timers {
		if _, wished := a.wishes[t.second]; wished || a.clear || int64(t.second) == a.firing && !t.renewed {
			continue
		}
		seconds = append(seconds, int64(t.second))
	}
	for second, w := range a.wishes {
		if w.keep {
			seconds = append(seconds, int64(second))
		}
	}
	slices.Sort(seconds)
	return seconds
}

// shift is the effect of an agenda on timers.
type shift struct {
	puts    []timer  // ascending; rows to write
	drops   []uint32 // ascending; rows to delete
	firm    uint32   // its timer is not renewed any more, where settle is set
	settle  bool
	added   []int64
	removed []int64
}

// apply works out what the agenda does to timers.
func (a *agenda) apply(timers []timer) shift {
	var s shift
	fires := func(second uint32) bool { return int64(second) == a.firing }
	if a.clear {
		for _, t := range timers {
			if w := a.wishes[t.second]; !w.keep && !fires(t.second) {
				s.drop(t.second)
			}
		}
	}
	for second, w := range a.wishes {
		_, exists := find(timers, second)
		switch {
		case fires(second) && exists:
		case w.keep:
			s.puts = append(s.puts, timer{second: second, trace: w.trace})
			if !exists {
				s.added = append(s.added, int64(second))
			}
		case exists && !a.clear:
			s.drop(second)
		}
	}
	s.fire(a, timers)
	slices.SortFunc(s.puts, func(a, b timer) int { return int(int64(a.second) - int64(b.second)) })
	slices.Sort(s.drops)
	slices.Sort(s.added)
	slices.Sort(s.removed)
	return s
}

// fire works out what becomes of the timer that fires.
func (s *shift) fire(a *agenda, timers []timer) {
	if a.firing < 0 || a.firing > math.MaxUint32 {
		return
	}
	second := uint32(a.firing)
	i, exists := find(timers, second)
	if !exists {
		return
	}
	w, wished := a.wishes[second]
	switch {
	case w.keep:
		s.puts = append(s.puts, timer{second: second, trace: w.trace, renewed: !a.final})
	case a.final && (wished || a.clear || !timers[i].renewed):
		s.drop(second)
		return
	case a.final || wished || a.clear:
		s.settle, s.firm = true, second
	}
	if a.final {
		s.removed = append(s.removed, a.firing)
		s.added = append(s.added, a.firing)
	}
}

func (s *shift) drop(second uint32) {
	s.drops = append(s.drops, second)
	s.removed = append(s.removed, int64(second))
}

// first lists the earliest seconds after the shift, and counts all.
func (s *shift) first(timers []timer, most int) (seconds []uint32, count int) {
	count = len(timers) - len(s.drops)
	fresh := make([]uint32, 0, len(s.puts))
	for _, put := range s.puts {
		if _, exists := find(timers, put.second); !exists {
			count++
			fresh = append(fresh, put.second)
		}
	}
	if count == 0 {
		return nil, 0
	}
	seconds = make([]uint32, 0, min(most, count))
	drops := s.drops
	for _, t := range timers {
		for len(fresh) > 0 && fresh[0] < t.second && len(seconds) < most {
			seconds, fresh = append(seconds, fresh[0]), fresh[1:]
		}
		if len(seconds) == most {
			return seconds, count
		}
		if len(drops) > 0 && drops[0] == t.second {
			drops = drops[1:]
			continue
		}
		seconds = append(seconds, t.second)
	}
	return append(seconds, fresh[:min(len(fresh), most-len(seconds))]...), count
}

// install makes the shift in memory.
func (s *shift) install(timers []timer) []timer {
	if s.settle {
		if i, exists := find(timers, s.firm); exists {
			timers[i].renewed = false
		}
	}
	if len(s.drops) > 8 {
		drops := s.drops
		timers = slices.DeleteFunc(timers, func(t timer) bool {
			if len(drops) > 0 && drops[0] == t.second {
				drops = drops[1:]
				return true
			}
			return false
		})
	} else {
		for _, second := range s.drops {
			if i, exists := find(timers, second); exists {
				timers = slices.Delete(timers, i, i+1)
			}
		}
	}
	for _, put := range s.puts {
		if i, exists := find(timers, put.second); exists {
			timers[i] = put
		} else {
			timers = slices.Insert(timers, i, put)
		}
	}
	if len(timers) == 0 {
		return nil
	}
	return timers
}

func instant(coordinate string) (uint32, bool) {
	if len(coordinate) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32([]byte(coordinate)), true
}
