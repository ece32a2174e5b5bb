package durable_test

import (
	"context"
	"errors"
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
	"prosody/core/pipeline/attempt"
	"prosody/core/pipeline/durable"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/pipeline/retry"
	"prosody/core/store"
	"prosody/core/store/memory"
	"prosody/core/store/storetest"
)

// skipped is the end of an event that was done before.
var skipped = pipeline.Outcome{Class: pipeline.Success, Silent: true}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

// world is a store, and chains over it.
type world struct {
	t      *testing.T
	memory *memory.Store
	store  *storetest.Counter
	keeper *entity.Keeper
	lease  *entity.Lease
	counts pipeline.Counts
	log    Log
	next   int64
}

func start(t *testing.T) *world {
	w := &world{t: t}
	w.memory = memory.NewRegistry(memory.Settings{}).Store("x")
	w.store = storetest.Counting(w.memory)
	w.assign()
	return w
}

// assign is another process.
func (w *world) assign() {
	w.keeper = entity.New(entity.Options{Store: w.store, Group: "g", Version: "1"})
	w.lease = w.keeper.Assign(kafka.Partition{Topic: "orders", Index: 3})
}

type host func(ctx context.Context, txn pipeline.Txn) pipeline.Outcome

// handle takes an event through the chain.
func (w *world) handle(dedup bool, of *event.Event, leaving context.Context, work host) pipeline.Outcome {
	handler := durable.New(attempt.New(pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		return work(ctx, invocation.Txn)
	}), nil), durable.Options{
		Dedup: dedup, Backoff: retry.Backoff{Base: time.Millisecond, Max: time.Second},
		Clock: clock.Real{}, Counts: &w.counts, Log: w.log.Logger(),
	})
	if leaving == nil {
		leaving = w.t.Context()
	}
	return handler.Handle(leaving, &pipeline.Invocation{Event: of, Leaving: leaving, Lease: w.lease})
}

func (w *world) message(id string) *event.Event {
	made := Event("k")
	w.next++
	made.Offset, made.ID, made.HasID = w.next, id, id != ""
	return made
}

func (w *world) timers() (list []int64) {
	e, err := entity.New(entity.Options{Store: w.memory, Group: "g"}).Assign(kafka.Partition{Topic: "orders", Index: 3}).Open(w.t.Context(), "k")
	require.NoError(w.t, err)
	defer e.Close()
	timers, err := e.Timers(w.t.Context())
	require.NoError(w.t, err)
	for _, one := range timers {
		list = append(list, one.Second)
	}
	return list
}

func schedules(second int64, end pipeline.Outcome) host {
	return func(ctx context.Context, txn pipeline.Txn) pipeline.Outcome {
		if err := txn.Schedule(ctx, second, false); err != nil {
			return Fail(err.Error())
		}
		return end
	}
}

func ends(end pipeline.Outcome) host {
	return func(context.Context, pipeline.Txn) pipeline.Outcome { return end }
}

func never(t *testing.T) host {
	return func(context.Context, pipeline.Txn) pipeline.Outcome {
		t.Error("it is handled again")
		return Done()
	}
}

func timer(second int64) *event.Event {
	made := Event("k")
	made.Kind, made.Offset, made.Timestamp, made.Payload = event.Timer, -1, second*1000, nil
	return made
}

