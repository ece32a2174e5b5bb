package consumer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/partition"
	"prosody/core/pipeline"
	"prosody/core/timer"
)

const (
	mostRecords = 512                  // of one Poll
	mostBytes   = 8 << 20              // of one Poll, judged by the last one
	nimble      = 5 * time.Millisecond // that a Poll waits while a partition is paused
)

// intake is what the poll loop keeps from one round to the next.
type intake struct {
	consumer *Consumer
	entries  []entry
	starts   []partition.Start
	pause    []kafka.Partition
	resume   []kafka.Partition
	limit    int
	trouble  string // the last error that was logged
	since    time.Time
}

type entry struct {
	record *kafka.Record
	event  *event.Event
	reason string // why it is no event
	size   int64
}

func (c *Consumer) poll() {
	in := &intake{consumer: c, limit: mostRecords}
	for {
		select {
		case <-c.quit:
			return
		default:
		}
		wait := min(c.options.PollInterval, c.silence/4)
		if in.flow() {
			wait = min(wait, nimble)
		}
		events := c.kafka.Poll(wait, in.limit)
		c.woke(time.Now())
		in.rebalance(events)
		in.take(events.Records)
		in.report(events)
	}
}

// flow pauses and resumes, and tells whether a partition is paused.
func (in *intake) flow() (paused bool) {
	c := in.consumer
	c.locked(func() {
		in.pause, in.resume = c.set.Flow(in.pause[:0], in.resume[:0])
		paused = c.set.Paused() || len(in.pause) > 0
	})
	in.apply(in.pause, true, c.kafka.Pause)
	in.apply(in.resume, false, c.kafka.Resume)
	return paused
}

// apply repeats a failed call in the next round.
func (in *intake) apply(names []kafka.Partition, paused bool, call func([]kafka.Partition) error) {
	if len(names) == 0 {
		return
	}
	if err := call(names); err != nil {
		in.warn("pausing or resuming partitions failed", err)
		return
	}
	in.consumer.locked(func() { in.consumer.set.Flowed(names, paused) })
}

// rebalance follows what the group has decided.
func (in *intake) rebalance(events kafka.Events) {
	if len(events.Lost)+len(events.Revoked)+len(events.Assigned) == 0 {
		return
	}
	c := in.consumer
	var release, pause []kafka.Partition
	c.locked(func() {
		for _, name := range events.Lost {
			c.lose(name, slices.Contains(events.Assigned, name))
		}
		c.hold(false) // what is lost is fenced by now
		for _, name := range events.Revoked {
			if held := c.leases[name]; held != nil {
				c.leave(held, time.Now().Add(c.options.ShutdownTimeout), pipeline.Revoked)
			} else {
				release = append(release, name)
			}
		}
		for _, name := range events.Assigned {
			if c.stopping {
				pause = append(pause, name)
				continue
			}
			c.log.Info("partition assigned", fields(name)...)
			c.set.Restart(name, c.grant(name))
		}
		in.starts = c.startable(in.starts[:0])
	})
	c.dispatch(in.starts)
	poke(c.wake)
	if len(release) > 0 {
		if err := c.kafka.Release(release); err != nil {
			in.warn("releasing partitions failed", err)
		}
	}
	in.apply(pause, true, c.kafka.Pause)
}

// grant makes a lease; under the mutex.
func (c *Consumer) grant(name kafka.Partition) *lease {
	made := &lease{name: name, over: make(chan struct{})}
	made.ctx, made.cancel = context.WithCancelCause(context.Background())
	c.leases[name] = made
	if c.options.Ledger != nil {
		made.mark = c.options.Ledger.Assign(name, made.ctx)
	}
	return made
}

// lose ends a lease at once. Of a partition that starts again the set needs to know
// whether it is paused, so it stays until then. Under the mutex.
func (c *Consumer) lose(name kafka.Partition, again bool) {
	held := c.leases[name]
	if held == nil {
		return
	}
	c.log.Warn("partition lost", fields(name, slog.Any("running", c.set.Running(name)))...)
	if !again || c.stopping {
		c.set.Lose(name)
	}
	c.end(held, pipeline.Lost)
}

// end forgets a lease; under the mutex.
func (c *Consumer) end(held *lease, cause pipeline.Cause) {
	for _, timer := range held.timers {
		timer.Stop()
	}
	held.cancel(cause)
	held.fence()
	if c.options.Ledger != nil {
		c.options.Ledger.End(held.mark)
	}
	if c.leases[held.name] == held {
		delete(c.leases, held.name)
	}
}

// leave begins to give a partition up: near the end of the budget its handlers are
// asked to stop, and at its end they count no more. Under the mutex.
func (c *Consumer) leave(held *lease, deadline time.Time, cause pipeline.Cause) {
	if !held.final.IsZero() {
		return
	}
	c.log.Info("giving partition up", fields(held.name, slog.String("cause", cause.Error()))...)
	held.final = deadline.Add(grace)
	c.set.Revoke(held.name)
	if lease, ok := held.mark.(timer.Lease); ok && c.options.Timers != nil {
		c.options.Timers.Leave(lease)
	}
	budget := time.Until(deadline)
	held.timers = append(held.timers,
		time.AfterFunc(budget*4/5, func() { held.cancel(cause) }),
		time.AfterFunc(budget, func() { c.abandon(held, cause) }))
}

