package consumer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"prosody/core/kafka"
	"prosody/core/partition"
	"prosody/core/pipeline"
)

// commits writes positions each interval, and gives partitions up once they have
// drained. It ends when the consumer stops and holds nothing any more.
func (c *Consumer) commits() {
	ticker := time.NewTicker(c.options.CommitInterval)
	defer ticker.Stop()
	var round committer
	round.consumer = c
	for {
		due := false
		select {
		case <-ticker.C:
			due = true
			c.trust()
		case <-c.wake:
		case <-c.quit:
			return
		}
		for wait := 50 * time.Millisecond; round.settle(due); wait = min(2*wait, 500*time.Millisecond) {
			select {
			case <-time.After(wait):
			case <-c.quit:
				return
			}
		}
		if c.empty() {
			close(c.released)
			return
		}
	}
}

func (c *Consumer) empty() (empty bool) {
	c.locked(func() { empty = c.stopping && len(c.leases) == 0 })
	return empty
}

// committer keeps the memory of one round for the next.
type committer struct {
	consumer  *Consumer
	drained   []kafka.Partition
	positions []kafka.Position
	leaving   []*lease
	starts    []partition.Start
	flush     []kafka.Partition
}

// settle commits, when it is due or something has drained, and then gives up what has
// drained. True: the last commit of a partition failed and is to be tried again soon.
func (r *committer) settle(due bool) (again bool) {
	c := r.consumer
	now := time.Now()
	until := now.Add(commitTimeout)
	final := until
	c.locked(func() {
		r.drained = c.set.Drained(r.drained[:0])
		r.leaving = r.leaving[:0]
		for _, name := range r.drained {
			r.leaving = append(r.leaving, c.leases[name])
		}
		for _, held := range c.leases {
			if !held.final.IsZero() && held.final.Before(final) {
				final = held.final
			}
		}
		if due || len(r.leaving) > 0 {
			r.positions = c.set.Positions(r.positions[:0])
		} else {
			r.positions = r.positions[:0]
		}
		r.flush = append(r.flush[:0], r.drained...)
		if due {
			r.flush = r.flush[:0]
			for name := range c.leases {
				r.flush = append(r.flush, name)
			}
			return
		}
		// The others keep their marks, and their positions with them, until it is due.
		r.positions = slices.DeleteFunc(r.positions, func(p kafka.Position) bool {
			if slices.Contains(r.drained, p.Partition) {
				return false
			}
			c.set.Withhold(p.Partition)
			return true
		})
	})
	if !r.note(final) && c.patient(r.leaving) {
		return true
	}
	c.locked(func() {
		r.positions = slices.DeleteFunc(r.positions, func(p kafka.Position) bool { return !c.set.Sending(p) })
	})
	if len(r.positions) > 0 {
		if floor := time.Now().Add(grace / 4); final.Before(floor) {
			final = floor
		}
		if err := r.write(final); err != nil && len(r.leaving) > 0 && !stale(err) && c.patient(r.leaving) {
			return true
		}
	}
	r.release()
	return false
}

// note flushes the ledger. The positions of what failed are withheld; false: a partition
// that leaves is among it.
func (r *committer) note(until time.Time) bool {
	c := r.consumer
	if c.options.Ledger == nil || len(r.flush) == 0 {
		return true
	}
	if len(r.leaving) > 0 {
		until = until.Add(-grace / 4)
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	failed, err := c.options.Ledger.Flush(ctx, r.flush)
	cancel()
	if err != nil {
		c.log.Warn("marks of events could not be written", "error", err, "partitions", len(failed))
	}
	if len(failed) == 0 {
		return true
	}
	c.locked(func() {
		for _, name := range failed {
			c.set.Withhold(name)
		}
	})
	r.positions = slices.DeleteFunc(r.positions, func(p kafka.Position) bool { return slices.Contains(failed, p.Partition) })
	return !slices.ContainsFunc(r.drained, func(name kafka.Partition) bool { return slices.Contains(failed, name) })
}

// patient tells whether there is time left for another last commit.
func (c *Consumer) patient(leaving []*lease) bool {
	now := time.Now()
	for _, held := range leaving {
		if now.After(held.final) {
			c.log.Error("the last positions could not be committed: records will come again")
			return false
		}
	}
	return true
}

// write commits the positions.
func (r *committer) write(until time.Time) error {
	c := r.consumer
	ctx, cancel := context.WithDeadline(context.Background(), until)
	began := time.Now()
	err := c.kafka.Commit(ctx, r.positions)
	cancel()
	r.starts = r.starts[:0]
	c.locked(func() {
		c.set.Committed(err == nil)
		// A member that is out of the group may not go on until the poll loop has told
		// what became of its partitions, or a commit works again.
		switch {
		case err == nil && c.held.Before(began):
			c.hold(false)
			r.starts = c.startable(r.starts)
		case stale(err):
			c.hold(true)
			c.doubt = time.Time{}
		}
	})
	c.dispatch(r.starts)
	clear(r.starts)
	if err != nil {
		c.log.Warn("commit failed", "error", err, "partitions", len(r.positions))
	}
	return err
}

// hold stops all starts, or lets them go on; under the mutex.
func (c *Consumer) hold(held bool) {
	c.set.Hold(held)
	if c.options.Ledger != nil {
		c.options.Ledger.Hold(held)
	}
	switch {
	case !held:
		c.held, c.doubt = time.Time{}, time.Time{}
	case c.held.IsZero():
		c.held = time.Now()
	}
}

// release gives up what has drained.
func (r *committer) release() {
	c := r.consumer
	names := r.drained[:0]
	c.locked(func() {
		for _, held := range r.leaving {
			if c.leases[held.name] != held {
				continue // lost meanwhile
			}
			c.set.Lose(held.name)
			c.end(held, pipeline.Revoked)
			names = append(names, held.name)
			c.log.Info("partition given up", fields(held.name)...)
		}
	})
	clear(r.leaving)
	if len(names) == 0 {
		return
	}
	if err := c.kafka.Release(names); err != nil {
		c.log.Warn("releasing partitions failed", slog.Any("error", err))
	}
}

// stale tells whether the group does not know the member any more.
func stale(err error) bool {
	var failure *kafka.Error
	return errors.As(err, &failure) && failure.Code == kafka.Stale
}
