package timer

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"sort"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/memory"
)

// world is what is durable about keys, a consumer that handles what is fired, and the
// book of all that happened. Its calls take random times.
type world struct {
	store  *memory.Store
	random *rand.Rand
	slab   int64
	topic  string
	count  int  // partitions
	hidden bool // nobody knows how many

	mutex  sync.Mutex
	keys   map[string]*facts
	faults []string
	opens  int
	broken int // of a hundred calls of Open that fail
	wait   sync.WaitGroup
}

// facts are the record of a key, and its queue in the consumer.
type facts struct {
	timers map[int64]*record
	retry  int64
	hints  map[store.Slab]map[int32]bool
	queue  []Fire
	runs   bool
}

// record counts how often a timer is to be handled and was started.
type record struct{ started int }

// owner is one process with its assignments.
type owner struct {
	world  *world
	timers *Timers
	leases map[kafka.Partition]*lease
	dead   bool
}

type lease struct {
	at    kafka.Partition
	owner *owner
}

func (l *lease) Partition() kafka.Partition { return l.at }
func (l *lease) Shard() store.Shard {
	return store.Shard{Group: "group", Topic: l.at.Topic, Partition: l.at.Index}
}

func newWorld(seed uint64) *world {
	return &world{
		store:  memory.NewRegistry(memory.Settings{Clock: clock.Real{}}).Store("test"),
		random: rand.New(rand.NewPCG(seed, 1)), slab: 60, topic: "orders", count: 2, keys: map[string]*facts{},
	}
}

func (w *world) pick(limit int64) int64 {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.random.Int64N(limit)
}

func (w *world) fault(format string, values ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.faults = append(w.faults, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, values...))
}

func (w *world) key(name string) *facts {
	f := w.keys[name]
	if f == nil {
		f = &facts{timers: map[int64]*record{}, hints: map[store.Slab]map[int32]bool{}}
		w.keys[name] = f
	}
	return f
}

func (w *world) home(key string) kafka.Partition {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.homed(key)
}

// homed is home under the mutex.
func (w *world) homed(key string) kafka.Partition {
	return kafka.Partition{Topic: w.topic, Index: int32(crc32.ChecksumIEEE([]byte(key)) % uint32(w.count))}
}

// own makes a process.
func (w *world) own(limit, most int) *owner {
	o := &owner{world: w, leases: map[kafka.Partition]*lease{}}
	o.timers = New(Options{
		Index: w.store, Slab: time.Duration(w.slab) * time.Second, Limit: limit, Most: most, Loads: 3,
		Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Random: w.pick,
		Count: func(string) (int, bool) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			return w.count, !w.hidden
		},
		Open: func(_ context.Context, at Lease, key string) (Key, error) {
			time.Sleep(time.Duration(w.pick(5)) * time.Millisecond)
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.opens++
			if w.random.IntN(100) < w.broken {
				return nil, errors.New("the store is down")
			}
			return &view{world: w, lease: at.(*lease), name: key}, nil
		},
	})
	return o
}

func (o *owner) assign(index int32) {
	l := &lease{at: kafka.Partition{Topic: o.world.topic, Index: index}, owner: o}
	o.leases[l.at] = l
	o.timers.Assign(l)
}

// crash ends a process in the middle of everything.
func (o *owner) crash() {
	w := o.world
	w.mutex.Lock()
	o.dead = true
	for _, f := range w.keys {
		f.queue, f.runs = nil, false
		for _, r := range f.timers {
			r.started = 0 // its handler was cut off
		}
	}
	w.mutex.Unlock()
	o.timers.Close()
	w.wait.Wait()
}

// due writes what a commit writes, hints first, and tells the owner.
func (o *owner) due(key string, change entity.Change) {
	w := o.world
	at := o.leases[w.home(key)]
	if at == nil {
		return
	}
	seconds := append([]int64(nil), change.Added...)
	if change.Due != 0 {
		seconds = append(seconds, change.Due/1000)
	}
	for _, second := range seconds {
		start := max(second, time.Now().Unix()) / w.slab * w.slab
		slab := store.Slab{Start: start, Size: w.slab}
		if err := w.store.AddHint(context.Background(), at.Shard(), slab, key, time.Now().UnixMicro(), 0); err != nil {
			w.fault("hint: %v", err)
		}
	}
	time.Sleep(time.Duration(w.pick(5)) * time.Millisecond)
	w.mutex.Lock()
	if o.dead {
		w.mutex.Unlock()
		return
	}
	f := w.key(key)
	for _, second := range change.Removed {
		delete(f.timers, second)
	}
	for _, second := range change.Added {
		if f.timers[second] == nil {
			f.timers[second] = &record{}
		}
	}
	if change.Moved {
		f.retry = change.Due
	}
	w.mutex.Unlock()
	o.timers.Changed(at, key, change)
}