// What each end leaves behind, in the mode that remembers each event and in the others.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		dedup  bool
		end    pipeline.Outcome
		want   pipeline.Outcome
		timers []int64
		marked bool
	}{
		{"success", true, Done(), Done(), []int64{7}, true},
		{"success", false, Done(), Done(), []int64{7}, true},
		{"permanent failure", true, Never("bad"), Never("bad"), nil, true},
		{"permanent failure", false, Never("bad"), Never("bad"), nil, false},
		{"transient failure", true, Fail("boom"), Fail("boom"), nil, false},
		{"transient failure", false, Fail("boom"), Fail("boom"), nil, false},
		{"given up", true, pipeline.Outcome{Class: pipeline.Aborted}, pipeline.Outcome{Class: pipeline.Aborted}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			of := w.message("id")
			assert.Equal(t, c.want, w.handle(c.dedup, of, nil, schedules(7, c.end)))
			_, err := w.keeper.Flush(t.Context(), []kafka.Partition{w.lease.Partition()})
			require.NoError(t, err)
			assert.Equal(t, c.timers, w.timers())
			writes := w.store.Calls()["Apply"]
			w.assign()
			again := ends(Done())
			if c.marked {
				again = never(t)
			}
			w.handle(c.dedup, of, nil, again)
			assert.EqualValues(t, map[bool]int{true: 1}[c.marked], w.counts.Duplicates.Load())
			assert.LessOrEqual(t, writes, 1)
			twin := w.message("id")
			ran := false
			w.handle(true, twin, nil, func(context.Context, pipeline.Txn) pipeline.Outcome { ran = true; return Done() })
			assert.Equal(t, !c.dedup, ran, "ids count in one mode only")
		})
	}
}

func TestTimersEnd(t *testing.T) {
	for _, dedup := range []bool{true, false} {
		for _, end := range []pipeline.Outcome{Done(), Never("bad"), Fail("boom")} {
			w := start(t)
			w.handle(dedup, w.message(""), nil, schedules(7, Done()))
			assert.Equal(t, end, w.handle(dedup, timer(7), nil, schedules(8, end)))
			switch {
			case end.Class == pipeline.Success:
				assert.Equal(t, []int64{8}, w.timers())
			case end.Class == pipeline.Transient && dedup:
				assert.Equal(t, []int64{7}, w.timers(), "the one above tries again")
			default:
				assert.Empty(t, w.timers())
			}
		}
	}
	w := start(t)
	assert.Equal(t, skipped, w.handle(true, timer(7), nil, never(t)), "nobody has scheduled it")
}

func TestNothingIsWrittenForNothing(t *testing.T) {
	w := start(t)
	for range 10 {
		w.handle(false, w.message(""), nil, ends(Done()))
	}
	_, err := w.keeper.Flush(t.Context(), []kafka.Partition{w.lease.Partition()})
	require.NoError(t, err)
	assert.Zero(t, w.store.Writes())
	assert.Equal(t, 1, w.store.Reads())
}

// The store is down for a while: what is repeated is the reading and writing, not the
// handler, and the key's event counts as alive.
func TestTheStoreIsDownForAWhile(t *testing.T) {
	for _, op := range []string{"Root", "AddHint", "Apply"} {
		for _, lost := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				w := start(t)
				failures := 0
				w.memory.Fail(func(is string, _ store.Key) error {
					if is != op || failures == 20 {
						return nil
					}
					failures++
					if lost && op != "Root" {
						return memory.Lost(errDown)
					}
					return errDown
				})
				runs := 0
				of := w.message("id")
				assert.Equal(t, Done(), w.handle(true, of, nil, func(ctx context.Context, txn pipeline.Txn) pipeline.Outcome {
					runs++
					return schedules(7, Done())(ctx, txn)
				}))
				assert.Equal(t, 1, runs)
				assert.Equal(t, 20, failures)
				assert.EqualValues(t, 20, w.counts.Unstored.Load())
				assert.Equal(t, []int64{7}, w.timers())
				assert.Contains(t, w.log.String(), "down")
			})
		}
	}
}

func TestThePartitionLeavesWhileTheStoreIsDown(t *testing.T) {
	for _, op := range []string{"Root", "Apply"} {
		for _, lost := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				w := start(t)
				leaving, leave := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { leave(pipeline.Revoked) })
				w.memory.Fail(func(is string, _ store.Key) error {
					switch {
					case is != op:
						return nil
					case lost && op == "Apply":
						return memory.Lost(errDown)
					}
					return errDown
				})
				of := w.message("id")
				begin := time.Now()
				outcome := w.handle(true, of, leaving, schedules(7, Done()))
				assert.Equal(t, time.Minute, time.Since(begin))
				assert.Equal(t, pipeline.Aborted, outcome.Class)
				assert.Contains(t, outcome.Text, "down")
				w.memory.Fail(nil)
				runs := 0
				again := w.handle(true, of, nil, func(context.Context, pipeline.Txn) pipeline.Outcome { runs++; return Done() })
				assert.Equal(t, pipeline.Outcome{Class: pipeline.Success, Silent: runs == 0}, again)
				assert.Equal(t, lost && op == "Apply", runs == 0, "what was written all the same is not done again")
			})
		}
	}
}

