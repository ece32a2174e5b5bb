package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/consumer"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

func TestStopCommitsWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBench(t, 4), newLedger()
		for i := range 500 {
			b.send(fmt.Sprint(i%50), fmt.Sprint(i))
		}
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			l.begin(inv.Event)
			defer l.end(inv.Event)
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.CommitInterval = time.Hour
		c := b.start(options)
		b.eventually(func() bool { return l.ended() == 500 }, "all handled")
		assert.Equal(t, int64(0), b.committed(4))
		begun := time.Now()
		b.stop(c)
		assert.Less(t, time.Since(begun), 200*time.Millisecond)
		assert.Equal(t, int64(500), b.committed(4))
		assert.Empty(t, l.faults)
	})
}

func TestPositionsAreCommittedEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		var failing atomic.Bool
		failing.Store(true)
		b.broker.Fail(func(op, _ string) error {
			if op == "commit" && failing.Load() {
				return &kafka.Error{Code: kafka.TimedOut, Text: "injected"}
			}
			return nil
		})
		c := b.start(b.options(succeed))
		b.send("a", "1")
		time.Sleep(3 * time.Second)
		assert.Equal(t, int64(0), b.committed(1))
		failing.Store(false)
		time.Sleep(1100 * time.Millisecond)
		assert.Equal(t, int64(1), b.committed(1))
		facts := c.Snapshot()
		assert.Equal(t, int64(1), facts.Counters.Commits)
		assert.Positive(t, facts.Counters.CommitFailures)
		require.Len(t, facts.Partitions, 1)
		assert.Equal(t, int64(0), facts.Partitions[0].Lag)
		assert.Equal(t, int64(1), facts.Partitions[0].Position)
		text, err := json.Marshal(facts)
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), `"partitions"`))
		b.stop(c)
	})
}

func TestLastCommitIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		var tries atomic.Int64
		b.broker.Fail(func(op, _ string) error {
			if op == "commit" && tries.Add(1) < 5 {
				return &kafka.Error{Code: kafka.Rebalancing, Text: "injected"}
			}
			return nil
		})
		options := b.options(succeed)
		options.CommitInterval = time.Hour
		c := b.start(options)
		b.send("a", "1")
		b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 1 }, "handled")
		b.stop(c)
		assert.Equal(t, int64(1), b.committed(1))
		assert.EqualValues(t, 5, tries.Load())
	})
}

func TestStopEndsWithTheLastHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("a", "1")
		options := b.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			time.Sleep(3 * time.Second)
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.CommitInterval = time.Hour
		c := b.start(options)
		b.eventually(func() bool { return c.Snapshot().Running == 1 }, "running")
		begun := time.Now()
		b.stop(c)
		assert.InDelta(t, 3, time.Since(begun).Seconds(), 0.1)
		assert.Equal(t, int64(1), b.committed(1))
	})
}

func TestIdleWorkersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		release := make(chan struct{})
		options := b.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			<-release
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.MaxUncommitted = 500
		for i := range 500 {
			b.send(fmt.Sprint(i), "1")
		}
		c := b.start(options)
		b.eventually(func() bool { return c.Snapshot().Workers == 500 }, "all run")
		close(release)
		synctest.Wait()
		assert.Equal(t, 64, c.Snapshot().Workers)
		b.stop(c)
		assert.Equal(t, 0, c.Snapshot().Workers)
	})
}

func TestDeafHandlerDoesNotHoldUpStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("deaf", "1")
		b.send("good", "2")
		release := make(chan struct{})
		var asked atomic.Pointer[time.Time]
		var cause atomic.Value
		var over atomic.Int64
		c := b.start(b.options(func(ctx context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			if inv.Event.Key == "deaf" {
				<-inv.Leaving.Done()
				now := time.Now()
				cause.Store(context.Cause(ctx))
				asked.Store(&now)
				<-inv.Over
				over.Store(int64(time.Since(now)))
				<-release
			}
			return pipeline.Outcome{Class: pipeline.Success}
		}))
		b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 1 }, "the good one")
		begun := time.Now()
		b.stop(c)
		took := time.Since(begun)
		assert.InDelta(t, 8, asked.Load().Sub(begun).Seconds(), 0.01)
		assert.Equal(t, pipeline.ShuttingDown, cause.Load())
		assert.InDelta(t, 2, time.Duration(over.Load()).Seconds(), 0.01)
		assert.InDelta(t, 10, took.Seconds(), 1)
		close(release)
		synctest.Wait()
		_, has := b.broker.Committed(group, at(0))
		assert.False(t, has, "the deaf handler's record is not done")
	})
}

func TestHandlerThatEndsBadlyWhileLeavingIsLeft(t *testing.T) {
	for class, committed := range map[pipeline.Class]int64{
		pipeline.Transient: 1, pipeline.Aborted: 1, pipeline.Permanent: 2, pipeline.Success: 2,
	} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 1)
				b.send("a", "1")
				b.send("a", "2")
				b.send("a", "3")
				c := b.start(b.options(func(ctx context.Context, inv *pipeline.Invocation) pipeline.Outcome {
					if inv.Event.Offset == 0 {
						return pipeline.Outcome{Class: pipeline.Success}
					}
					assert.Equal(t, int64(1), inv.Event.Offset, "nothing starts any more")
					<-ctx.Done()
					return pipeline.Outcome{Class: class}
				}))
				b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 1 }, "the first")
				b.stop(c)
				assert.Equal(t, committed, b.committed(1))
				if committed == 1 {
					assert.Equal(t, int64(1), c.Snapshot().Counters.Aborted)
				}
			})
		})
	}
}

func TestRevokeLetsTheRestFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		release := make(chan struct{})
		var first, second atomic.Int64
		count := func(n *atomic.Int64, deaf bool) pipeline.Func {
			return func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
				if deaf && inv.Event.Partition == 1 {
					<-release
				} else {
					n.Add(1)
				}
				return pipeline.Outcome{Class: pipeline.Success}
			}
		}
		one := b.start(b.options(count(&first, true)))
		b.eventually(func() bool { return one.Partitions() == 2 }, "both")
		keys := [2]string{}
		for i := range 100 {
			keys[b.place(fmt.Sprint(i))] = fmt.Sprint(i)
		}
		b.eventually(func() bool { return one.Snapshot().Running > 0 }, "deaf handlers run")
		two := b.start(b.options(count(&second, false)))
		begun := time.Now()
		b.eventually(func() bool { return one.Partitions() == 1 }, "revoked")
		kept := one.Snapshot()
		for n := first.Load(); time.Since(begun) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
			flowing := slices.IndexFunc(kept.Partitions, func(p consumer.Partition) bool { return !p.Leaving })
			b.send(keys[kept.Partitions[flowing].Partition], "1")
			if kept.Partitions[flowing].Partition == 0 {
				b.eventually(func() bool { return first.Load() > n }, "the kept partition flows")
				n = first.Load()
			}
		}
		b.eventually(func() bool { return two.Partitions() == 1 }, "the other member has its share")
		assert.InDelta(t, 10, time.Since(begun).Seconds(), 1)
		close(release)
		b.stop(one)
		b.stop(two)
	})
}

// place sends a record and tells its partition.
func (b *bench) place(key string) (partition int32) {
	record := &kafka.Record{Topic: topic, Key: []byte(key), Value: []byte("1")}
	require.NoError(b, b.producer.Produce(record, func(d kafka.Delivery) { partition = d.Partition }))
	return partition
}

func TestKeyWaitsForItsOldHandlerWhenThePartitionComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBench(t, 1), newLedger()
		release := make(chan struct{})
		var calls atomic.Int64
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			l.begin(inv.Event)
			defer l.end(inv.Event)
			if inv.Event.Key == "deaf" && calls.Add(1) == 1 {
				<-release
				return pipeline.Outcome{Class: pipeline.Permanent}
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})
		b.send("deaf", "1")
		b.send("deaf", "2")
		c := b.start(options)
		b.eventually(func() bool { return calls.Load() == 1 }, "running")
		b.broker.Expel(group)
		b.send("other", "3")
		b.eventually(func() bool { return len(l.of("other")) == 1 }, "the other key runs in the new assignment")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"1"}, l.of("deaf"))
		assert.Equal(t, 1, c.Snapshot().Abandoned)
		assert.Equal(t, int64(0), b.committed(1), "the old outcome does not count")
		close(release)
		b.eventually(func() bool { return l.ended() == 4 }, "the key goes on")
		assert.Equal(t, []string{"1", "1", "2"}, l.of("deaf"))
		assert.Empty(t, l.faults)
		b.stop(c)
		assert.Equal(t, int64(3), b.committed(1))
	})
}

// The same, when the process has left the group and come again, even twice.
func TestKeyWaitsForItsOldHandlerInTheMembersAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBench(t, 1), newLedger()
		release := make(chan struct{})
		var calls atomic.Int64
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			l.begin(inv.Event)
			defer l.end(inv.Event)
			if inv.Event.Key == "deaf" && calls.Add(1) == 1 {
				<-release
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})
		b.send("deaf", "1")
		b.send("deaf", "2")
		c := b.start(options)
		b.eventually(func() bool { return calls.Load() == 1 }, "running")
		for n := range 2 {
			b.stop(c)
			assert.Equal(t, 1, c.Active())
			options.Before = c
			c = b.start(options)
			b.send("other", fmt.Sprint(n))
			b.eventually(func() bool { return slices.Contains(l.of("other"), fmt.Sprint(n)) }, "the other key runs in the new member")
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"1"}, l.of("deaf"))
			assert.Equal(t, 1, c.Snapshot().Abandoned)
		}
		close(release)
		b.eventually(func() bool { return b.committed(1) == 4 }, "the key goes on")
		assert.Equal(t, []string{"1", "1", "2"}, l.of("deaf"))
		assert.Empty(t, l.faults)
		assert.Zero(t, c.Active())
		b.stop(c)
		assert.Zero(t, c.Snapshot().Workers)
	})
}

