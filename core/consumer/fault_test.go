package consumer_test

import (
	"context"
	"fmt"
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

func TestStartNamesWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := newScript().options(succeed)
		options.Topics = []string{"b", topic, "^ev.*", "a", "b"}
		_, err := consumer.Start(t.Context(), options)
		assert.EqualError(t, err, "topics not found: b, a")
		options.Topics = nil
		_, err = consumer.Start(t.Context(), options)
		assert.ErrorContains(t, err, "subscribed_topics")
		options.Topics, options.Group = []string{topic}, ""
		_, err = consumer.Start(t.Context(), options)
		assert.ErrorContains(t, err, "group_id")
	})
}

func TestStandstillIsReportedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("a", "1")
		release := make(chan struct{})
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			<-release
			return pipeline.Outcome{Class: pipeline.Success}
		})
		options.StallThreshold = time.Minute
		c := b.start(options)
		time.Sleep(59 * time.Second)
		assert.Empty(t, c.Stalled())
		time.Sleep(2 * time.Second)
		require.Len(t, c.Stalled(), 1)
		assert.Contains(t, c.Stalled()[0], "orders:0: the event at offset 0 has been running for 1m")
		close(release)
		synctest.Wait()
		assert.Empty(t, c.Stalled())
		time.Sleep(time.Hour)
		assert.Empty(t, c.Stalled(), "idle is healthy")
		b.stop(c)
		assert.False(t, c.Joined())
		assert.Equal(t, 0, c.Partitions())
	})
}

func TestProgressIsNoStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("a", "1")
		options := b.options(func(ctx context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			for {
				inv.Progress(50 * time.Second)
				select {
				case <-ctx.Done():
					return pipeline.Outcome{Class: pipeline.Transient}
				case <-time.After(50 * time.Second):
				}
			}
		})
		options.StallThreshold = time.Minute
		c := b.start(options)
		time.Sleep(10 * time.Minute)
		assert.Empty(t, c.Stalled())
		assert.Positive(t, c.Snapshot().Counters.Retried)
		assert.Positive(t, c.Snapshot().Partitions[0].Oldest)
		b.stop(c)
		assert.Equal(t, int64(0), b.committed(1))
	})
}

func TestPanicIsAFaultAndStopsTheKeyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("bad", "1")
		b.send("bad", "2")
		b.send("good", "3")
		options := b.options(func(_ context.Context, inv *pipeline.Invocation) pipeline.Outcome {
			if inv.Event.Key == "bad" {
				panic("injected")
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})
		var faults atomic.Int64
		options.Fault = func(err error) {
			faults.Add(1)
			assert.ErrorContains(t, err, "pipeline panicked: injected")
		}
		c := b.start(options)
		b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 1 }, "the good one")
		assert.Equal(t, int64(1), faults.Load())
		assert.Equal(t, []string{
			"pipeline panicked: injected", "orders:0: 1 keys stand still after an aborted event",
		}, c.Stalled())
		b.stop(c)
		assert.Equal(t, int64(0), b.committed(1))
	})
}

func TestPanicOfThePollLoopIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.panics = true
		options := s.options(succeed)
		var faults atomic.Int64
		options.Fault = func(error) { faults.Add(1) }
		c, err := consumer.Start(t.Context(), options)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, int64(1), faults.Load())
		assert.Equal(t, []string{"poll loop panicked: injected"}, c.Stalled())
		require.NoError(t, c.Stop(t.Context()))
	})
}

func TestFatalClientIsReportedAndDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c, err := consumer.Start(t.Context(), s.options(succeed))
		require.NoError(t, err)
		s.events <- kafka.Events{Errors: []error{&kafka.Error{Code: kafka.Fatal, Text: "injected"}}}
		time.Sleep(time.Second)
		assert.Equal(t, []string{"the Kafka client cannot go on: injected"}, c.Stalled())
		s.set(func() { s.spins = &kafka.Error{Code: kafka.Closed, Text: "injected"} })
		before := s.polled()
		time.Sleep(time.Second)
		assert.LessOrEqual(t, s.polled()-before, 201)
		require.NoError(t, c.Stop(t.Context()))
	})
}

func TestPollGoesOnWhileAllIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		release := make(chan struct{})
		c, err := consumer.Start(t.Context(), s.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			<-release
			return pipeline.Outcome{Class: pipeline.Success}
		}))
		require.NoError(t, err)
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}}
		s.events <- kafka.Events{Records: records(0, 0, 3000)}
		time.Sleep(time.Second)
		assert.Equal(t, []string{"pause [{orders 0}]"}, s.noted())
		before := s.polled()
		time.Sleep(time.Minute)
		assert.Greater(t, s.polled(), before+100)
		close(release)
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		assert.Contains(t, s.noted(), "resume [{orders 0}]")
		require.NoError(t, c.Stop(t.Context()))
	})
}

func TestPauseOutlivesALogThatStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c, err := consumer.Start(t.Context(), s.options(func(ctx context.Context, _ *pipeline.Invocation) pipeline.Outcome {
			<-ctx.Done()
			return pipeline.Outcome{Class: pipeline.Transient}
		}))
		require.NoError(t, err)
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}, Records: records(0, 0, 3000)}
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{"pause [{orders 0}]"}, s.noted())
		s.events <- kafka.Events{Lost: []kafka.Partition{at(0)}, Assigned: []kafka.Partition{at(0)}}
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{"pause [{orders 0}]", "resume [{orders 0}]"}, s.noted())
		assert.Equal(t, 1, c.Partitions())
		assert.Equal(t, 0, c.Snapshot().Waiting)
		require.NoError(t, c.Stop(t.Context()))
	})
}

func TestFailedPauseIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c, err := consumer.Start(t.Context(), s.options(func(ctx context.Context, _ *pipeline.Invocation) pipeline.Outcome {
			<-ctx.Done()
			return pipeline.Outcome{Class: pipeline.Transient}
		}))
		require.NoError(t, err)
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}}
		synctest.Wait()
		s.set(func() { s.failing = &kafka.Error{Code: kafka.Unavailable, Text: "injected"} })
		s.events <- kafka.Events{Records: records(0, 0, 3000)}
		time.Sleep(100 * time.Millisecond)
		assert.False(t, c.Snapshot().Partitions[0].Paused)
		s.set(func() { s.failing = nil })
		time.Sleep(100 * time.Millisecond)
		assert.True(t, c.Snapshot().Partitions[0].Paused)
		require.NoError(t, c.Stop(t.Context()))
	})
}

func TestRecreatedTopicIsReadFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.end = 100
		var handled atomic.Int64
		c, err := consumer.Start(t.Context(), s.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			handled.Add(1)
			return pipeline.Outcome{Class: pipeline.Success}
		}))
		require.NoError(t, err)
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}}
		s.events <- kafka.Events{Records: records(0, 0, 100)}
		s.events <- kafka.Events{Records: records(0, 90, 100)}
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, int64(100), handled.Load(), "what comes again is dropped")
		s.set(func() { s.end = 10 })
		s.events <- kafka.Events{Records: records(0, 0, 10)}
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, int64(110), handled.Load())
		require.NoError(t, c.Stop(t.Context()))
		assert.Equal(t, []string{"commit [{{orders 0} 100}]", "commit [{{orders 0} 10}]"}, s.noted()[:2])
	})
}

func TestRebalanceEventsInAnyCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		options := s.options(succeed)
		options.CommitInterval = time.Hour
		c, err := consumer.Start(t.Context(), options)
		require.NoError(t, err)
		s.events <- kafka.Events{Revoked: []kafka.Partition{at(7)}} // never heard of
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}, Records: records(0, 0, 3)}
		synctest.Wait()
		s.events <- kafka.Events{Revoked: []kafka.Partition{at(0)}, Records: records(0, 3, 5)}
		synctest.Wait()
		s.events <- kafka.Events{Lost: []kafka.Partition{at(0)}, Assigned: []kafka.Partition{at(0)}, Records: records(0, 3, 6)}
		synctest.Wait()
		assert.Equal(t, []string{
			"release [{orders 7}]", "commit [{{orders 0} 3}]", "release [{orders 0}]",
		}, s.noted())
		assert.Equal(t, int64(6), c.Snapshot().Counters.Succeeded)
		require.NoError(t, c.Stop(t.Context()))
		assert.Equal(t, []string{"pause [{orders 0}]", "commit [{{orders 0} 6}]", "release [{orders 0}]", "close"}, s.noted()[3:])
	})
}

func TestLossDuringTheLastCommitLeavesTheNextAssignmentAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		options := s.options(succeed)
		options.CommitInterval = time.Hour
		c, err := consumer.Start(t.Context(), options)
		require.NoError(t, err)
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}, Records: records(0, 0, 3)}
		synctest.Wait()
		s.set(func() { s.block = make(chan struct{}) })
		s.events <- kafka.Events{Revoked: []kafka.Partition{at(0)}}
		synctest.Wait()
		s.events <- kafka.Events{Lost: []kafka.Partition{at(0)}}
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}, Records: records(0, 0, 2)}
		synctest.Wait()
		close(s.block)
		synctest.Wait()
		assert.Equal(t, 1, c.Partitions())
		assert.Equal(t, []string{"commit [{{orders 0} 3}]"}, s.noted())
		require.NoError(t, c.Stop(t.Context()))
		assert.Contains(t, s.noted(), "commit [{{orders 0} 2}]")
	})
}

func TestStopReturnsWithItsContextAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("a", "1")
		c := b.start(b.options(func(ctx context.Context, _ *pipeline.Invocation) pipeline.Outcome {
			<-ctx.Done()
			return pipeline.Outcome{Class: pipeline.Success}
		}))
		b.eventually(func() bool { return c.Snapshot().Running == 1 }, "running")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.ErrorIs(t, c.Stop(ctx), context.DeadlineExceeded)
		b.stop(c)
		assert.Equal(t, int64(1), b.committed(1))
	})
}

func TestBrokenCommitDoesNotHoldUpStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1)
		b.send("a", "1")
		b.broker.Fail(func(op, _ string) error {
			if op != "commit" {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
			return &kafka.Error{Code: kafka.Unavailable, Text: "injected"}
		})
		c := b.start(b.options(succeed))
		b.eventually(func() bool { return c.Snapshot().Counters.Succeeded == 1 }, "handled")
		begun := time.Now()
		b.stop(c)
		assert.LessOrEqual(t, time.Since(begun), 12*time.Second)
	})
}

func BenchmarkThroughput(b *testing.B) {
	bench := newBench(b, 4)
	for i := range b.N {
		bench.send(fmt.Sprint(i%1000), `{"id":"a","type":"b","amount":17}`)
	}
	var handled atomic.Int64
	all := make(chan struct{})
	total := int64(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	c := bench.start(bench.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		if handled.Add(1) == total {
			close(all)
		}
		return pipeline.Outcome{Class: pipeline.Success}
	}))
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	bench.stop(c)
}