// fire is the consumer: events of a key run one after the other.
func (o *owner) fire(fires []Fire) {
	w := o.world
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if o.dead {
		return
	}
	for _, fire := range fires {
		f := w.key(fire.Event.Key)
		f.queue = append(f.queue, fire)
		if !f.runs {
			f.runs = true
			w.wait.Add(1)
			go o.work(fire.Event.Key, f)
		}
	}
}

func (o *owner) work(key string, f *facts) {
	w := o.world
	defer w.wait.Done()
	for {
		w.mutex.Lock()
		if o.dead || len(f.queue) == 0 {
			f.runs = f.runs && o.dead
			w.mutex.Unlock()
			return
		}
		next := f.queue[0]
		f.queue = f.queue[1:]
		w.mutex.Unlock()
		o.handle(f, next)
		w.mutex.Lock()
		dead := o.dead
		w.mutex.Unlock()
		if dead {
			return
		}
		o.timers.Ended(next.Lease, next.Event, true)
	}
}

// handle checks that the event is due and ends it one way or another.
func (o *owner) handle(f *facts, fire Fire) {
	w, e := o.world, fire.Event
	now := time.Now()
	second := e.Timestamp / 1000
	w.mutex.Lock()
	if e.Kind == event.Retry {
		due := f.retry
		w.mutex.Unlock()
		if due == 0 || due > now.UnixMilli() {
			return // skipped
		}
		time.Sleep(time.Duration(w.pick(300)) * time.Millisecond)
		change := entity.Change{Moved: true}
		if w.pick(3) == 0 {
			change.Due = time.Now().UnixMilli() + 1 + w.pick(100_000)
		}
		o.due(e.Key, change)
		return
	}
	r := f.timers[second]
	if r == nil {
		w.mutex.Unlock()
		return // skipped
	}
	r.started++
	started := r.started
	w.mutex.Unlock()
	if now.Before(time.Unix(second, 0)) {
		w.fault("timer %s@%d fires %v early", e.Key, second, time.Unix(second, 0).Sub(now))
	}
	if started > 1 {
		w.fault("timer %s@%d fires twice", e.Key, second)
	}
	time.Sleep(time.Duration(w.pick(500)) * time.Millisecond)
	change := entity.Change{Removed: []int64{second}}
	switch w.pick(8) {
	case 0: // the same second again
		change.Added = []int64{second}
	case 1: // deferred
		change.Moved, change.Due = true, time.Now().UnixMilli()+1+w.pick(100_000)
	case 2:
		change.Added = []int64{time.Now().Unix() + w.pick(200)}
	}
	if len(change.Added) > 0 && change.Added[0] == second {
		w.mutex.Lock()
		r.started = 0
		w.mutex.Unlock()
	}
	o.due(e.Key, change)
}

// left lists what is overdue.
func (w *world) left(now time.Time) (list []string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for name, f := range w.keys {
		for second := range f.timers {
			if second < now.Unix() {
				list = append(list, fmt.Sprintf("timer %s@%d", name, second))
			}
		}
		if f.retry != 0 && f.retry < now.UnixMilli() {
			list = append(list, fmt.Sprintf("retry %s@%d", name, f.retry))
		}
	}
	sort.Strings(list)
	return list
}

// view is a Key.
type view struct {
	world *world
	lease *lease
	name  string
}

func (v *view) Timers(context.Context) (list []entity.Timer, _ error) {
	v.world.mutex.Lock()
	defer v.world.mutex.Unlock()
	for second := range v.world.key(v.name).timers {
		list = append(list, entity.Timer{Second: second})
	}
	return list, nil
}

func (v *view) Queue(context.Context) (entity.Queue, error) {
	time.Sleep(time.Duration(v.world.pick(3)) * time.Millisecond)
	v.world.mutex.Lock()
	defer v.world.mutex.Unlock()
	queue := entity.Queue{Due: v.world.key(v.name).retry}
	if queue.Due != 0 {
		queue.Tail = 1
	}
	return queue, nil
}

func (v *view) Tidy(context.Context, store.Slab) (bool, error) { return false, nil }

func (v *view) Rehome(ctx context.Context) error {
	timers, _ := v.Timers(ctx)
	queue, _ := v.Queue(ctx)
	if queue.Due != 0 {
		timers = append(timers, entity.Timer{Second: queue.Due / 1000})
	}
	for _, timer := range timers {
		start := max(timer.Second, time.Now().Unix()) / v.world.slab * v.world.slab
		slab := store.Slab{Start: start, Size: v.world.slab}
		if err := v.world.store.AddHint(ctx, v.lease.Shard(), slab, v.name, time.Now().UnixMicro(), 0); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) Close() {}