// A member that goes on before the one before has ended: its handlers still count, and
// their keys wait all the same.
func TestMemberAfterOneThatStillStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBench(t, 1), newLedger()
		var calls atomic.Int64
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			l.begin(inv.Event)
			defer l.end(inv.Event)
			if calls.Add(1) == 1 {
				time.Sleep(5 * time.Second)
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})
		b.send("k", "1")
		c := b.start(options)
		b.eventually(func() bool { return calls.Load() == 1 }, "running")
		impatient, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		assert.ErrorIs(t, c.Stop(impatient), context.DeadlineExceeded)
		options.Before = c
		next := b.start(options)
		b.send("k", "2")
		b.eventually(func() bool { return l.ended() == 2 }, "the key goes on")
		assert.Equal(t, []string{"1", "2"}, l.of("k"))
		assert.Empty(t, l.faults)
		b.stop(c)
		b.stop(next)
	})
}

func TestNothingIsCommittedWhenLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		var cause atomic.Value
		for i := range 10 {
			b.send(fmt.Sprint(i), "1")
		}
		b.send("waits", "1")
		options := b.options(func(ctx context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			if inv.Event.Key == "waits" {
				<-ctx.Done()
				cause.CompareAndSwap(nil, context.Cause(ctx))
				return pipeline.Outcome{Class: pipeline.Success}
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.CommitInterval = time.Hour
		c := b.start(options)
		b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 10 }, "handled")
		begun := time.Now()
		b.broker.Expel(group)
		b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 20 }, "handled again")
		assert.Equal(t, pipeline.Lost, cause.Load(), "cancelled at once")
		assert.Less(t, time.Since(begun), time.Second)
		_, has := b.broker.Committed(group, at(0))
		assert.False(t, has)
		b.stop(c)
		assert.Equal(t, int64(11), b.committed(1))
	})
}

func TestRefusedMemberStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var handled atomic.Int64
		options := s.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			handled.Add(1)
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.StallThreshold = 10 * time.Second
		c, err := consumer.Start(t.Context(), options)
		require.NoError(t, err)
		s.set(func() { s.failing = &kafka.Error{Code: kafka.Stale, Text: "injected"} })
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}}
		s.events <- kafka.Events{Records: records(0, 0, 5)}
		time.Sleep(1500 * time.Millisecond)
		s.events <- kafka.Events{Records: records(0, 5, 9)}
		time.Sleep(15 * time.Second)
		assert.Equal(t, int64(5), handled.Load())
		require.Len(t, c.Stalled(), 1)
		assert.Contains(t, c.Stalled()[0], "the group has refused commits of this member")
		s.set(func() { s.failing = nil })
		time.Sleep(2 * time.Second)
		assert.Equal(t, int64(9), handled.Load())
		assert.Empty(t, c.Stalled())

		s.set(func() { s.failing = &kafka.Error{Code: kafka.Stale, Text: "injected"} })
		s.events <- kafka.Events{Records: records(0, 9, 10)}
		time.Sleep(1500 * time.Millisecond)
		s.events <- kafka.Events{Lost: []kafka.Partition{at(0)}}
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(1)}}
		s.events <- kafka.Events{Records: records(1, 0, 3)}
		synctest.Wait()
		assert.Equal(t, int64(13), handled.Load(), "the new partitions run")

		begun := time.Now()
		require.NoError(t, c.Stop(t.Context()))
		assert.Less(t, time.Since(begun), time.Second, "a refused member does not insist")
	})
}

func TestBackpressureBoundsMemoryAndLosesNothing(t *testing.T) {
	b, l := newBench(t, 2), newLedger()
	const total = 50_000
	for i := range total {
		b.send(fmt.Sprint(i%1000), "1")
	}
	release := make(chan struct{})
	c := b.start(b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
		<-release
		l.begin(inv.Event)
		defer l.end(inv.Event)
		return pipeline.Outcome{Class: pipeline.Success}
	}))
	b.eventually(func() bool {
		facts := c.Snapshot()
		return len(facts.Partitions) == 2 && facts.Partitions[0].Paused && facts.Partitions[1].Paused
	}, "paused")
	facts := c.Snapshot()
	assert.Equal(t, 64, facts.Running)
	assert.LessOrEqual(t, facts.Waiting, 2*(2048+512))
	assert.Empty(t, c.Stalled())
	close(release)
	b.eventually(func() bool { return l.ended() == total }, "all handled: %d", l.ended())
	b.stop(c)
	assert.Equal(t, int64(total), b.committed(2))
	assert.Equal(t, int64(total), c.Snapshot().Counters.Succeeded)
	assert.Empty(t, l.faults)
}

func TestHotKeyDoesNotSlowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBench(t, 1), newLedger()
		for i := range 500 {
			b.send("hot", fmt.Sprint(i))
			b.send(fmt.Sprint(i), "1")
		}
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			if inv.Event.Key == "hot" {
				time.Sleep(time.Second)
			}
			l.begin(inv.Event)
			defer l.end(inv.Event)
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.MaxUncommitted = 2
		c := b.start(options)
		begun := time.Now()
		b.eventually(func() bool { return l.ended() >= 500 }, "the others")
		assert.Less(t, time.Since(begun), 2*time.Second)
		b.stop(c)
	})
}
