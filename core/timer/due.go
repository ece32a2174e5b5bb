package timer

import (
	"cmp"
	"slices"

	"prosody/core/event"
	"prosody/core/kafka"
)

// Due is a timer that is in memory.
type Due struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Key       string `json:"key"`
	Due       int64  `json:"due"`   // ms
	Fired     bool   `json:"fired"` // it is handled now
}

// Next lists the timers that are due first.
func (t *Timers) Next(most int) []Due {
	t.mutex.Lock()
	var list []Due
	for _, p := range t.parts {
		at := p.lease.Partition()
		for _, e := range p.agenda.entries {
			if e.kind == event.Timer && e.state != gone {
				list = append(list, Due{at.Topic, at.Index, e.key, e.due, e.state == fired})
			}
		}
		if len(list) > 4096 {
			list = first(list, most)
		}
	}
	t.mutex.Unlock()
	return first(list, most)
}

func first(list []Due, most int) []Due {
	slices.SortFunc(list, func(x, y Due) int { return cmp.Or(cmp.Compare(x.Due, y.Due), cmp.Compare(x.Key, y.Key)) })
	return list[:min(most, len(list))]
}

// Retries counts the keys of each partition whose deferred queue is retried within the
// time that is loaded.
func (t *Timers) Retries() map[kafka.Partition]int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	counts := map[kafka.Partition]int{}
	for _, p := range t.parts {
		at := p.lease.Partition()
		for _, e := range p.agenda.entries {
			if e.kind == event.Retry && e.state != gone {
				counts[at]++
			}
		}
	}
	return counts
}
