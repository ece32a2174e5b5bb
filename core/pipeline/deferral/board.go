package deferral

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Fact is a key with deferred events, as this process knows it.
type Fact struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Key       string `json:"key"`
	Events    uint64 `json:"events"` // in its queue
	Attempts  uint32 `json:"attempts"`
	Next      int64  `json:"next"`   // when the head is retried, in ms
	Reason    string `json:"reason"` // why the head failed; empty: it failed before this process had it
}

// Board is what operators see of deferred keys: those that this process has deferred or
// retried since it has their partitions. Keys beyond its size are forgotten (I4). A nil
// one notes nothing.
type Board struct {
	mutex sync.Mutex
	facts *simplelru.LRU[seat, Fact]
}

type seat struct{ topic, key string }

// reason is the most bytes of a reason.
const reason = 300

// NewBoard makes a board for a number of keys.
func NewBoard(size int) *Board {
	facts, _ := simplelru.NewLRU[seat, Fact](max(1, size), nil) // fails below 1 only
	return &Board{facts: facts}
}

// Wrap notes what the deferral does.
func (b *Board) Wrap(next pipeline.Handler) pipeline.Handler {
	if b == nil {
		return next
	}
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		retry := invocation.Event.Kind == event.Retry
		outcome := next.Handle(ctx, invocation)
		if invocation.Entity != nil && (retry || outcome.Class == pipeline.Deferred) {
			b.note(ctx, invocation, retry, outcome)
		}
		return outcome
	})
}

func (b *Board) note(ctx context.Context, invocation *pipeline.Invocation, retry bool, outcome pipeline.Outcome) {
	of := invocation.Event
	var queue entity.Queue
	if txn, begun := invocation.Txn.(*entity.Txn); begun && txn != nil {
		queue = txn.Queue()
	} else {
		var err error
		if queue, err = invocation.Entity.Queue(ctx); err != nil {
			return
		}
		if outcome.Class == pipeline.Permanent && queue.Head != queue.Tail {
			queue.Head++
		}
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	at := seat{of.Topic, of.Key}
	if queue.Head == queue.Tail {
		b.facts.Remove(at)
		return
	}
	known, _ := b.facts.Peek(at)
	fact := Fact{
		Topic: of.Topic, Partition: of.Partition, Key: of.Key,
		Events: queue.Tail - queue.Head, Attempts: queue.Count, Next: queue.Due, Reason: known.Reason,
	}
	switch {
	case outcome.Class != pipeline.Deferred:
		fact.Reason = "" // another one is the head now
	case outcome.Text != "" && (retry || fact.Events == 1):
		fact.Reason = pipeline.Clip(outcome.Text, reason)
	}
	b.facts.Add(at, fact)
}

// Drop forgets the keys of a partition.
func (b *Board) Drop(name kafka.Partition) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, at := range b.facts.Keys() {
		if fact, _ := b.facts.Peek(at); fact.Topic == name.Topic && fact.Partition == name.Index {
			b.facts.Remove(at)
		}
	}
}

// Counts tells how many keys of each partition are deferred.
func (b *Board) Counts() map[kafka.Partition]int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	counts := map[kafka.Partition]int{}
	for _, fact := range b.facts.Values() {
		counts[kafka.Partition{Topic: fact.Topic, Index: fact.Partition}]++
	}
	return counts
}

// Snapshot lists the keys that are retried next.
func (b *Board) Snapshot(most int) []Fact {
	b.mutex.Lock()
	facts := b.facts.Values()
	b.mutex.Unlock()
	slices.SortFunc(facts, func(x, y Fact) int { return cmp.Or(cmp.Compare(x.Next, y.Next), cmp.Compare(x.Key, y.Key)) })
	return facts[:min(most, len(facts))]
}