func TestALateSuccessCounts(t *testing.T) {
	w := start(t)
	leaving, leave := context.WithCancelCause(t.Context())
	of := w.message("")
	assert.Equal(t, Done(), w.handle(true, of, leaving, func(ctx context.Context, txn pipeline.Txn) pipeline.Outcome {
		leave(pipeline.ShuttingDown)
		return schedules(7, Done())(ctx, txn)
	}))
	assert.Equal(t, []int64{7}, w.timers())
	other := w.message("")
	outcome := w.handle(true, other, leaving, func(ctx context.Context, txn pipeline.Txn) pipeline.Outcome {
		w.lease.Fence()
		return schedules(9, Done())(ctx, txn)
	})
	assert.Equal(t, pipeline.Aborted, outcome.Class, "after its time it does not")
	assert.Equal(t, []int64{7}, w.timers())
	assert.Equal(t, pipeline.Aborted, w.handle(true, other, nil, never(t)).Class)
}

func TestWhatCannotBeStoredIsAPermanentFailure(t *testing.T) {
	w := start(t)
	w.memory.Fail(func(op string, _ store.Key) error {
		if op == "Apply" && w.store.Calls()["Apply"] == 1 {
			return fault.New(fault.TooLarge, "a batch is too large")
		}
		return nil
	})
	of := w.message("")
	outcome := w.handle(true, of, nil, schedules(7, Done()))
	assert.Equal(t, Never("its changes cannot be stored: a batch is too large"), outcome)
	assert.Empty(t, w.timers())
	assert.Equal(t, skipped, w.handle(true, of, nil, never(t)), "it is done with")
}

func TestATransactionEndsWithItsAttempt(t *testing.T) {
	w := start(t)
	var kept []pipeline.Txn
	for _, end := range []pipeline.Outcome{Fail("boom"), Done()} {
		w.handle(true, w.message(""), nil, func(_ context.Context, txn pipeline.Txn) pipeline.Outcome {
			kept = append(kept, txn)
			return end
		})
	}
	for _, txn := range kept {
		assert.Equal(t, fault.Settled, fault.Of(txn.Schedule(t.Context(), 1, true)))
		_, err := txn.Scheduled(t.Context())
		assert.Equal(t, fault.Settled, fault.Of(err))
	}
	assert.Empty(t, w.timers())
}

func TestAPanicLeavesTheKeyUsable(t *testing.T) {
	w := start(t)
	of := w.message("")
	assert.Panics(t, func() {
		w.handle(true, of, nil, func(ctx context.Context, txn pipeline.Txn) pipeline.Outcome {
			_ = txn.Schedule(ctx, 7, false)
			panic("boom")
		})
	})
	assert.Equal(t, Done(), w.handle(true, of, nil, schedules(8, Done())))
	assert.Equal(t, []int64{8}, w.timers())
}

func TestWithoutALease(t *testing.T) {
	handler := durable.New(attempt.New(Play(Step{End: Done()}), nil), durable.Options{Dedup: true})
	assert.Equal(t, Done(), handler.Handle(t.Context(), Invocation(t.Context(), "k")))
}

func TestRecordsAreGivenBack(t *testing.T) {
	w := start(t)
	w.keeper = entity.New(entity.Options{Store: w.store, Group: "g", Cache: 3})
	w.lease = w.keeper.Assign(kafka.Partition{Topic: "orders", Index: 3})
	for n := range 20 {
		of := w.message("")
		of.Key = string(rune('a' + n))
		w.handle(true, of, nil, schedules(7, Done()))
		w.handle(true, of, nil, never(t))
		w.handle(true, w.message(""), nil, ends(Fail("boom")))
	}
	keys, _, _ := w.keeper.Stats()
	assert.Equal(t, 3, keys)
}
