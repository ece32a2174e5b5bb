package pipeline

import (
	"sync/atomic"

	"prosody/core/event"
	"prosody/core/tally"
)

// Counts is what the middleware of one chain has counted. All but Waiting only grow.
type Counts struct {
	Attempts    atomic.Int64 // calls of the host's handler
	Retries     atomic.Int64 // those of them that repeat a failed one of the same event
	Timeouts    atomic.Int64 // attempts that met their time-out
	Successes   atomic.Int64 // events whose handler succeeded
	Permanent   atomic.Int64 // events whose handler failed permanently
	Discarded   atomic.Int64 // events given up without a dead letter
	DeadLetters atomic.Int64 // events and invalid records copied to the failure topic
	Unsent      atomic.Int64 // failed attempts to write a dead letter
	Aborted     atomic.Int64 // events left to the next owner
	Duplicates  atomic.Int64 // events that were skipped since they were done before
	Deferred    atomic.Int64 // events put aside, for they failed or others of their key wait
	Lost        atomic.Int64 // deferred events whose record is not in the log any more
	Unstored    atomic.Int64 // failed attempts to read or write a key's record
	Waiting     atomic.Int64 // events that wait for a permit now

	Times tally.Family[Attempt] // how long the host's handler took
}

// Attempt is what the times of handlers are told apart by.
type Attempt struct {
	Topic string
	Kind  event.Kind
	Class Class
}

// Snapshot is the value of Counts at one moment.
type Snapshot struct {
	Attempts    int64 `json:"attempts"`
	Retries     int64 `json:"retries"`
	Timeouts    int64 `json:"timeouts"`
	Successes   int64 `json:"successes"`
	Permanent   int64 `json:"permanent"`
	Discarded   int64 `json:"discarded"`
	DeadLetters int64 `json:"dead_letters"`
	Unsent      int64 `json:"dead_letters_unsent"`
	Aborted     int64 `json:"aborted"`
	Duplicates  int64 `json:"duplicates"`
	Deferred    int64 `json:"deferred"`
	Lost        int64 `json:"deferred_lost"`
	Unstored    int64 `json:"store_failures"`
	Waiting     int64 `json:"waiting"`

	Times map[Attempt]tally.Durations `json:"-"`
}

// Snapshot reads the counters.
func (c *Counts) Snapshot() Snapshot {
	return Snapshot{
		Attempts:    c.Attempts.Load(),
		Retries:     c.Retries.Load(),
		Timeouts:    c.Timeouts.Load(),
		Successes:   c.Successes.Load(),
		Permanent:   c.Permanent.Load(),
		Discarded:   c.Discarded.Load(),
		DeadLetters: c.DeadLetters.Load(),
		Unsent:      c.Unsent.Load(),
		Aborted:     c.Aborted.Load(),
		Duplicates:  c.Duplicates.Load(),
		Deferred:    c.Deferred.Load(),
		Lost:        c.Lost.Load(),
		Unstored:    c.Unstored.Load(),
		Waiting:     c.Waiting.Load(),
		Times:       c.Times.Snapshot(),
	}
}
