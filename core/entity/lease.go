package entity

import (
	"context"
	"slices"
	"sync"
	"time"

	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
)

// Lease is one assignment of a partition.
type Lease struct {
	keeper *Keeper
	name   kafka.Partition
	number uint64

	mutex   sync.Mutex
	fenced  bool
	ended   bool
	writing int           // commits on their way to the store
	quiet   chan struct{} // closed: fenced, and none is on its way

	dirty map[*record]struct{} // under keeper.mutex: records with unwritten marks
}

// Assign begins an assignment; one of the same partition that is still there ends.
func (k *Keeper) Assign(name kafka.Partition) *Lease {
	lease := &Lease{keeper: k, name: name, quiet: make(chan struct{}), dirty: map[*record]struct{}{}}
	k.mutex.Lock()
	old := k.leases[name]
	k.mutex.Unlock()
	if old != nil {
		old.End()
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.number++
	lease.number = k.number
	k.leases[name] = lease
	return lease
}

// Partition names what is assigned.
func (l *Lease) Partition() kafka.Partition { return l.name }

// Shard names the lease's part of the time index.
func (l *Lease) Shard() store.Shard {
	return store.Shard{Group: l.keeper.options.Group, Topic: l.name.Topic, Partition: l.name.Index}
}

// Fence ends the right to commit. What is marked already can still be flushed.
func (l *Lease) Fence() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.fenced {
		l.fenced = true
		if l.writing == 0 {
			close(l.quiet)
		}
	}
}

// over tells that nothing may be committed any more.
func (l *Lease) over() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.fenced {
		return revoked(l)
	}
	return nil
}

// enter begins a write that Fence comes after.
func (l *Lease) enter() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.fenced {
		return revoked(l)
	}
	l.writing++
	return nil
}

func (l *Lease) leave() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.writing--
	if l.fenced && l.writing == 0 {
		close(l.quiet)
	}
}

// lasts tells that a write of the assignment may still be sent. A fenced one still flushes.
func (l *Lease) lasts() error {
	if l.finished() {
		return revoked(l)
	}
	return l.keeper.doubt()
}

func (l *Lease) finished() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.ended
}

// End gives the assignment up: nothing of it is written any more, and what is known of
// its keys is forgotten.
func (l *Lease) End() {
	l.Fence()
	l.mutex.Lock()
	l.ended = true
	l.mutex.Unlock()
	k := l.keeper
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.leases[l.name] == l {
		delete(k.leases, l.name)
	}
	for r := range l.dirty {
		k.clean(r, l)
	}
	for _, r := range k.keys {
		i := slices.Index(r.leases, l)
		if i < 0 {
			continue
		}
		r.leases = slices.Delete(r.leases, i, i+1)
		if len(r.leases) == 0 {
			k.forget(r)
			continue
		}
		r.stale.Store(true) // another member may change it now
	}
}

// soil notes that a record has marks of the lease; clean that it has none. Both are
// under keeper.mutex.
func (k *Keeper) soil(r *record, l *Lease) {
	if _, known := l.dirty[r]; known {
		return
	}
	l.dirty[r] = struct{}{}
	if len(r.dirty) == 0 {
		k.behind++
		r.unlink()
	}
	r.dirty = append(r.dirty, l)
}

func (k *Keeper) clean(r *record, l *Lease) {
	delete(l.dirty, r)
	if i := slices.Index(r.dirty, l); i >= 0 {
		r.dirty = slices.Delete(r.dirty, i, i+1)
		if len(r.dirty) == 0 {
			k.behind--
			k.rest(r)
		}
	}
}

// Flush writes the marks that wait, and for a fenced lease also waits for commits that
// are on their way. It lists the partitions of which not all could be written, and the
// first reason.
func (k *Keeper) Flush(ctx context.Context, names []kafka.Partition) (failed []kafka.Partition, err error) {
	var leases []*Lease
	records := map[*record]*Lease{}
	k.mutex.Lock()
	for _, name := range names {
		if lease := k.leases[name]; lease != nil {
			leases = append(leases, lease)
			for r := range lease.dirty {
				records[r] = lease
			}
		}
	}
	k.mutex.Unlock()
	width := k.width(len(records))
	began := time.Now()
	written, broken, err := k.flush(ctx, records, width)
	k.pace(written, width, time.Since(began), err == nil)
	k.shrink()
	for _, lease := range leases {
		if lease.over() != nil {
			select {
			case <-lease.quiet:
			case <-ctx.Done():
				broken[lease] = true
				if err == nil {
					err = fault.Wrap(fault.Timeout, ctx.Err(), "wait for commits")
				}
			}
		}
		if broken[lease] {
			failed = append(failed, lease.name)
		}
	}
	return failed, err
}

// least and fair are how many keys may have marks that wait: at least, and before the
// speed of the store is known.
const least, fair = 256, 1024

// gentle is about how long a Flush of few marks takes. Written all at once, they would
// delay the events of that moment.
const gentle = 200 * time.Millisecond

// width is how many writes are to be in flight at once.
func (k *Keeper) width(marks int) int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.write == 0 {
		return k.options.Parallel // nobody knows yet how long one takes
	}
	return min(1+int(time.Duration(marks)*k.write/gentle), k.options.Parallel)
}

// pace notes how long a write took, and bounds the marks that wait to what a Flush writes
// in about a second, since offset commits wait for it. Other marks are written at once,
// and slow their handlers down.
func (k *Keeper) pace(written, width int, took time.Duration, whole bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	switch {
	case !whole:
		k.write = 0 // none is to wait for one that hangs
	case written > 0:
		k.write = max(1, took*time.Duration(min(width, written))/time.Duration(written))
	}
	switch full := width == k.options.Parallel; {
	case took > time.Second && full:
		k.room = int(float64(written) / took.Seconds())
	case took < time.Second/2 && written >= k.room/2:
		k.room *= 2
	}
	k.room = min(max(least, k.room), k.options.Behind)
}

// flush writes the marks of records, some at a time, and counts them. A record that cannot
// be written breaks all leases that have marks in it. After many failures the rest is not
// tried.
func (k *Keeper) flush(ctx context.Context, records map[*record]*Lease, width int) (written int, broken map[*Lease]bool, err error) {
	var (
		mutex    sync.Mutex
		failures int
		workers  sync.WaitGroup
		queue    = make(chan *record)
	)
	broken = map[*Lease]bool{}
	write := func(r *record) error {
		mutex.Lock()
		hopeless := failures >= k.options.Parallel
		mutex.Unlock()
		if hopeless {
			return errHopeless
		}
		return r.flush(ctx, records[r])
	}
	for range min(width, len(records)) {
		workers.Go(func() {
			for r := range queue {
				failure := safely(func() error { return write(r) })
				if failure == nil {
					mutex.Lock()
					written++
					mutex.Unlock()
					continue
				}
				k.mutex.Lock()
				leases := append([]*Lease{records[r]}, r.dirty...)
				k.mutex.Unlock()
				mutex.Lock()
				failures++
				if err == nil {
					err = failure
				}
				for _, lease := range leases {
					broken[lease] = true
				}
				mutex.Unlock()
			}
		})
	}
	for r := range records {
		queue <- r
	}
	close(queue)
	workers.Wait()
	return written, broken, err
}

var errHopeless = fault.New(fault.Store, "not tried after many failures")

func safely(call func() error) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fault.New(fault.Internal, "writing a mark panicked: %v", thrown)
		}
	}()
	return call()
}
