// Package entity owns the durable record of each key: what is loaded of it, what an
// attempt changes, and the one atomic write that makes an event's effects durable.
//
// It upholds I2 (an event's effects become durable together or not at all), the local
// fencing of I6 (a revoked or lost assignment writes nothing any more) and I4 for its
// cache, which is bounded by keys and bytes; a key in use or with unwritten marks stays.
//
// A key is loaded at its first touch in an assignment. From then on memory answers, or the
// disk cache where memory had no room: an event that changes something costs one write, one
// that changes nothing a mark that is written behind, before the offset commit passes it.
package entity

import (
	"log/slog"
	"time"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/store"
	"prosody/core/store/disk"
)

// Options say where and how a Keeper keeps. Zero values have the defaults that the
// comments name.
type Options struct {
	Store    store.Store
	Disk     *disk.Cache // of what has no room in memory; none
	Group    string
	Version  string        // idempotence_version: marks of another one do not count
	TTL      time.Duration // idempotence_ttl; 7 d
	Cache    int           // keys in memory; 8192
	Bytes    int64         // bytes of them; 64 MiB
	Slab     time.Duration // slab_size of the time index; 1 h
	Recovery time.Duration // state_recovery_delay; 30 s
	Timeout  time.Duration // of one call of the store; 10 s
	Parallel int           // writes in flight of a Flush; 64
	Behind   int           // keys with unwritten marks, before marks are written at once; 32768
	Clock    clock.Clock   // the real one
	Log      *slog.Logger  // none
	Observer Observer      // hears of committed changes of timers; none
	// Alive tells whether the group cannot have given the keys to others unnoticed; else
	// commits fail with fault.Kafka and can be tried again. nil: always.
	Alive func() bool
}

func (o *Options) fill() {
	period := func(value *time.Duration, otherwise time.Duration) {
		if *value <= 0 {
			*value = otherwise
		}
	}
	period(&o.TTL, 7*24*time.Hour)
	period(&o.Slab, time.Hour)
	period(&o.Recovery, 30*time.Second)
	period(&o.Timeout, 10*time.Second)
	count := func(value *int, otherwise int) {
		if *value <= 0 {
			*value = otherwise
		}
	}
	count(&o.Cache, 8192)
	count(&o.Parallel, 64)
	count(&o.Behind, 32768)
	if o.Alive == nil {
		o.Alive = func() bool { return true }
	}
	if o.Bytes <= 0 {
		o.Bytes = 64 << 20
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// MaxTimers is the most timers of a key.
const MaxTimers = 1 << 18

// MaxCommit is the most bytes that one event may change.
const MaxCommit = 64 << 20

// Observer hears of a key's timers: what a commit has changed, and what is there when the
// record is read, since a write whose answer was lost may have changed it. It is called in
// the order of the key's commits and must neither block nor call back into the key.
type Observer interface {
	Changed(lease *Lease, key string, change Change)
	// Found lists the timers, and when the head of the deferred queue is to be retried, in
	// ms; 0: no queue.
	Found(lease *Lease, key string, seconds []int64, due int64)
}

// Change is what a commit has changed. A second that fired and was scheduled again is in
// both lists: it was removed first.
type Change struct {
	Added   []int64
	Removed []int64
	Due     int64 // when the head of the deferred queue is to be retried, in ms; 0: no queue
	Moved   bool  // Due or the head has changed
}

// Timer is a timer of a key.
type Timer struct {
	Second int64
	Trace  string // trace context of what scheduled it
}

// Queue is the state of a key's deferred queue. Its rows have the sequences from Head to
// before Tail; it is empty when they are equal.
type Queue struct {
	Head, Tail uint64
	Due        int64  // when the head is to be retried, in ms
	Count      uint32 // failed attempts of the head
}

// Mark says of which event a commit is the end. The zero Mark is of none.
type Mark struct {
	Event *event.Event
	ID    bool // its id is to be remembered, not only its offset
}