// abandon ends the budget of a lease.
func (c *Consumer) abandon(held *lease, cause pipeline.Cause) {
	held.cancel(cause)
	c.locked(func() {
		if c.leases[held.name] != held {
			return
		}
		if running := c.set.Running(held.name); len(running) > 0 {
			c.log.Error("handlers did not end in time and count no more",
				fields(held.name, slog.Any("offsets", running))...)
		}
		c.set.Abandon(held.name)
		held.fence()
		if c.options.Ledger != nil {
			c.options.Ledger.Fence(held.mark)
		}
	})
	poke(c.wake)
}

// take hands records over to the set and starts what can start.
func (in *intake) take(records []*kafka.Record) {
	if len(records) == 0 {
		return
	}
	c := in.consumer
	now := c.options.Clock.Now()
	var bytes int64
	for _, record := range records {
		made := entry{record: record, size: size(record)}
		if found, invalid := c.options.Decode(record, now); invalid == nil {
			made.event = found
		} else {
			made.reason = invalid.Reason
		}
		bytes += made.size
		in.entries = append(in.entries, made)
	}
	in.limit = int(max(1, min(mostRecords, mostBytes/max(1, bytes/int64(len(records))))))
	c.locked(func() {
		for i := range in.entries {
			in.offer(&in.entries[i])
		}
		in.starts = c.startable(in.starts[:0])
	})
	clear(in.entries)
	in.entries = in.entries[:0]
	c.dispatch(in.starts)
	clear(in.starts)
}

// offer is under the mutex.
func (in *intake) offer(made *entry) {
	c := in.consumer
	name := kafka.Partition{Topic: made.record.Topic, Index: made.record.Partition}
	verdict := in.put(made)
	if verdict == partition.Stale && in.shrunk(name) {
		verdict = in.put(made)
	}
	switch verdict {
	case partition.Unassigned:
		if !c.stopping {
			c.log.Warn("record of a partition that is not assigned", fields(name, slog.Int64("offset", made.record.Offset))...)
		}
	case partition.Stale:
		c.log.Debug("record came again", fields(name, slog.Int64("offset", made.record.Offset))...)
	case partition.Skipped:
		c.log.Error("skipping invalid record", fields(name, slog.Int64("offset", made.record.Offset), slog.String("reason", made.reason))...)
	case partition.Looped:
		in.filtered(made, "source_system")
	case partition.Unwanted:
		in.filtered(made, "event_type")
	}
}

// filtered tells of a record that no handler gets by the wish of the operator: to who asks
// for it, since there may be many.
func (in *intake) filtered(made *entry, reason string) {
	if log := in.consumer.log; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("record filtered", append(pipeline.Fields(made.event), slog.String("reason", reason))...)
	}
}

func (in *intake) put(made *entry) partition.Verdict {
	set := in.consumer.set
	switch {
	case made.event != nil:
		return set.Offer(made.event, made.size)
	case in.consumer.options.Invalid == nil:
		return set.Skip(made.record)
	}
	return set.OfferInvalid(made.record, made.reason, made.size)
}

// shrunk looks whether the log ends before what it has delivered: the topic was made
// anew, or cut. Then reading begins anew, from where the client library has gone on.
func (in *intake) shrunk(name kafka.Partition) bool {
	c := in.consumer
	highest := c.set.Highest(name)
	if end, known := c.kafka.End(name); !known || end > highest {
		return false
	}
	held := c.leases[name]
	if held == nil {
		return false
	}
	c.log.Warn("the log is shorter than what it has delivered: the topic was recreated or cut; going on with what it holds now",
		fields(name, slog.Int64("delivered", highest))...)
	c.end(held, pipeline.Lost)
	c.set.Restart(name, c.grant(name))
	return true
}

// size is about what a record needs in memory.
func size(record *kafka.Record) int64 {
	total := len(record.Key) + len(record.Value) + 256
	for _, header := range record.Headers {
		total += len(header.Name) + len(header.Value) + 48
	}
	return int64(total)
}

// report logs what the client library complains of, and keeps a client that does
// nothing else from spinning.
func (in *intake) report(events kafka.Events) {
	for _, err := range events.Errors {
		var failure *kafka.Error
		if errors.As(err, &failure) && (failure.Code == kafka.Fatal || failure.Code == kafka.Closed) {
			if in.consumer.leaves() {
				continue // Stop has closed it
			}
			in.consumer.fail("the Kafka client cannot go on: " + err.Error())
		}
		in.warn("Kafka client reports", err)
	}
	if len(events.Errors) > 0 && len(events.Records) == 0 {
		select {
		case <-in.consumer.quit:
		case <-time.After(nimble):
		}
	}
}

func (c *Consumer) leaves() (stopping bool) {
	c.locked(func() { stopping = c.stopping })
	return stopping
}

// warn logs, but not the same again and again.
func (in *intake) warn(what string, err error) {
	text := what + ": " + err.Error()
	if now := time.Now(); text != in.trouble || now.Sub(in.since) > 10*time.Second {
		in.trouble, in.since = text, now
		in.consumer.log.Warn(what, "error", err)
	}
}

// holds lists what is held; under the mutex.
func (c *Consumer) holds() []kafka.Partition {
	names := make([]kafka.Partition, 0, len(c.leases))
	for name := range c.leases {
		names = append(names, name)
	}
	slices.SortFunc(names, compare)
	return names
}
