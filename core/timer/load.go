package timer

import (
	"context"
	"hash/crc32"
	"log/slog"
	"math"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/store"
)

// Slabs with a negative start are no spans of time: the mailbox holds the keys that
// other owners passed on, and each number of partitions that the topic has had is the
// size of a slab.
const (
	mailStart  = -1
	countStart = -2
)

var mailbox = store.Slab{Start: mailStart, Size: 1}

// loader brings what is due of one assignment into its agenda. All of its calls to the
// store are made without the mutex.
type loader struct {
	timers *Timers
	part   *part
	wake   chan struct{}
	ahead  time.Duration

	failing time.Time // since when loads fail; zero: they do not; under the mutex

	mail   time.Time    // of the next look into the mailbox
	counts map[int]bool // numbers of partitions that the topic has had; written under the mutex
	swept  int64        // the last period that was swept
}

func newLoader(t *Timers, p *part) *loader {
	slab := int64(t.options.Slab)
	ahead := lead + time.Duration(t.options.Random(max(1, slab-int64(lead))))
	return &loader{timers: t, part: p, wake: make(chan struct{}, 1), ahead: ahead, counts: map[int]bool{}}
}

// run works until its assignment ends. What fails is tried again.
func (l *loader) run(ctx context.Context) {
	const least, most = 100 * time.Millisecond, 5 * time.Second
	delay := least
	for ctx.Err() == nil {
		wait, err := l.work(ctx)
		switch {
		case err == nil:
			delay = least
			l.locked(func() { l.failing = time.Time{} })
		case ctx.Err() != nil:
			return
		default:
			wait = delay
			delay = min(2*delay, most)
			l.locked(func() {
				if l.failing.IsZero() {
					l.failing = l.timers.options.Clock.Now()
				}
			})
			at := l.part.lease.Partition()
			l.timers.options.Log.Warn("timers could not be loaded, trying again", slog.String("topic", at.Topic),
				slog.Int("partition", int(at.Index)), slog.Duration("delay", wait), slog.Any("error", err))
			if clock.Sleep(ctx, l.timers.options.Clock, wait) != nil {
				return
			}
			continue
		}
		alarm := l.timers.options.Clock.AfterFunc(wait, func() { poke(l.wake) })
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
		alarm.Stop()
	}
}

// work does what is to be done now, and tells when there will be more.
func (l *loader) work(ctx context.Context) (time.Duration, error) {
	if err := l.count(ctx); err != nil {
		return 0, err
	}
	now := l.timers.options.Clock.Now()
	if !now.Before(l.mail) {
		if err := l.letters(ctx, now); err != nil {
			return 0, err
		}
		l.mail = now.Add(mailing)
	}
	size := int64(l.timers.options.Slab / time.Second)
	target := (floor(now.Add(l.ahead).Unix(), size) + 1) * size
	if err := l.load(ctx, now, target); err != nil {
		return 0, err
	}
	if err := l.sweep(ctx, now); err != nil {
		return 0, err
	}
	next := time.Unix(target, 0).Add(-l.ahead)
	return max(time.Millisecond, min(mailing, next.Sub(l.timers.options.Clock.Now()))), nil
}

func floor(value, size int64) int64 {
	if value < 0 {
		return (value - size + 1) / size
	}
	return value / size
}

// load raises the horizon to a second, and brings in what is due before it.
func (l *loader) load(ctx context.Context, now time.Time, target int64) error {
	var from int64
	due := false
	l.locked(func() { from, due = l.part.agenda.begin(target * 1000) })
	if !due {
		return nil
	}
	all, err := l.between(ctx, now, from, target)
	if err == nil && all {
		l.locked(func() { l.part.agenda.loaded(target * 1000) })
	}
	return err
}

// between reads the slabs that end after a time and start before a second. It stops
// when memory is full of what is due already, which is not all then.
func (l *loader) between(ctx context.Context, now time.Time, from, target int64) (all bool, err error) {
	slabs, err := l.timers.options.Index.Slabs(ctx, l.part.lease.Shard(), target)
	if err != nil {
		return false, err
	}
	for _, slab := range slabs {
		if slab.Start < 0 || from != math.MinInt64 && (slab.Start+slab.Size)*1000 <= from {
			continue
		}
		if all, err := l.walk(ctx, now, slab); err != nil || !all {
			return false, err
		}
	}
	return true, nil
}

// walk reads the hints of a slab.
func (l *loader) walk(ctx context.Context, now time.Time, slab store.Slab) (all bool, err error) {
	for after := ""; ; {
		keys, err := l.timers.options.Index.Hints(ctx, l.part.lease.Shard(), slab, after, page)
		if err != nil {
			return false, err
		}
		if err := l.each(ctx, keys, func(ctx context.Context, key string) error { return l.take(ctx, slab, key) }); err != nil {
			return false, err
		}
		enough := false
		l.locked(func() { enough = l.part.agenda.horizon <= now.UnixMilli() })
		switch {
		case len(keys) < page:
			return true, nil
		case enough:
			return false, nil
		}
		after = keys[len(keys)-1]
	}
}

