package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/consumer"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

func TestChurnKeepsOrder(t *testing.T) { churn(t, false) }

func TestChurnWithLossKeepsOrder(t *testing.T) { churn(t, true) }

// churn lets four members come and go. No record is skipped, and the first deliveries
// of a key are in order. Without loss, no two events of a key run at once in the group.
func churn(t *testing.T, loss bool) {
	b, l := newBench(t, 8), newLedger()
	const keys, each = 100, 100
	options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
		l.begin(inv.Event)
		if inv.Event.Offset%7 == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		l.end(inv.Event)
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options.CommitInterval = 5 * time.Millisecond
	members := make([]*consumer.Consumer, 4)
	for i := range members {
		members[i] = b.start(options)
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := range each {
			for key := range keys {
				b.send(fmt.Sprint(key), fmt.Sprint(n))
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	for round := range 120 {
		at := round % len(members)
		if loss && round%3 == 0 {
			b.broker.Expel(group)
		}
		b.stop(members[at])
		members[at] = b.start(options)
		time.Sleep(5 * time.Millisecond)
	}
	sending.Wait()
	b.eventually(func() bool { return b.committed(8) == keys*each }, "committed %d", b.committed(8))
	for _, member := range members {
		b.stop(member)
	}
	for key := range keys {
		complete(t, l, fmt.Sprint(key), each)
	}
	if !loss {
		assert.Empty(t, l.faults)
	}
}

// complete checks that payloads 0 to n-1 of a key came in order. What was done behind
// a hole in the log comes again after a rebalance, so repeats are allowed.
func complete(t *testing.T, l *ledger, key string, n int) {
	t.Helper()
	next := 0
	for _, payload := range l.of(key) {
		number, err := strconv.Atoi(payload)
		require.NoError(t, err)
		require.LessOrEqual(t, number, next, "key %s skips", key)
		next = max(next, number+1)
	}
	require.Equal(t, n, next, "key %s", key)
}

func TestHundredCyclesLoseAndLeakNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	b, l := newBench(t, 4), newLedger()
	options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
		l.begin(inv.Event)
		defer l.end(inv.Event)
		return pipeline.Outcome{Class: pipeline.Success}
	})
	for round := range 100 {
		c := b.start(options)
		for i := range 20 {
			b.send(fmt.Sprint(i), fmt.Sprint(round))
		}
		var stops sync.WaitGroup
		for range 3 {
			stops.Go(func() { b.stop(c) })
		}
		stops.Wait()
	}
	c := b.start(options)
	b.eventually(func() bool { return b.committed(4) == 2000 }, "all")
	b.stop(c)
	for key := range 20 {
		complete(t, l, fmt.Sprint(key), 100)
	}
	assert.Empty(t, l.faults)
	goleak.VerifyNone(t, before)
}

func TestInvalidRecords(t *testing.T) {
	send := func(b *bench) {
		b.send("a", "1")
		b.send("bad", "{")
		b.send("b", "1")
	}
	t.Run("skip", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 1)
			send(b)
			c := b.start(b.options(succeed))
			b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 2 }, "the good ones")
			b.stop(c)
			assert.Equal(t, int64(3), b.committed(1))
			assert.Equal(t, int64(1), c.Snapshot().Counters.Invalid)
		})
	})
	t.Run("dead letter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 1)
			send(b)
			options := b.options(succeed)
			var calls atomic.Int64
			var failing atomic.Bool
			failing.Store(true)
			options.Invalid = func(_ context.Context, record *kafka.Record, reason string) error {
				calls.Add(1)
				assert.Equal(t, "bad", string(record.Key))
				assert.NotEmpty(t, reason)
				if failing.Load() {
					return errors.New("injected")
				}
				return nil
			}
			options.StallThreshold = time.Minute
			c := b.start(options)
			time.Sleep(3 * time.Minute)
			assert.Equal(t, int64(2), c.Snapshot().Counters.Succeeded, "the other keys flow")
			assert.Equal(t, int64(1), b.committed(1), "the watermark waits for the dead letter")
			assert.InDelta(t, 14, calls.Load(), 2, "with growing waits")
			assert.Empty(t, c.Stalled(), "trying again is no standstill")
			failing.Store(false)
			time.Sleep(40 * time.Second)
			assert.Equal(t, int64(3), b.committed(1))
			b.stop(c)
		})
	})
	t.Run("leaving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 1)
			send(b)
			options := b.options(succeed)
			options.Invalid = func(context.Context, *kafka.Record, string) error { return errors.New("injected") }
			c := b.start(options)
			b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 2 }, "the good ones")
			b.stop(c)
			assert.Equal(t, int64(1), b.committed(1))
		})
	})
}
