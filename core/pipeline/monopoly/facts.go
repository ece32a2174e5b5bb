package monopoly

import (
	"cmp"
	"slices"
)

// Fact is a key that is held back.
type Fact struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Key       string  `json:"key"`
	Share     float64 `json:"share"` // of the window that its handlers took
}

// Snapshot counts the keys that are held back, and lists those with the largest share.
func (m *Monopoly) Snapshot(most int) (count int, facts []Fact) {
	m.mutex.Lock()
	now := m.options.Clock.Now().UnixNano()
	for where, found := range m.keys {
		if share := m.shared(found.Value.(*usage), now); share > m.options.Threshold {
			facts = append(facts, Fact{Topic: where.at.Topic, Partition: where.at.Index, Key: where.key, Share: share})
		}
	}
	m.mutex.Unlock()
	slices.SortFunc(facts, func(a, b Fact) int { return cmp.Compare(b.Share, a.Share) })
	return len(facts), facts[:min(most, len(facts))]
}
