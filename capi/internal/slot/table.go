// Package slot owns the invocations that the host has in hand: 64-bit tokens with a
// generation, and the wait of the core for the end that the host gives.
//
// It upholds I1 at the boundary: a handler of the host ends once, and the core learns
// of its real end. It upholds I4: a slot is used again as soon as its event has ended.
package slot

import (
	"sync"
	"sync/atomic"

	"prosody/capi/internal/keyed"
	"prosody/capi/internal/queue"
	"prosody/capi/internal/record"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

// A token is generation | place | shard; a slot's word is generation | state. The
// generation is never 0, so that small numbers are no tokens.
const (
	shardBits = 6
	placeBits = 26
	chunkBits = 6
	stateBits = 3

	shards = 1 << shardBits
	chunk  = 1 << chunkBits
)

// The states of a slot. Only the host's poll takes it from queued to open.
const (
	free      = iota
	queued    // the host has not seen it
	open      // the host has it in hand
	cancelled // and was asked to stop
	revoked   // and its end changes nothing any more
	settled   // it has ended
)

// Table holds the slots. It is safe for use by many goroutines.
type Table struct {
	shards [shards]shard
	turn   atomic.Uint32
	used   atomic.Int64
}

type shard struct {
	mutex  sync.Mutex
	free   []*Slot
	count  uint32
	chunks atomic.Pointer[[]*[chunk]Slot] // copied when it grows
	_      [24]byte                       // a cache line for each
}

// Slot is one event in the host's hands. It is a record of its queue.
type Slot struct {
	word    atomic.Uint64
	place   uint32 // place | shard
	queue   atomic.Pointer[queue.Queue]
	message record.Message
	outcome pipeline.Outcome
	done    chan struct{} // one token when outcome is set

	mutex  sync.Mutex
	txn    pipeline.Txn   // while the invocation is open
	state  keyed.Binder   // likewise; nil when there is none
	within trace.Context  // likewise: what calls belong to
	bound  *keyed.Attempt // once a call has bound a collection
	loans  sync.WaitGroup // calls that use these
}

// Verdict is what the table knows of a token.
type Verdict int

// The verdicts.
const (
	Live    Verdict = iota
	Stopped         // live, and asked to stop
	Gone            // its partition went to another member
	Settled         // over
	Unknown         // never given to the host
)

// New makes an empty table.
func New() *Table { return &Table{} }

// Used counts the slots in use.
func (t *Table) Used() int64 { return t.used.Load() }

// Complete ends an invocation, once.
func (t *Table) Complete(token uint64, outcome pipeline.Outcome) Verdict {
	slot := t.find(token)
	if slot == nil {
		return Unknown
	}
	for {
		word, verdict := slot.judge(token)
		switch verdict {
		case Unknown, Settled:
			return verdict
		}
		if slot.settle(word, outcome) {
			if verdict == Gone {
				return Gone
			}
			return Live
		}
	}
}

// Check tells how an invocation stands.
func (t *Table) Check(token uint64) Verdict {
	slot := t.find(token)
	if slot == nil {
		return Unknown
	}
	_, verdict := slot.judge(token)
	return verdict
}

// Lend gives an invocation to a call. It does not end before the call has returned it.
func (t *Table) Lend(token uint64) (*Slot, Verdict) {
	slot := t.find(token)
	if slot == nil {
		return nil, Unknown
	}
	slot.mutex.Lock()
	defer slot.mutex.Unlock()
	_, verdict := slot.judge(token)
	if verdict != Live && verdict != Stopped {
		return nil, verdict
	}
	slot.loans.Add(1)
	return slot, verdict
}

// Return ends what Lend began.
func (s *Slot) Return() { s.loans.Done() }

// Txn gives the transaction of a lent invocation; nil when it has none.
func (s *Slot) Txn() pipeline.Txn { return s.txn }

// Within gives the trace context that calls of a lent invocation belong to.
func (s *Slot) Within() trace.Context { return s.within }

// Bound gives the collections of a lent invocation; nil when it has none.
func (s *Slot) Bound(table *keyed.Table) *keyed.Attempt {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.bound == nil && s.state != nil {
		s.bound = table.Begin(s.token(), s.state, s.message.Event)
	}
	return s.bound
}

// Fail ends the invocations that came out of a queue, or all for nil: their host is
// gone.
func (t *Table) Fail(of *queue.Queue, text string) {
	for i := range t.shards {
		chunks := t.shards[i].chunks.Load()
		if chunks == nil {
			continue
		}
		for _, chunk := range *chunks {
			for j := range chunk {
				chunk[j].fail(of, text)
			}
		}
	}
}

func (s *Slot) fail(of *queue.Queue, text string) {
	for {
		word := s.word.Load()
		switch state(word) {
		case open, cancelled, revoked:
		default:
			return
		}
		if of != nil && s.queue.Load() != of {
			return
		}
		if s.settle(word, gone(text)) {
			return
		}
	}
}

// take gives a slot for an event.
func (t *Table) take(q *queue.Queue, message record.Message, txn pipeline.Txn, state keyed.Binder, within trace.Context) *Slot {
	number := t.turn.Add(1) % shards
	slot := t.shards[number].take(number)
	slot.message = message
	slot.hold(txn, state, within)
	slot.queue.Store(q)
	word := slot.word.Load()
	slot.word.Store(word&^(1<<stateBits-1) | queued)
	t.used.Add(1)
	return slot
}

// hold sets what calls may use.
func (s *Slot) hold(txn pipeline.Txn, state keyed.Binder, within trace.Context) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.txn, s.state, s.within = txn, state, within
}

