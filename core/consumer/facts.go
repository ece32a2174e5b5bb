package consumer

import (
	"fmt"
	"time"

	"prosody/core/health"
	"prosody/core/kafka"
	"prosody/core/partition"
)

// Snapshot is the state of a consumer at one moment.
type Snapshot struct {
	Group   string `json:"group"`
	Joined  bool   `json:"joined"`
	Workers int    `json:"workers"`
	partition.Facts
	Partitions []Partition `json:"partitions"` // in place of that of Facts
}

// Partition is the state of one assignment, and how far it is behind.
type Partition struct {
	partition.PartitionFact
	End int64 `json:"end"` // of the log; -1: not known yet
	Lag int64 `json:"lag"` // from the position to the end; -1: not known yet
	// Deferred counts keys with deferred events, as far as the process knows them.
	Deferred int `json:"deferred"`
}

// Snapshot reads the state.
func (c *Consumer) Snapshot() Snapshot {
	made := Snapshot{Group: c.options.Group, Joined: c.Joined(), Partitions: []Partition{}}
	c.locked(func() {
		made.Facts = c.set.Snapshot(time.Now())
		made.Workers = c.workers
	})
	for _, fact := range made.Facts.Partitions {
		found := Partition{PartitionFact: fact, End: -1, Lag: -1}
		if end, known := c.kafka.End(kafka.Partition{Topic: fact.Topic, Index: fact.Partition}); known {
			found.End = end
			if fact.Position >= 0 {
				found.Lag = max(0, end-fact.Position)
			}
		}
		made.Partitions = append(made.Partitions, found)
	}
	made.Facts.Partitions = nil
	return made
}

// Busy tells what the consumer still has to do, or nothing, and a number that grows with
// all that comes in.
func (c *Consumer) Busy() (moves int64, reason string) {
	c.locked(func() { moves, reason = c.set.Moves(), c.set.Busy() })
	return moves, reason
}

// Keys lists keys at work and keys that wait, the oldest first.
func (c *Consumer) Keys(most int) (running, waiting []partition.KeyFact) {
	c.locked(func() { running, waiting = c.set.Keys(time.Now(), most) })
	return running, waiting
}

// Partitions counts what is assigned.
func (c *Consumer) Partitions() (count int) {
	c.locked(func() { count = c.set.Len() })
	return count
}

// Count tells how many partitions a topic has, as last seen, or false.
func (c *Consumer) Count(topic string) (int, bool) { return c.kafka.Count(topic) }

// Joined tells whether the member is in its group, with or without partitions.
func (c *Consumer) Joined() bool {
	stopping := false
	c.locked(func() { stopping = c.stopping })
	return !stopping && c.kafka.Joined()
}

// Stalled gives a reason for each thing that stands still; none is healthy. Work that
// fails and is tried again is no standstill.
func (c *Consumer) Stalled() []string { return health.Texts(c.Reasons()) }

// Reasons is Stalled with what each reason is about.
func (c *Consumer) Reasons() (reasons []health.Reason) {
	now := time.Now()
	c.locked(func() {
		if c.stopping {
			return
		}
		if c.broken != "" {
			reasons = append(reasons, health.Of(health.Process, c.broken))
		}
		if silent := now.Sub(time.Unix(0, c.polled.Load())); silent > c.options.StallThreshold {
			reasons = append(reasons, health.Of(health.PollLoop, fmt.Sprintf("the poll loop has been silent for %s", silent.Round(time.Millisecond))))
		}
		if held := now.Sub(c.held); !c.held.IsZero() && held > c.options.StallThreshold {
			reasons = append(reasons, health.Of(health.Group, fmt.Sprintf("the group has refused commits of this member for %s", held.Round(time.Millisecond))))
		}
		reasons = append(reasons, c.set.Reasons(now, c.options.StallThreshold)...)
	})
	return reasons
}
