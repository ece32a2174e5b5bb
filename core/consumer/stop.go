package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Stop lets running handlers end, asks them to stop near the end of the shutdown
// budget, commits and leaves the group. It takes at most the budget and a few seconds.
// Each call waits for the one end; when ctx ends first, stopping goes on without it.
func (c *Consumer) Stop(ctx context.Context) error {
	c.once.Do(func() { go c.stop() })
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Consumer) stop() {
	defer close(c.done)
	defer func() {
		if thrown := recover(); thrown != nil {
			c.panicked("stop", thrown)
		}
	}()
	var names []kafka.Partition
	deadline := time.Now().Add(c.options.ShutdownTimeout)
	c.locked(func() {
		c.stopping = true
		names = c.holds()
		for _, name := range names {
			c.leave(c.leases[name], deadline, pipeline.ShuttingDown)
		}
	})
	if err := c.kafka.Pause(names); err != nil {
		c.log.Debug("pausing partitions failed", "error", err)
	}
	poke(c.wake)
	var failures []error
	if !wait(c.released, time.Until(deadline)+grace+time.Second) {
		failures = append(failures, errors.New("the partitions could not be given up in time"))
	}
	close(c.quit)
	failures = append(failures, c.close())
	if abandoned := c.join(); abandoned > 0 {
		c.log.Error("handlers still run after the shutdown", "handlers", abandoned)
	}
	c.locked(func() {
		for _, held := range c.leases {
			c.set.Lose(held.name)
			c.end(held, pipeline.ShuttingDown)
		}
	})
	c.err = errors.Join(failures...)
}

// close leaves the group and waits for the loops. A Poll that waits returns by it.
func (c *Consumer) close() error {
	closed := make(chan error, 1)
	go func() { closed <- c.kafka.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("close the Kafka client: %w", err)
		}
	case <-time.After(closing):
		return errors.New("the Kafka client did not close in time")
	}
	loops := make(chan struct{})
	go func() { c.loops.Wait(); close(loops) }()
	if !wait(loops, closing) {
		return errors.New("the poll loop did not end in time")
	}
	return nil
}

// join waits until only workers are left whose handlers do not end, and counts
// them.
func (c *Consumer) join() int {
	for end := time.Now().Add(closing); ; {
		workers, running := 0, 0
		c.locked(func() {
			facts := c.set.Snapshot(time.Now())
			workers, running = c.workers, facts.Running+facts.Abandoned-len(c.bars)
		})
		if workers <= running || time.Now().After(end) {
			return workers
		}
		select {
		case <-c.exited:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func wait(signal chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-signal:
		return true
	case <-timer.C:
		return false
	}
}
