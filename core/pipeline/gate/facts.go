package gate

import (
	"cmp"
	"slices"
)

// Fact is what the gate knows of a topic.
type Fact struct {
	Topic    string  `json:"topic"`
	Events   int     `json:"events"` // first deliveries in the window
	Failures int     `json:"failures"`
	Rate     float64 `json:"rate"` // failures for each event
	Open     bool    `json:"open"` // a failing event may step aside
}

// Snapshot tells what is known of each topic, by its name.
func (g *Gate) Snapshot() []Fact {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := g.now()
	facts := make([]Fact, 0, len(g.rings))
	for topic, found := range g.rings {
		all, failed := found.sum(now)
		fact := Fact{Topic: topic, Events: all, Failures: failed, Open: g.open(all, failed)}
		if all > 0 {
			fact.Rate = float64(failed) / float64(all)
		}
		facts = append(facts, fact)
	}
	slices.SortFunc(facts, func(a, b Fact) int { return cmp.Compare(a.Topic, b.Topic) })
	return facts
}

// open decides on what was counted.
func (g *Gate) open(all, failed int) bool {
	return all < g.options.Least || float64(failed) < g.options.Threshold*float64(all)
}
