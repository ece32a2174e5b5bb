// Package timer owns when things are due: the timers of keys and the retries of their
// deferred queues, for the partitions that are assigned. It hands each out once, never
// before its time, and no more than a few at once, so that live messages have their
// turn. What is true of a key is decided by its durable record: an event for something
// that was taken back meanwhile is skipped there.
//
// It upholds that no timer is lost: what a commit adds below the horizon is taken in, the
// horizon rises ahead of each load, and a slab of the time index goes only when it is
// past, was loaded, and nothing in memory is due in it.
//
// It upholds I4: what waits in memory is bounded. The latest goes first, the horizon
// falls to it, and it is loaded again when there is room.
package timer

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/health"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/tally"
)

// Lease is one assignment of a partition. Leases are compared.
type Lease interface {
	Partition() kafka.Partition
	Shard() store.Shard
}

// Key is the durable record of a key in use.
type Key interface {
	Timers(ctx context.Context) ([]entity.Timer, error)
	Queue(ctx context.Context) (entity.Queue, error)
	// Tidy removes the key's hint of a slab when nothing is due in it.
	Tidy(ctx context.Context, slab store.Slab) (bool, error)
	// Rehome writes hints for all that is due into the lease's shard.
	Rehome(ctx context.Context) error
	Close()
}

// Index is the part of the store that finds keys with something due.
type Index interface {
	AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) error
	DropHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64) error
	Hints(ctx context.Context, shard store.Shard, slab store.Slab, after string, limit int) ([]string, error)
	Slabs(ctx context.Context, shard store.Shard, until int64) ([]store.Slab, error)
	DropSlab(ctx context.Context, shard store.Shard, slab store.Slab, stamp int64) error
}

// Options say what to work with. Zero numbers have defaults.
type Options struct {
	Index Index
	// Open gives the record of a key.
	Open func(ctx context.Context, lease Lease, key string) (Key, error)
	// Count tells how many partitions a topic has, when that is known.
	Count func(topic string) (int, bool)
	// Fault hears of a fault of Prosody itself; may be nil.
	Fault func(err error)

	Slab  time.Duration // 1 h
	Limit int           // of a kind that are fired and have not ended; 128
	Most  int           // that wait in memory, of all partitions; 262144
	Loads int           // records read at once; 32
	Clock clock.Clock
	Log   *slog.Logger
	// Random is uniform in [0, limit); nil: the global source.
	Random func(limit int64) int64
}

// Fire is something that is due: an event of the kind Timer or Retry.
type Fire struct {
	Lease Lease
	Event *event.Event
}

const (
	lead    = time.Minute      // that a slab is loaded ahead, at least
	doze    = 5 * time.Second  // longest sleep: the wall clock may have been set
	grace   = 10 * time.Minute // that a past slab stays: a commit may be on its way
	mailing = 30 * time.Second // between two looks for keys that other owners passed on
	page    = 500              // hints read at once
)

// Timers serves the assignments of one consumer. It needs a Close.
type Timers struct {
	options Options
	loads   chan struct{} // permits to read records
	late    tally.Histogram

	mutex  sync.Mutex // guards the rest
	parts  map[Lease]*part
	out    map[event.Kind]int
	fire   func(fires []Fire) // nil before Start
	closed bool

	wake chan struct{}
	quit chan struct{}
	wait sync.WaitGroup
}

// part is one assignment.
type part struct {
	lease  Lease
	agenda *agenda
	loader *loader
	stop   context.CancelFunc
}

// New makes Timers. They hand out nothing before Start.
func New(options Options) *Timers {
	fill(&options.Slab, time.Hour)
	fill(&options.Limit, 128)
	fill(&options.Most, 1<<18)
	fill(&options.Loads, 32)
	if options.Random == nil {
		options.Random = rand.Int64N
	}
	t := &Timers{
		options: options, loads: make(chan struct{}, options.Loads), parts: map[Lease]*part{},
		out: map[event.Kind]int{}, wake: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	return t
}

// Start begins to hand out what is due. fire is called by one goroutine and must not
// wait long. What it refuses it forgets: the assignment is over or will be.
func (t *Timers) Start(fire func(fires []Fire)) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.closed || t.fire != nil {
		return
	}
	t.fire = fire
	t.launch("timers", t.pump)
}

