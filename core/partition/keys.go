package partition

import (
	"cmp"
	"slices"
	"time"
)

// KeyFact is a key with something to do.
type KeyFact struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Key       string  `json:"key"`
	Kind      string  `json:"kind"`    // of the event that runs, or waits first
	Offset    int64   `json:"offset"`  // of it; -1: none
	Age       float64 `json:"age"`     // seconds: since its start, or since the time of the first event that waits
	Waiting   int     `json:"waiting"` // events behind it
	Blocked   bool    `json:"blocked"` // it stands still
}

// Keys lists the keys whose event has run for the longest time, and those that have waited
// for the longest time while nothing of them runs.
func (s *Set) Keys(now time.Time, most int) (running, waiting []KeyFact) {
	for _, p := range s.parts {
		for _, k := range p.keys {
			fact := KeyFact{Topic: p.name.Topic, Partition: p.name.Index, Key: k.name, Offset: -1, Blocked: k.blocked}
			for i := k.waiting.head; i != nil; i = i.next {
				fact.Waiting++
			}
			switch {
			case k.running != nil && k.running.event != nil:
				fact.Kind, fact.Offset = k.running.event.Kind.String(), k.running.offset
				fact.Age = now.Sub(k.running.started).Seconds()
				running = append(running, fact)
			case k.waiting.head != nil && k.waiting.head.event != nil:
				first := k.waiting.head
				fact.Kind, fact.Offset = first.event.Kind.String(), first.offset
				if at := first.event.Timestamp; at > 0 {
					fact.Age = max(0, now.Sub(time.UnixMilli(at)).Seconds())
				}
				waiting = append(waiting, fact)
			}
		}
	}
	return oldest(running, most), oldest(waiting, most)
}

func oldest(facts []KeyFact, most int) []KeyFact {
	slices.SortFunc(facts, func(x, y KeyFact) int { return cmp.Or(cmp.Compare(y.Age, x.Age), cmp.Compare(x.Key, y.Key)) })
	return facts[:min(most, len(facts))]
}
