package partition

import (
	"fmt"
	"time"

	"prosody/core/health"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Counters count since the set was made.
type Counters struct {
	Received       int64 `json:"received"`
	Looped         int64 `json:"filtered_source_system"`
	Unwanted       int64 `json:"filtered_event_type"`
	Stale          int64 `json:"filtered_stale"`
	Leaving        int64 `json:"dropped_leaving"`
	Unassigned     int64 `json:"dropped_unassigned"`
	Invalid        int64 `json:"invalid"`
	Fired          int64 `json:"fired"` // timers and retries
	Succeeded      int64 `json:"succeeded"`
	Permanent      int64 `json:"permanent"`
	Transient      int64 `json:"transient"`
	Aborted        int64 `json:"aborted"`
	Ignored        int64 `json:"ignored"` // ends that came too late to count
	Retried        int64 `json:"retried"`
	Commits        int64 `json:"commits"`
	CommitFailures int64 `json:"commit_failures"`
}

func (c *Counters) add(class pipeline.Class) {
	switch class {
	case pipeline.Success:
		c.Succeeded++
	case pipeline.Permanent:
		c.Permanent++
	case pipeline.Transient:
		c.Transient++
	default:
		c.Aborted++
	}
}

func (c *Counters) commit(ok bool) {
	if ok {
		c.Commits++
	} else {
		c.CommitFailures++
	}
}

// Facts are the state of a set at one moment.
type Facts struct {
	Running    int             `json:"running"`
	Abandoned  int             `json:"abandoned"` // run for assignments that are over
	Blocked    int             `json:"blocked"`   // keys stopped by an abort
	Waiting    int             `json:"waiting"`
	Bytes      int64           `json:"waiting_bytes"`
	Counters   Counters        `json:"counters"`
	Partitions []PartitionFact `json:"partitions"`
}

// PartitionFact is the state of one assignment.
type PartitionFact struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Epoch     uint64  `json:"epoch"`
	Position  int64   `json:"position"`  // what may be committed; -1: nothing yet
	Committed int64   `json:"committed"` // -1: nothing yet
	Highest   int64   `json:"highest"`   // offset delivered; -1: none
	Running   int     `json:"running"`
	Waiting   int     `json:"waiting"`
	Keys      int     `json:"keys"` // keys that have events
	Blocked   int     `json:"blocked"`
	Beyond    int     `json:"beyond"` // records delivered beyond the watermark
	Oldest    float64 `json:"oldest"` // age of the oldest running event in seconds
	Paused    bool    `json:"paused"`
	Leaving   bool    `json:"leaving"`
}

// Snapshot reads the state.
func (s *Set) Snapshot(now time.Time) Facts {
	facts := Facts{
		Running: s.running, Abandoned: s.stale, Blocked: s.blocked, Counters: s.counters,
		Partitions: make([]PartitionFact, 0, len(s.parts)),
	}
	for _, p := range s.parts {
		facts.Waiting += p.waiting
		facts.Bytes += p.bytes
		fact := PartitionFact{
			Topic: p.name.Topic, Partition: p.name.Index, Epoch: p.epoch, Position: p.position,
			Committed: p.committed, Highest: p.highest, Running: len(p.running), Waiting: p.waiting,
			Keys: len(p.keys), Blocked: p.blocked, Beyond: p.ring.size(), Paused: p.paused, Leaving: p.leaving,
		}
		for _, i := range p.running {
			fact.Oldest = max(fact.Oldest, now.Sub(i.started).Seconds())
		}
		facts.Partitions = append(facts.Partitions, fact)
	}
	return facts
}

// Moves grows with each record and each timer that comes in.
func (s *Set) Moves() int64 { return s.counters.Received + s.counters.Fired }

// Busy tells what is not done yet, or nothing.
func (s *Set) Busy() string {
	for _, p := range s.parts {
		switch {
		case len(p.running) > 0:
			e := p.running[0].event
			if e == nil {
				return label(p.name) + ": an invalid record is dealt with"
			}
			return fmt.Sprintf("%s: the %s of key %q runs, of %d", label(p.name), e.Kind, e.Key, len(p.running))
		case p.blocked > 0:
			return fmt.Sprintf("%s: %d keys stand still after an aborted event", label(p.name), p.blocked)
		case p.waiting > 0:
			return fmt.Sprintf("%s: %d events wait", label(p.name), p.waiting)
		}
	}
	if s.stale > 0 {
		return fmt.Sprintf("%d handlers of lost partitions still run", s.stale)
	}
	return ""
}

// Stalled gives a reason for each thing that stands still: an event that has run
// without a sign of life for longer than the threshold, a key that was stopped, and
// too many of both.
func (s *Set) Stalled(now time.Time, threshold time.Duration) []string {
	return health.Texts(s.Reasons(now, threshold))
}

// Reasons is Stalled with what each reason is about.
func (s *Set) Reasons(now time.Time, threshold time.Duration) []health.Reason {
	var reasons []health.Reason
	for _, p := range s.parts {
		if p.blocked > 0 {
			reasons = append(reasons, health.At(health.Partition, p.name,
				fmt.Sprintf("%s: %d keys stand still after an aborted event", label(p.name), p.blocked)))
		}
		if i := p.slowest(); i != nil && now.Sub(i.quiet) > threshold {
			what := fmt.Sprintf("event at offset %d", i.offset)
			if i.offset < 0 {
				what = i.event.Kind.String()
			}
			reasons = append(reasons, health.At(health.Handler, p.name, fmt.Sprintf("%s: the %s has been running for %s",
				label(p.name), what, now.Sub(i.started).Round(time.Millisecond))))
		}
	}
	if s.stale+s.blocked >= s.excess {
		reasons = append(reasons, health.Of(health.Handler,
			fmt.Sprintf("nothing starts: %d abandoned handlers still run and %d keys stand still", s.stale, s.blocked)))
	}
	return reasons
}

func (p *part) slowest() *item {
	var found *item
	for _, i := range p.running {
		if found == nil || i.quiet.Before(found.quiet) {
			found = i
		}
	}
	return found
}

// Running lists the offsets that run in an assignment.
func (s *Set) Running(name kafka.Partition) []int64 {
	p := s.part(name)
	if p == nil {
		return nil
	}
	offsets := make([]int64, 0, len(p.running))
	for _, i := range p.running {
		offsets = append(offsets, i.offset)
	}
	return offsets
}

func label(name kafka.Partition) string { return fmt.Sprintf("%s:%d", name.Topic, name.Index) }
