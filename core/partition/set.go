// Package partition owns what a consumer holds of its assigned partitions: the order
// of events, how many run, how many wait, and which offset may be committed. It is a
// state machine without input, output, goroutines or a clock; the caller locks it.
//
// It upholds I1 (at most one event of a key runs, in the order of offsets, also when
// its partition left and came back), I3 (the watermark passes nothing that is not
// done), I6 (the end of an event of an old assignment only opens its key's gate) and
// the bounds of I4 on the intake.
package partition

import (
	"strings"
	"time"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Config sets the limits and filters of a Set. Zero limits have defaults.
type Config struct {
	Group   string   // events whose source system is the group itself are filtered
	Allowed []string // prefixes of event types that pass; empty: all
	// Uncommitted is the most records that run at once. Timers and retries are bounded by
	// who hands them out.
	Uncommitted int
	// Records and Bytes bound what waits in one partition, TotalRecords and TotalBytes
	// what waits in all. Reaching a bound pauses the partition until half is gone.
	Records, TotalRecords int
	Bytes, TotalBytes     int64
	// Span is the most records that are delivered beyond the watermark.
	Span int
}

const (
	defaultUncommitted  = 64
	defaultRecords      = 2048
	defaultTotalRecords = 16384
	defaultBytes        = 8 << 20
	defaultTotalBytes   = 64 << 20
	defaultSpan         = 100_000
	leastExcess         = 64
)

// Verdict says what became of an offered record.
type Verdict uint8

// The verdicts.
const (
	Queued     Verdict = iota + 1 // it waits for its turn
	Skipped                       // done at once by the caller's wish
	Looped                        // done at once: this group has sent it
	Unwanted                      // done at once: its event type is not allowed
	Stale                         // dropped: this assignment has had its offset
	Leaving                       // dropped: the partition is being given up
	Unassigned                    // dropped: the partition is not assigned
)

// Token names one start of an event. It is good for one Done.
type Token struct {
	item *item
	turn uint64
}

// Start is an event to run now, or an invalid record to deal with.
type Start struct {
	Token  Token
	Event  *event.Event  // nil for an invalid record
	Record *kafka.Record // the invalid record
	Reason string        // why it is invalid
	Tag    any           // what Assign was given
}

// Set holds the partitions of one consumer.
type Set struct {
	config   Config
	slots    map[kafka.Partition]*slot
	parts    []*part // assigned and leaving ones
	rotation fifo[part, *part]
	items    fifo[item, *item] // free
	keys     fifo[key, *key]   // free
	running  int               // events that run and count
	timers   int               // of them, those without an offset
	stale    int               // events that run and do not count any more
	blocked  int               // events that were aborted while their partition stayed
	excess   int               // the most of stale and blocked together
	held     bool
	turn     uint64
	epoch    uint64
	counters Counters
}

// slot is what is known of a partition, assigned or not, while there is something.
type slot struct {
	part  *part
	stale map[string]*item // by key: events of old assignments that still run
}

// part is one assignment of one partition.
type part struct {
	name      kafka.Partition
	epoch     uint64
	tag       any
	next      *part
	keys      map[string]*key
	ready     fifo[key, *key]
	running   []*item
	ring      ring
	highest   int64 // delivered, -1 at first
	position  int64 // what may be committed, -1: nothing yet
	sending   int64 // what is being committed, -1: nothing
	committed int64
	waiting   int
	bytes     int64
	blocked   int
	rotating  bool
	leaving   bool
	want      bool // to be paused
	paused    bool // as the client library knows
}

// key is a key that has events. One without a name serves an invalid record.
type key struct {
	name    string
	invalid bool
	waiting fifo[item, *item]
	running *item
	blocked bool
	ready   bool
	next    *key
}

// item is a record that waits or runs.
type item struct {
	event    *event.Event
	record   *kafka.Record
	reason   string
	offset   int64 // -1: none
	size     int64
	sequence uint64 // in the ring, with an offset
	key      *key
	part     *part
	next     *item
	index    int    // in part.running
	turn     uint64 // 0: does not run
	stale    bool
	started  time.Time
	quiet    time.Time // silence up to here is no stall
}

func (p *part) successor() **part { return &p.next }
func (k *key) successor() **key   { return &k.next }
func (i *item) successor() **item { return &i.next }

// New makes an empty set.
func New(config Config) *Set {
	fill(&config.Uncommitted, defaultUncommitted)
	fill(&config.Records, defaultRecords)
	fill(&config.TotalRecords, defaultTotalRecords)
	fill(&config.Bytes, defaultBytes)
	fill(&config.TotalBytes, defaultTotalBytes)
	fill(&config.Span, defaultSpan)
	return &Set{
		config: config,
		slots:  map[kafka.Partition]*slot{},
		excess: max(leastExcess, config.Uncommitted),
	}
}

func fill[T int | int64](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Offer takes the next event of a partition; size is about what it needs in memory. A
// timer or retry has no offset: it holds up no watermark, and is dropped on revoke.
func (s *Set) Offer(e *event.Event, size int64) Verdict {
	if e.Kind == event.Timer || e.Kind == event.Retry {
		return s.fire(e, size)
	}
	p, verdict := s.arrive(e.At(), e.Offset)
	if p == nil {
		return verdict
	}
	switch {
	case e.HasSource && e.Source == s.config.Group:
		s.counters.Looped++
		s.pass(p, e.Offset)
		return Looped
	case !s.allowed(e):
		s.counters.Unwanted++
		s.pass(p, e.Offset)
		return Unwanted
	}
	s.enqueue(p, s.key(p, e.Key), e.Offset, size).event = e
	return Queued
}

// fire takes an event without an offset.
func (s *Set) fire(e *event.Event, size int64) Verdict {
	p := s.part(e.At())
	switch {
	case p == nil:
		return Unassigned
	case p.leaving:
		return Leaving
	}
	s.counters.Fired++
	s.enqueue(p, s.key(p, e.Key), -1, size).event = e
	return Queued
}

func (s *Set) key(p *part, name string) *key {
	k := p.keys[name]
	if k == nil {
		k = s.newKey()
		k.name = name
		p.keys[name] = k
	}
	return k
}

// OfferInvalid takes a record that is no event. It is started like one, on its own,
// so that the watermark waits for what the caller does about it.
func (s *Set) OfferInvalid(record *kafka.Record, reason string, size int64) Verdict {
	p, verdict := s.arrive(at(record), record.Offset)
	if p == nil {
		return verdict
	}
	s.counters.Invalid++
	k := s.newKey()
	k.invalid = true
	i := s.enqueue(p, k, record.Offset, size)
	i.record, i.reason = record, reason
	return Queued
}

// Skip takes an invalid record that is done with.
func (s *Set) Skip(record *kafka.Record) Verdict {
	p, verdict := s.arrive(at(record), record.Offset)
	if p == nil {
		return verdict
	}
	s.counters.Invalid++
	s.pass(p, record.Offset)
	return Skipped
}

func at(record *kafka.Record) kafka.Partition {
	return kafka.Partition{Topic: record.Topic, Index: record.Partition}
}

// arrive checks that the record is due. The verdict counts when the part is nil.
func (s *Set) arrive(name kafka.Partition, offset int64) (*part, Verdict) {
	p := s.part(name)
	switch {
	case p == nil:
		s.counters.Unassigned++
		return nil, Unassigned
	case p.leaving:
		s.counters.Leaving++
		return nil, Leaving
	case offset <= p.highest:
		s.counters.Stale++
		return nil, Stale
	}
	s.counters.Received++
	p.highest = offset
	return p, 0
}

func (s *Set) part(name kafka.Partition) *part {
	if found := s.slots[name]; found != nil {
		return found.part
	}
	return nil
}

func (s *Set) allowed(e *event.Event) bool {
	if !e.HasType || len(s.config.Allowed) == 0 {
		return true
	}
	for _, prefix := range s.config.Allowed {
		if strings.HasPrefix(e.Type, prefix) {
			return true
		}
	}
	return false
}

// pass registers an offset that is done already.
func (s *Set) pass(p *part, offset int64) {
	if p.ring.size() == 0 {
		p.position = offset + 1
		return
	}
	p.done(p.ring.push(offset))
	s.weigh(p)
}

func (p *part) done(sequence uint64) {
	if position, moved := p.ring.done(sequence); moved {
		p.position = position
	}
}

func (s *Set) enqueue(p *part, k *key, offset, size int64) *item {
	i := s.newItem()
	i.offset, i.size, i.key, i.part = offset, size, k, p
	if offset >= 0 {
		i.sequence = p.ring.push(offset)
	}
	k.waiting.push(i)
	p.waiting++
	p.bytes += size
	s.weigh(p)
	s.ripen(p, k)
	return i
}

// ripen lines a key up that has something to start and may.
func (s *Set) ripen(p *part, k *key) {
	if p.leaving || k.ready || k.blocked || k.running != nil || k.waiting.empty() || s.gated(p, k) {
		return
	}
	k.ready = true
	p.ready.push(k)
	if !p.rotating {
		p.rotating = true
		s.rotation.push(p)
	}
}

// gated tells whether an event of the key runs for an old assignment.
func (s *Set) gated(p *part, k *key) bool {
	if s.stale == 0 || k.invalid {
		return false
	}
	_, runs := s.slots[p.name].stale[k.name]
	return runs
}

// Next starts an event when one is ready and the limits allow it. Partitions take
// turns, and so do the ready keys of each.
func (s *Set) Next(now time.Time) (Start, bool) {
	if s.running-s.timers >= s.config.Uncommitted || s.stale+s.blocked >= s.excess || s.held {
		return Start{}, false
	}
	p := s.rotation.pop()
	if p == nil {
		return Start{}, false
	}
	k := p.ready.pop()
	k.ready = false
	if p.ready.empty() {
		p.rotating = false
	} else {
		s.rotation.push(p)
	}
	i := k.waiting.pop()
	s.turn++
	i.turn, i.started, i.quiet, i.index = s.turn, now, now, len(p.running)
	k.running = i
	p.running = append(p.running, i)
	s.count(i, 1)
	p.waiting--
	p.bytes -= i.size
	s.weigh(p)
	return Start{
		Token: Token{i, i.turn}, Event: i.event, Record: i.record, Reason: i.reason, Tag: p.tag,
	}, true
}

// count counts what runs.
func (s *Set) count(i *item, change int) {
	s.running += change
	if i.offset < 0 {
		s.timers += change
	}
}

// Done ends an event. It tells whether the end counts: it does not when the
// assignment is over, or the token has been used.
//
// Success and Permanent let the watermark pass. Else the next owner decides: while
// the partition stays, the key is blocked and nothing of it runs any more.
func (s *Set) Done(token Token, class pipeline.Class) bool {
	i := token.item
	if i == nil || i.turn == 0 || i.turn != token.turn {
		return false
	}
	if i.stale {
		s.counters.Ignored++
		s.open(i)
		return false
	}
	p, k := i.part, i.key
	if !k.invalid {
		s.counters.add(class)
	}
	p.stop(i)
	s.count(i, -1)
	k.running = nil
	if class == pipeline.Success || class == pipeline.Permanent {
		if i.offset >= 0 {
			p.done(i.sequence)
		}
		s.weigh(p)
	} else if !p.leaving {
		k.blocked = true
		p.blocked++
		s.blocked++
	}
	s.freeItem(i)
	switch {
	case k.invalid:
		s.freeKey(k)
	case k.blocked:
	case k.waiting.empty():
		delete(p.keys, k.name)
		s.freeKey(k)
	default:
		s.ripen(p, k)
	}
	return true
}

// open ends an event of an old assignment: its key may run in the new one.
func (s *Set) open(i *item) {
	s.stale--
	k, name := i.key, i.part.name
	if !k.invalid {
		found := s.slots[name]
		delete(found.stale, k.name)
		if p := found.part; p != nil && p.keys[k.name] != nil {
			s.ripen(p, p.keys[k.name])
		}
		s.prune(name, found)
	}
	s.freeKey(k)
	s.freeItem(i)
}

func (s *Set) prune(name kafka.Partition, found *slot) {
	if found.part == nil && len(found.stale) == 0 {
		delete(s.slots, name)
	}
}

// Beat tells that an event is alive: it is silent by intention until the given time.
func (s *Set) Beat(token Token, quiet time.Time) {
	if i := token.item; i != nil && i.turn != 0 && i.turn == token.turn && quiet.After(i.quiet) {
		i.quiet = quiet
		s.counters.Retried++
	}
}

// Hold stops all starts, or lets them go on.
func (s *Set) Hold(held bool) { s.held = held }

func (p *part) stop(i *item) {
	last := p.running[len(p.running)-1]
	p.running[i.index] = last
	last.index = i.index
	p.running[len(p.running)-1] = nil
	p.running = p.running[:len(p.running)-1]
}

func (s *Set) newItem() *item {
	if i := s.items.pop(); i != nil {
		return i
	}
	return &item{}
}

func (s *Set) freeItem(i *item) {
	*i = item{}
	s.items.push(i)
}

func (s *Set) newKey() *key {
	if k := s.keys.pop(); k != nil {
		return k
	}
	return &key{}
}

func (s *Set) freeKey(k *key) {
	*k = key{}
	s.keys.push(k)
}