// give takes a slot back, once no call uses it. Its token is settled from now on.
func (t *Table) give(slot *Slot) {
	slot.mutex.Lock()   // whoever saw it open has begun its loan; nobody does any more
	slot.mutex.Unlock() //nolint:staticcheck // SA2001: nothing is to be done inside
	slot.loans.Wait()
	slot.hold(nil, nil, trace.Context{})
	if slot.bound != nil {
		slot.bound.Release()
		slot.bound = nil
	}
	slot.message = record.Message{}
	slot.outcome = pipeline.Outcome{}
	slot.queue.Store(nil)
	generation := slot.word.Load()>>stateBits + 1
	if uint32(generation) == 0 {
		generation = 1
	}
	slot.word.Store(uint64(uint32(generation)) << stateBits) // free is 0
	t.used.Add(-1)
	shard := &t.shards[slot.place%shards]
	shard.mutex.Lock()
	shard.free = append(shard.free, slot)
	shard.mutex.Unlock()
}

func (s *shard) take(number uint32) *Slot {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.free) == 0 {
		s.grow(number)
	}
	last := len(s.free) - 1
	slot := s.free[last]
	s.free = s.free[:last]
	return slot
}

func (s *shard) grow(number uint32) {
	var old []*[chunk]Slot
	if chunks := s.chunks.Load(); chunks != nil {
		old = *chunks
	}
	added := new([chunk]Slot)
	for i := range added {
		slot := &added[i]
		slot.place = s.count<<shardBits | number
		slot.word.Store(1 << stateBits)
		slot.done = make(chan struct{}, 1)
		s.count++
		s.free = append(s.free, slot)
	}
	chunks := append(old[:len(old):len(old)], added)
	s.chunks.Store(&chunks)
}

// find gives the slot of a token's place, whatever its generation.
func (t *Table) find(token uint64) *Slot {
	place := uint32(token) >> shardBits
	chunks := t.shards[token%shards].chunks.Load()
	if chunks == nil || int(place>>chunkBits) >= len(*chunks) {
		return nil
	}
	return &(*chunks)[place>>chunkBits][place%chunk]
}

func state(word uint64) int { return int(word & (1<<stateBits - 1)) }

// token names the invocation that the slot holds.
func (s *Slot) token() uint64 {
	return s.word.Load()>>stateBits<<(shardBits+placeBits) | uint64(s.place)
}

// judge compares a token with the slot's word, which it gives as well.
func (s *Slot) judge(token uint64) (word uint64, verdict Verdict) {
	word = s.word.Load()
	generation, asked := uint32(word>>stateBits), uint32(token>>(shardBits+placeBits))
	switch {
	case asked == 0 || asked > generation:
		return word, Unknown
	case asked < generation:
		return word, Settled
	}
	switch state(word) {
	case open:
		return word, Live
	case cancelled:
		return word, Stopped
	case revoked:
		return word, Gone
	case settled:
		return word, Settled
	}
	return word, Unknown
}

// settle ends the invocation, when the word is still the one given.
func (s *Slot) settle(word uint64, outcome pipeline.Outcome) bool {
	if !s.word.CompareAndSwap(word, word&^(1<<stateBits-1)|settled) {
		return false
	}
	s.outcome = outcome
	s.done <- struct{}{}
	return true
}

// move changes the state of an invocation that the host has in hand.
func (s *Slot) move(to int) bool {
	for {
		word := s.word.Load()
		if at := state(word); at < open || at >= to || at == settled {
			return false
		}
		if s.word.CompareAndSwap(word, word&^(1<<stateBits-1)|uint64(to)) {
			return true
		}
	}
}

// Size tells the bytes of the record.
func (s *Slot) Size() int { return s.message.Size() }

// Encode hands the event to the host.
func (s *Slot) Encode(buffer []byte) {
	s.message.Encode(buffer, s.token())
	word := s.word.Load()
	s.word.CompareAndSwap(word&^(1<<stateBits-1)|queued, word&^(1<<stateBits-1)|open)
}

// Drop ends the event: its queue was destroyed before the host saw it.
func (s *Slot) Drop() {
	word := s.word.Load()
	if state(word) == queued {
		s.settle(word, gone(destroyed))
	}
}

const destroyed = "the queue was destroyed"

// gone is the end of an event that has no host any more: the next owner of the
// partition decides. Trying again here is pointless.
func gone(text string) pipeline.Outcome {
	return pipeline.Outcome{Class: pipeline.Aborted, Text: text}
}

func failure(text string) pipeline.Outcome {
	return pipeline.Outcome{Class: pipeline.Transient, Text: text}
}
