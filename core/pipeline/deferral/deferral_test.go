package deferral_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/mode"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/producer"
	"prosody/core/store"
	"prosody/core/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a chain over real records of keys, and what plays the timers: it hears when a
// retry is due.
type bench struct {
	*testing.T
	store  *memory.Store
	keeper *entity.Keeper
	lease  *entity.Lease
	chain  *mode.Chain
	due    int64
	fires  []int64
	script func(*pipeline.Invocation) pipeline.Outcome
	lines  []string
	read   func(at kafka.Partition, offset int64) (*kafka.Record, error)
	sent   []producer.Outgoing
	log    *Log
	next   int64
}

func (b *bench) Changed(_ *entity.Lease, _ string, change entity.Change) {
	if change.Moved {
		b.due = change.Due
	}
	b.fires = append(b.fires, change.Added...)
}

// Found has nothing that Changed has not told.
func (b *bench) Found(*entity.Lease, string, []int64, int64) {}

func start(t *testing.T, change func(*mode.Options)) *bench {
	b := &bench{T: t, log: new(Log), store: memory.NewRegistry(memory.Settings{Clock: clock.Real{}}).Store("test")}
	b.open(change)
	return b
}

// open begins an assignment with a chain of its own.
func (b *bench) open(change func(*mode.Options)) {
	b.keeper = entity.New(entity.Options{Store: b.store, Group: "group", Clock: clock.Real{}, Observer: b})
	b.lease = b.keeper.Assign(kafka.Partition{Topic: "orders", Index: 3})
	o := mode.Options{
		Mode: mode.Pipeline, RetryBase: 10 * time.Millisecond, MaxRetryDelay: time.Second, Defer: true, Base: time.Second, Most: 10 * time.Second,
		Host: pipeline.Func(func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
			outcome := b.script(i)
			what := string(i.Event.Payload)
			switch i.Event.Kind {
			case event.Timer:
				what = fmt.Sprint("timer ", i.Event.Timestamp/1000)
			case event.Excise:
				what = "excise"
			}
			b.lines = append(b.lines, fmt.Sprintf("%s %d %s", what, i.Demand.Retry, outcome.Class))
			assert.Equal(b, i.Demand.Retry > 0, i.Demand.Failure)
			return outcome
		}),
		Read: func(_ context.Context, at kafka.Partition, offset int64) (*kafka.Record, error) {
			return b.read(at, offset)
		},
		Send: func(out producer.Outgoing, done func(producer.Sent)) error {
			b.sent = append(b.sent, out)
			done(producer.Sent{})
			return nil
		},
		Clock: clock.Real{}, Log: b.log.Logger(),
	}
	if change != nil {
		change(&o)
	}
	chain, err := mode.New(o)
	require.NoError(b, err)
	b.chain = chain
	b.Cleanup(chain.Close)
}

func (b *bench) handle(e *event.Event) pipeline.Class {
	return b.chain.Handle(b.Context(), &pipeline.Invocation{Event: e, Leaving: b.Context(), Lease: b.lease}).Class
}

func (b *bench) event(kind event.Kind) *event.Event {
	return &event.Event{Kind: kind, Topic: "orders", Partition: 3, Offset: -1, Key: "k"}
}

func (b *bench) message(payload string) *event.Event {
	e := b.event(event.Message)
	e.Offset, e.Payload, e.Timestamp = b.next, []byte(payload), 1_700_000_000_000
	if payload == "" {
		e.Kind, e.Payload = event.Excise, nil
	}
	b.next++
	return e
}

// retry waits until a retry is due and plays it.
func (b *bench) retry() pipeline.Class {
	require.NotZero(b, b.due, "no retry is due")
	time.Sleep(time.Until(time.UnixMilli(b.due)))
	b.due = 0 // what the timers have handed out they forget
	return b.handle(b.event(event.Retry))
}

func (b *bench) queue() entity.Queue {
	record, err := b.keeper.Open(b.Context(), b.lease, "k")
	require.NoError(b, err)
	defer record.Close()
	queue, err := record.Queue(b.Context())
	require.NoError(b, err)
	return queue
}

// failing fails the first times of what has a payload; then it succeeds.
func failing(payload string, times int, end pipeline.Outcome) func(*pipeline.Invocation) pipeline.Outcome {
	return func(i *pipeline.Invocation) pipeline.Outcome {
		if string(i.Event.Payload) == payload && times > 0 {
			times--
			return end
		}
		return Done()
	}
}

func TestFailedEventStepsAsideAndComesBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.script = failing("1", 3, Fail("boom"))
		began := time.Now()
		assert.Equal(t, pipeline.Success, b.handle(b.message("1")))
		first := time.UnixMilli(b.due).Sub(began)
		assert.GreaterOrEqual(t, first, 500*time.Millisecond)
		assert.LessOrEqual(t, first, time.Second)
		due := b.due
		assert.Equal(t, pipeline.Success, b.handle(b.message("2")))
		assert.Equal(t, pipeline.Success, b.handle(b.message("")))
		assert.Equal(t, due, b.due, "what comes behind does not delay the head")
		assert.Equal(t, pipeline.Success, b.handle(b.event(event.Retry)), "too early: it waits on")
		assert.Equal(t, due+1, b.due, "and the timers hear of it again")
		assert.Equal(t, []string{"1 0 transient"}, b.lines)
		var waits []time.Duration
		for b.due != 0 {
			assert.Equal(t, pipeline.Success, b.retry())
			if b.due != 0 {
				waits = append(waits, time.Until(time.UnixMilli(b.due)))
			}
		}
		assert.Equal(t, []string{"1 0 transient", "1 1 transient", "1 2 transient", "1 3 success", "2 0 success", "excise 0 success"}, b.lines)
		require.Len(t, waits, 4)
		for i, most := range []time.Duration{2 * time.Second, 4 * time.Second} {
			assert.GreaterOrEqual(t, waits[i], most/2-time.Millisecond)
			assert.LessOrEqual(t, waits[i], most)
		}
		assert.LessOrEqual(t, waits[2], time.Millisecond, "the next one follows at once")
		assert.Equal(t, pipeline.Success, b.handle(b.event(event.Retry)), "nothing waits: skipped")
		assert.Equal(t, pipeline.Success, b.handle(b.message("3")))
		assert.Equal(t, "3 0 success", b.lines[len(b.lines)-1])
		assert.Zero(t, b.chain.Counts.Snapshot().Discarded)
	})
}

func TestWaitsGrowToTheMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.script = failing("1", 1000, Fail("boom"))
		b.handle(b.message("1"))
		for range 40 {
			b.retry()
			wait := time.Until(time.UnixMilli(b.due))
			assert.LessOrEqual(t, wait, 10*time.Second)
			if b.queue().Count > 5 {
				assert.GreaterOrEqual(t, wait, 5*time.Second-time.Millisecond)
			}
		}
		assert.EqualValues(t, 41, b.queue().Count)
	})
}

func TestTheNextOwnerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.script = failing("1", 2, Fail("boom"))
		b.handle(b.message("1"))
		b.handle(b.message("2"))
		b.retry()
		b.lease.End()
		due := b.due
		b.open(nil)
		b.due = due
		b.next = 0
		assert.Equal(t, pipeline.Success, b.handle(b.message("1")), "delivered again: it is in the queue already")
		assert.Equal(t, pipeline.Success, b.handle(b.message("2")))
		for b.due != 0 {
			b.retry()
		}
		assert.Equal(t, []string{"1 0 transient", "1 1 transient", "1 2 success", "2 0 success"}, b.lines)
	})
}

func TestPermanentFailureReleasesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.script = func(i *pipeline.Invocation) pipeline.Outcome {
			switch {
			case i.Demand.Failure:
				return Never("no")
			case string(i.Event.Payload) == "1":
				return Fail("boom")
			}
			return Done()
		}
		b.handle(b.message("1"))
		b.handle(b.message("2"))
		assert.Equal(t, pipeline.Permanent, b.retry())
		assert.Equal(t, pipeline.Success, b.retry())
		assert.Zero(t, b.due)
		assert.Equal(t, []string{"1 0 transient", "1 1 permanent", "2 0 success"}, b.lines)
		assert.Contains(t, b.log.String(), "discarding message")
	})
}

// A timer that fails leaves the key's timers; what the handler schedules stays its own.
func TestTimerIsDeferredWithTheMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		second := time.Now().Unix() + 5
		fails := 1
		b.script = func(i *pipeline.Invocation) pipeline.Outcome {
			listed, err := i.Txn.Scheduled(t.Context())
			require.NoError(t, err)
			if i.Event.Kind == event.Timer {
				assert.Empty(t, listed)
				if fails > 0 {
					fails--
					return Fail("boom")
				}
				require.NoError(t, i.Txn.Schedule(t.Context(), second, false))
				return Done()
			}
			if string(i.Event.Payload) == "1" {
				require.NoError(t, i.Txn.Schedule(t.Context(), second, false))
			}
			return Done()
		}
		b.handle(b.message("1"))
		require.Equal(t, []int64{second}, b.fires)
		timer := b.event(event.Timer)
		timer.Timestamp = second * 1000
		b.handle(timer)
		b.handle(b.message("2"))
		assert.Equal(t, pipeline.Success, b.handle(timer), "it has been taken over: skipped")
		for b.due != 0 {
			b.retry()
		}
		name := fmt.Sprint("timer ", second)
		assert.Equal(t, []string{"1 0 success", name + " 0 transient", name + " 1 success", "2 0 success"}, b.lines)
		assert.Equal(t, []int64{second, second}, b.fires, "the same second was scheduled again and stays")
		record, err := b.keeper.Open(t.Context(), b.lease, "k")
		require.NoError(t, err)
		defer record.Close()
		timers, err := record.Timers(t.Context())
		require.NoError(t, err)
		assert.Len(t, timers, 1)
	})
}