func fill[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Assign begins to serve an assignment.
func (t *Timers) Assign(lease Lease) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.closed || t.parts[lease] != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &part{lease: lease, agenda: newAgenda(t.options.Most), stop: stop}
	p.loader = newLoader(t, p)
	t.parts[lease] = p
	for _, each := range t.parts {
		each.agenda.most = max(4, t.options.Most/len(t.parts))
	}
	t.launch("loader of timers", func() { p.loader.run(ctx) })
}

// Leave forgets an assignment: nothing is handed out of it any more, and what was counts
// no more.
func (t *Timers) Leave(lease Lease) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.parts[lease]
	if p == nil {
		return
	}
	p.stop()
	delete(t.parts, lease)
	for _, kind := range kinds {
		t.out[kind] -= p.agenda.lanes[kind].out
	}
	poke(t.wake)
}

// Changed hears what a commit has changed of a key.
func (t *Timers) Changed(lease Lease, key string, change entity.Change) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.parts[lease]
	if p == nil {
		return
	}
	for _, second := range change.Removed {
		p.agenda.remove(id{event.Timer, key, second})
	}
	for _, second := range change.Added {
		p.agenda.add(id{event.Timer, key, second}, second*1000)
	}
	if change.Moved {
		p.agenda.retry(key, change.Due)
	}
	poke(t.wake)
}

// Found hears what is due of a key whose record was read. It is known already, but where
// the answer of a write was lost, or a late one came after the load. What is at home
// elsewhere is for its owner there, as far as a load would know it.
func (t *Timers) Found(lease Lease, key string, seconds []int64, due int64) {
	number, _ := t.options.Count(lease.Partition().Topic) // 0: not known yet
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.parts[lease]
	if p == nil {
		return
	}
	if _, foreign := p.loader.moved(key, number); foreign {
		return
	}
	for _, second := range seconds {
		p.agenda.found(id{event.Timer, key, second}, second*1000)
	}
	if due != 0 {
		p.agenda.found(id{kind: event.Retry, key: key}, due)
	}
	poke(t.wake)
}

// Ended takes back an event that was fired. done: its effects are durable, or there
// was nothing to do. Else its key stands still in this assignment.
func (t *Timers) Ended(lease Lease, of *event.Event, done bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.parts[lease]
	if p == nil {
		return
	}
	if p.agenda.end(name(of), done) {
		t.out[of.Kind]--
	}
	poke(t.wake)
}

func name(of *event.Event) id {
	if of.Kind == event.Retry {
		return id{kind: event.Retry, key: of.Key}
	}
	return id{event.Timer, of.Key, of.Timestamp / 1000}
}

// Facts are the state at one moment.
type Facts struct {
	Waiting int     `json:"waiting"` // in memory
	Firing  int     `json:"firing"`  // timers handed out
	Retries int     `json:"retries"` // retries handed out
	Overdue int     `json:"overdue"`
	Oldest  float64 `json:"oldest"` // seconds that the earliest is overdue

	Late tally.Durations `json:"-"` // from when it was due to when it was handed out
}

// Snapshot reads the state.
func (t *Timers) Snapshot() Facts {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.options.Clock.Now().UnixMilli()
	facts := Facts{Firing: t.out[event.Timer], Retries: t.out[event.Retry], Late: t.late.Snapshot()}
	for _, p := range t.parts {
		facts.Waiting += p.agenda.size()
		for _, e := range p.agenda.entries {
			if e.due <= now && e.state != gone {
				facts.Overdue++
				facts.Oldest = max(facts.Oldest, float64(now-e.due)/1000)
			}
		}
	}
	return facts
}