// each does something for keys, a few at once, and gives the first error.
func (l *loader) each(ctx context.Context, keys []string, work func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	for _, key := range keys {
		select {
		case l.timers.loads <- struct{}{}:
		case <-ctx.Done():
			wait.Wait()
			return context.Cause(ctx)
		}
		wait.Add(1)
		l.timers.launch("load of a key", func() {
			defer wait.Done()
			defer func() { <-l.timers.loads }()
			if err := work(ctx, key); err != nil {
				cancel(err)
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// take brings in what is due of a key that a slab has a hint of.
func (l *loader) take(ctx context.Context, slab store.Slab, key string) error {
	record, err := l.timers.options.Open(ctx, l.part.lease, key)
	if err != nil {
		return err
	}
	defer record.Close()
	timers, err := record.Timers(ctx)
	if err != nil {
		return err
	}
	queue, err := record.Queue(ctx)
	if err != nil {
		return err
	}
	if home, foreign := l.foreign(key); foreign {
		return l.pass(ctx, home, key, func(a *agenda) {
			for _, timer := range timers {
				a.remove(id{event.Timer, key, timer.Second})
			}
			a.retry(key, 0)
		})
	}
	due := queue.Due
	if queue.Head == queue.Tail {
		due = 0
	}
	end := slab.Start + slab.Size
	useful := due != 0 && due >= slab.Start*1000 && due < end*1000
	l.locked(func() {
		a := l.part.agenda
		for _, timer := range timers {
			useful = useful || timer.Second >= slab.Start && timer.Second < end
			a.found(id{event.Timer, key, timer.Second}, timer.Second*1000)
		}
		if due != 0 {
			a.found(id{kind: event.Retry, key: key}, due)
		}
	})
	poke(l.timers.wake)
	if !useful && slab.Start >= 0 {
		_, err = record.Tidy(ctx, slab)
	}
	return err
}

// sweep drops the slabs that are past and of which nothing is left.
func (l *loader) sweep(ctx context.Context, now time.Time) error {
	past := now.Add(-grace)
	period := floor(past.Unix(), int64(l.timers.options.Slab/time.Second))
	if period <= l.swept {
		return nil
	}
	var low int64
	l.locked(func() { low = min(l.part.agenda.low(), l.part.agenda.complete) })
	shard := l.part.lease.Shard()
	slabs, err := l.timers.options.Index.Slabs(ctx, shard, past.Unix())
	if err != nil {
		return err
	}
	for _, slab := range slabs {
		end := slab.Start + slab.Size
		if slab.Start < 0 || end > past.Unix() || end*1000 > low {
			continue
		}
		if err := l.timers.options.Index.DropSlab(ctx, shard, slab, past.UnixMicro()); err != nil {
			return err
		}
	}
	l.swept = period
	return nil
}

// count notes the number of partitions that the topic has now.
func (l *loader) count(ctx context.Context) error {
	number, known := l.timers.options.Count(l.part.lease.Partition().Topic)
	if !known || l.counts[number] {
		return nil
	}
	shard := l.part.lease.Shard()
	if len(l.counts) == 0 {
		slabs, err := l.timers.options.Index.Slabs(ctx, shard, 0)
		if err != nil {
			return err
		}
		l.locked(func() {
			for _, slab := range slabs {
				if slab.Start == countStart {
					l.counts[int(slab.Size)] = true
				}
			}
		})
	}
	if l.counts[number] {
		return nil
	}
	stamp := l.timers.options.Clock.Now().UnixMicro()
	if err := l.timers.options.Index.AddHint(ctx, shard, store.Slab{Start: countStart, Size: int64(number)}, "", stamp, 0); err != nil {
		return err
	}
	l.locked(func() {
		l.counts[number] = true
		if len(l.counts) > 1 {
			// Hints from before are loaded anew, so that keys find their new home.
			l.part.agenda.complete = math.MinInt64
		}
	})
	return nil
}

// foreign tells where a key's records go, when they came here while the topic had
// fewer partitions.
func (l *loader) foreign(key string) (home int32, foreign bool) {
	number, known := l.timers.options.Count(l.part.lease.Partition().Topic)
	if !known {
		return 0, false
	}
	return l.moved(key, number)
}

// moved is foreign for a number of partitions; 0: it is not known.
func (l *loader) moved(key string, number int) (home int32, foreign bool) {
	if number <= 0 {
		return 0, false
	}
	here := l.part.lease.Partition()
	hash := crc32.ChecksumIEEE([]byte(key))
	if home = int32(hash % uint32(number)); home == here.Index {
		return 0, false
	}
	for other := range l.counts {
		if other > 0 && int32(hash%uint32(other)) == here.Index {
			return home, true
		}
	}
	return 0, false
}

// pass gives a key to the owner of another partition.
func (l *loader) pass(ctx context.Context, home int32, key string, forget func(*agenda)) error {
	shard := l.part.lease.Shard()
	shard.Partition = home
	stamp := l.timers.options.Clock.Now().UnixMicro()
	if err := l.timers.options.Index.AddHint(ctx, shard, mailbox, key, stamp, 0); err != nil {
		return err
	}
	l.locked(func() { forget(l.part.agenda) })
	return nil
}

// letters takes the keys that other owners passed on.
func (l *loader) letters(ctx context.Context, now time.Time) error {
	shard := l.part.lease.Shard()
	for after := ""; ; {
		keys, err := l.timers.options.Index.Hints(ctx, shard, mailbox, after, page)
		if err != nil {
			return err
		}
		err = l.each(ctx, keys, func(ctx context.Context, key string) error {
			record, err := l.timers.options.Open(ctx, l.part.lease, key)
			if err != nil {
				return err
			}
			err = record.Rehome(ctx)
			record.Close()
			if err == nil {
				err = l.take(ctx, mailbox, key)
			}
			if err != nil {
				return err
			}
			return l.timers.options.Index.DropHint(ctx, shard, mailbox, key, now.UnixMicro())
		})
		if err != nil || len(keys) < page {
			return err
		}
		after = keys[len(keys)-1]
	}
}

func (l *loader) locked(work func()) {
	l.timers.mutex.Lock()
	defer l.timers.mutex.Unlock()
	work()
}