func TestGateAndSwitchKeepFailuresInPlace(t *testing.T) {
	for _, off := range []func(*mode.Options){
		func(o *mode.Options) { o.Defer = false },
		func(o *mode.Options) { o.Gate.Least, o.Gate.Threshold = 1, 0.5 },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, off)
			b.script = failing("1", 3, Fail("boom"))
			assert.Equal(t, pipeline.Success, b.handle(b.message("1")))
			assert.Equal(t, []string{"1 0 transient", "1 1 transient", "1 2 transient", "1 3 success"}, b.lines)
			assert.Zero(t, b.due)
		})
	}
}

// While a timer waits in the queue, the same second may be scheduled anew: that is
// another timer, which the end of the first leaves alone.
func TestSameSecondWhileATimerIsDeferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		second := time.Now().Unix() + 5
		var listed []int64
		fail := true
		b.script = func(i *pipeline.Invocation) pipeline.Outcome {
			if i.Event.Kind == event.Timer {
				if fail {
					fail = false
					return Fail("boom")
				}
				listed, _ = i.Txn.Scheduled(t.Context())
			}
			return Done()
		}
		add := func() {
			record, err := b.keeper.Open(t.Context(), b.lease, "k")
			require.NoError(t, err)
			defer record.Close()
			txn := record.Begin(nil)
			require.NoError(t, txn.Schedule(t.Context(), second, true))
			txn.Discard()
		}
		add()
		timer := b.event(event.Timer)
		timer.Timestamp = second * 1000
		b.handle(timer)
		add()
		assert.Equal(t, pipeline.Success, b.retry())
		assert.Equal(t, []int64{second}, listed)
		record, err := b.keeper.Open(t.Context(), b.lease, "k")
		require.NoError(t, err)
		defer record.Close()
		timers, err := record.Timers(t.Context())
		require.NoError(t, err)
		assert.Len(t, timers, 1)
	})
}

// What was deferred is worked off in order in every mode, and with deferral off.
func TestLeftoversAreDrained(t *testing.T) {
	for name, change := range map[string]func(*mode.Options){
		"off":         func(o *mode.Options) { o.Defer = false },
		"low-latency": func(o *mode.Options) { o.Mode, o.FailureTopic, o.MaxRetries = mode.LowLatency, "failures", 1 },
		"best-effort": func(o *mode.Options) { o.Mode = mode.BestEffort },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, nil)
				b.script = func(i *pipeline.Invocation) pipeline.Outcome {
					if string(i.Event.Payload) == "1" {
						return Fail("boom")
					}
					return Done()
				}
				b.handle(b.message("1"))
				b.handle(b.message("2"))
				due := b.due
				b.lease.End()
				b.open(change)
				b.due, b.lines = due, nil
				b.handle(b.message("3"))
				assert.Empty(t, b.lines, "it waits behind")
				if name == "off" {
					b.retry()
					assert.Equal(t, []string{"1 1 transient"}, b.lines)
					b.script = func(*pipeline.Invocation) pipeline.Outcome { return Done() }
				}
				for b.due != 0 {
					b.retry()
				}
				assert.Equal(t, []string{"2 0 success", "3 0 success"}, b.lines[len(b.lines)-2:])
				if name == "low-latency" {
					assert.Len(t, b.sent, 1)
				}
				b.handle(b.message("4"))
				assert.Equal(t, "4 0 success", b.lines[len(b.lines)-1])
			})
		})
	}
}

func TestNothingIsDeferredWhileThePartitionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		leaving, leave := context.WithCancelCause(t.Context())
		b.script = func(*pipeline.Invocation) pipeline.Outcome {
			leave(pipeline.Revoked)
			return Fail("boom")
		}
		outcome := b.chain.Handle(leaving, &pipeline.Invocation{Event: b.message("1"), Leaving: leaving, Lease: b.lease})
		assert.Equal(t, pipeline.Aborted, outcome.Class)
		assert.Equal(t, b.queue().Head, b.queue().Tail)
	})
}

func TestAnAbortedHeadStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.script = failing("1", 1, Fail("boom"))
		b.handle(b.message("1"))
		time.Sleep(time.Second)
		leaving, leave := context.WithCancelCause(t.Context())
		b.script = func(*pipeline.Invocation) pipeline.Outcome {
			leave(pipeline.Revoked)
			return Fail("boom")
		}
		outcome := b.chain.Handle(leaving, &pipeline.Invocation{Event: b.event(event.Retry), Leaving: leaving, Lease: b.lease})
		assert.Equal(t, pipeline.Aborted, outcome.Class)
		b.script = failing("", 0, Done())
		assert.Equal(t, pipeline.Success, b.retry())
		assert.Equal(t, "1 1 success", b.lines[len(b.lines)-1])
	})
}

func TestStoreThatFailsRepeatsTheWriteOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.script = failing("1", 1, Fail("boom"))
		fails := 5
		b.store.Fail(func(op string, _ store.Key) error {
			if op == "Apply" && fails > 0 {
				fails--
				return fault.Wrap(fault.Store, errors.New("down"), "store")
			}
			return nil
		})
		assert.Equal(t, pipeline.Success, b.handle(b.message("1")))
		fails = 5
		assert.Equal(t, pipeline.Success, b.retry())
		assert.Equal(t, []string{"1 0 transient", "1 1 success"}, b.lines)
		assert.Equal(t, b.queue().Head, b.queue().Tail)
	})
}