// Busy tells what is due and not done yet, or nothing.
func (t *Timers) Busy() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.options.Clock.Now().UnixMilli()
	for _, p := range t.parts {
		at := p.lease.Partition()
		switch {
		case !p.loader.failing.IsZero():
			return fmt.Sprintf("%s:%d: timers cannot be loaded", at.Topic, at.Index)
		case p.agenda.complete <= now:
			return fmt.Sprintf("%s:%d: timers are being loaded", at.Topic, at.Index)
		}
		for _, e := range p.agenda.entries {
			if e.state == fired || e.due <= now && e.state != gone {
				return fmt.Sprintf("%s:%d: the %s of key %q is due", at.Topic, at.Index, e.kind, e.key)
			}
		}
	}
	return ""
}

// Stalled gives a reason for each partition whose timers cannot be loaded for longer than
// the threshold.
func (t *Timers) Stalled(threshold time.Duration) []string { return health.Texts(t.Reasons(threshold)) }

// Reasons is Stalled with what each reason is about.
func (t *Timers) Reasons(threshold time.Duration) (reasons []health.Reason) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.options.Clock.Now()
	for _, p := range t.parts {
		if since := p.loader.failing; !since.IsZero() && now.Sub(since) > threshold {
			at := p.lease.Partition()
			reasons = append(reasons, health.At(health.Timers, at, fmt.Sprintf("%s:%d: timers cannot be loaded for %s",
				at.Topic, at.Index, now.Sub(since).Round(time.Millisecond))))
		}
	}
	return reasons
}

// Close ends everything and waits for it.
func (t *Timers) Close() {
	t.mutex.Lock()
	if !t.closed {
		t.closed = true
		close(t.quit)
		for _, p := range t.parts {
			p.stop()
		}
	}
	t.mutex.Unlock()
	t.wait.Wait()
}

// pump hands out what is due.
func (t *Timers) pump() {
	for {
		fires, next := t.step(t.options.Clock.Now())
		if len(fires) > 0 {
			t.fire(fires)
			continue
		}
		alarm := t.options.Clock.AfterFunc(next, func() { poke(t.wake) })
		select {
		case <-t.wake:
			alarm.Stop()
		case <-t.quit:
			alarm.Stop()
			return
		}
	}
}

// step takes what is due now and may be handed out, the earliest first, and tells how
// long nothing more will be.
func (t *Timers) step(now time.Time) (fires []Fire, next time.Duration) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	next = doze
	if t.closed {
		return nil, next
	}
	for _, kind := range kinds {
		for t.out[kind] < t.options.Limit {
			due, first := int64(math.MaxInt64), (*part)(nil)
			for _, p := range t.parts {
				if head := p.agenda.head(kind); head < due {
					due, first = head, p
				}
			}
			if first == nil {
				break
			}
			if late := now.Sub(time.UnixMilli(due)); late < 0 {
				next = min(next, -late)
				break
			}
			fires = append(fires, first.fire(kind))
			t.late.Note(now.Sub(time.UnixMilli(due)))
			t.out[kind]++
			if first.agenda.wants() {
				poke(first.loader.wake)
			}
		}
	}
	return fires, next
}

func (p *part) fire(kind event.Kind) Fire {
	what := p.agenda.fire(kind)
	at := p.lease.Partition()
	return Fire{p.lease, &event.Event{
		Kind: kind, Topic: at.Topic, Partition: at.Index, Offset: -1, Timestamp: what.second * 1000, Key: what.key,
	}}
}

// launch runs a goroutine that Close joins.
func (t *Timers) launch(what string, work func()) {
	t.wait.Add(1)
	go func() {
		defer t.wait.Done()
		defer func() {
			if thrown := recover(); thrown != nil {
				text := fmt.Sprintf("%s panicked: %v", what, thrown)
				t.options.Log.Error(text, "stack", string(debug.Stack()))
				if t.options.Fault != nil {
					t.options.Fault(fault.New(fault.Internal, "%s", text))
				}
			}
		}()
		work()
	}()
}

func poke(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
