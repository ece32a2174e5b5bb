package mode_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/mode"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/pipeline/schedule"
	"prosody/core/producer"
	"prosody/core/store"
	"prosody/core/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options make delays zero to 4 ms, so that transcripts count attempts, not time.
func options(of string, host pipeline.Handler, sent func()) mode.Options {
	return mode.Options{
		Mode: of, Host: host, Timeout: 4 * time.Second,
		MaxRetries: 3, RetryBase: time.Millisecond, MaxRetryDelay: 4 * time.Millisecond,
		Schedule:     schedule.Options{Concurrency: 2, Cache: 10},
		FailureTopic: "failures", Group: "g", Source: "s",
		Send: func(_ producer.Outgoing, done func(producer.Sent)) error {
			sent()
			done(producer.Sent{})
			return nil
		},
		Clock: clock.Real{}, Log: new(Log).Logger(),
	}
}

func TestModes(t *testing.T) {
	fails := func(n int, end pipeline.Outcome) (steps []Step) {
		for range n {
			steps = append(steps, Step{End: Fail("boom")})
		}
		return append(steps, Step{End: end})
	}
	for _, c := range []struct {
		name     string
		mode     string
		kind     event.Kind
		script   []Step
		want     pipeline.Class
		attempts int64
		letters  int
		dropped  int64
	}{
		{"success", mode.Pipeline, event.Message, fails(0, Done()), pipeline.Success, 1, 0, 0},
		{"success", mode.LowLatency, event.Message, fails(0, Done()), pipeline.Success, 1, 0, 0},
		{"success", mode.BestEffort, event.Message, fails(0, Done()), pipeline.Success, 1, 0, 0},
		{"transient", mode.Pipeline, event.Message, fails(50, Done()), pipeline.Success, 51, 0, 0},
		{"transient", mode.LowLatency, event.Message, fails(3, Done()), pipeline.Success, 4, 0, 0},
		{"given up", mode.LowLatency, event.Message, fails(4, Done()), pipeline.Success, 4, 1, 0},
		{"given up", mode.BestEffort, event.Message, fails(1, Done()), pipeline.Permanent, 1, 0, 1},
		{"permanent", mode.Pipeline, event.Excise, fails(1, Never("bad")), pipeline.Permanent, 2, 0, 1},
		{"permanent", mode.LowLatency, event.Excise, fails(1, Never("bad")), pipeline.Success, 2, 1, 0},
		{"permanent", mode.BestEffort, event.Excise, fails(0, Never("bad")), pipeline.Permanent, 1, 0, 1},
		{"timer", mode.LowLatency, event.Timer, fails(50, Done()), pipeline.Success, 51, 0, 0},
		{"permanent timer", mode.LowLatency, event.Timer, fails(0, Never("bad")), pipeline.Permanent, 1, 0, 1},
	} {
		t.Run(c.mode+" "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				letters := 0
				chain, err := mode.New(options(c.mode, Play(c.script...), func() { letters++ }))
				require.NoError(t, err)
				defer chain.Close()
				invocation := Invocation(t.Context(), "k")
				invocation.Event.Kind = c.kind
				assert.Equal(t, c.want, chain.Handle(t.Context(), invocation).Class)
				counts := chain.Counts.Snapshot()
				assert.Equal(t, c.attempts, counts.Attempts)
				assert.Equal(t, c.attempts-1, counts.Retries)
				assert.Equal(t, c.letters, letters)
				assert.Equal(t, c.dropped, counts.Discarded)
				assert.Zero(t, chain.Snapshot().Used)
			})
		})
	}
}

func TestAWaitBetweenAttemptsHoldsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(mode.Pipeline, nil, nil)
		o.RetryBase, o.MaxRetryDelay, o.Schedule.Concurrency = time.Hour, 1000*time.Hour, 1
		o.Host = pipeline.Func(func(_ context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
			if invocation.Event.Key == "poison" && !invocation.Demand.Failure {
				return Fail("boom")
			}
			return Done()
		})
		chain, err := mode.New(o)
		require.NoError(t, err)
		defer chain.Close()
		go chain.Handle(t.Context(), Invocation(t.Context(), "poison"))
		synctest.Wait()
		begin := time.Now()
		assert.Equal(t, pipeline.Success, chain.Handle(t.Context(), Invocation(t.Context(), "other")).Class)
		assert.Zero(t, time.Since(begin))
		time.Sleep(10000 * time.Hour)
	})
}

func TestTimeForAPermitIsNotTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(mode.BestEffort, Play(Step{Take: 3 * time.Second, End: Done()}), nil)
		o.Schedule.Concurrency = 1
		chain, err := mode.New(o)
		require.NoError(t, err)
		defer chain.Close()
		for range 5 {
			go chain.Handle(t.Context(), Invocation(t.Context(), "k"))
		}
		time.Sleep(time.Minute)
		counts := chain.Counts.Snapshot()
		assert.EqualValues(t, 5, counts.Successes)
		assert.Zero(t, counts.Timeouts)
	})
}

// The ends of timers give way to those that wait for a permit, for a moment.
func TestTimersStartBeforeTheFirstAreWritten(t *testing.T) {
	for _, c := range []struct {
		take    time.Duration
		written []string
	}{
		{10 * time.Millisecond, []string{"20ms written", "20ms written", "30ms written"}}, // the last starts after 20 ms
		{300 * time.Millisecond, []string{"400ms written", "600ms written", "900ms written"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			stored := memory.NewRegistry(memory.Settings{}).Store("x")
			lease := entity.New(entity.Options{Store: stored, Group: "g"}).Assign(kafka.Partition{Topic: "orders", Index: 3})
			host := Play(Step{Take: c.take, End: Done()})
			o := options(mode.Pipeline, host, nil)
			o.Schedule.Concurrency = 1
			chain, err := mode.New(o)
			require.NoError(t, err)
			defer chain.Close()
			invocation := func(key string) *pipeline.Invocation {
				made := Invocation(t.Context(), key)
				made.Event.Kind, made.Event.Offset, made.Lease = event.Timer, -1, lease
				return made
			}
			for _, key := range []string{"a", "b", "c"} {
				due := invocation(key)
				record, err := lease.Open(t.Context(), key)
				require.NoError(t, err)
				txn := record.Begin(nil)
				require.NoError(t, txn.Schedule(t.Context(), due.Event.Timestamp/1000, true))
				txn.Discard()
				record.Close()
			}
			stored.Fail(func(op string, key store.Key) error {
				if op == "Apply" {
					host.Note("written")
				}
				return nil
			})
			for _, key := range []string{"a", "b", "c"} {
				go func() { assert.Equal(t, pipeline.Success, chain.Handle(t.Context(), invocation(key)).Class) }()
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			written := slices.DeleteFunc(host.Transcript(), func(line string) bool { return !strings.HasSuffix(line, "written") })
			assert.Equal(t, c.written, written)
		})
	}
}

// Whatever the handler does and whenever the owner leaves: each event ends soon after,
// none fails silently, and none is transient.
func TestEachEventEnds(t *testing.T) {
	ends := []pipeline.Outcome{Done(), Fail("boom"), Never("bad"), {}}
	rapid.Check(t, func(r *rapid.T) {
		of := rapid.SampledFrom([]string{mode.Pipeline, mode.LowLatency, mode.BestEffort}).Draw(r, "mode")
		kind := rapid.SampledFrom([]event.Kind{event.Message, event.Excise, event.Timer}).Draw(r, "kind")
		script := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Step {
			return Step{
				Take: time.Duration(rapid.IntRange(0, 6000).Draw(r, "ms")) * time.Millisecond,
				Deaf: rapid.Bool().Draw(r, "deaf"),
				End:  rapid.SampledFrom(ends).Draw(r, "end"),
			}
		}), 1, 6).Draw(r, "script")
		leave := time.Duration(rapid.IntRange(0, 20000).Draw(r, "leave")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			leaving, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(leave, func() { stop(pipeline.Revoked) })
			letters := 0
			chain, err := mode.New(options(of, Play(script...), func() { letters++ }))
			require.NoError(t, err)
			defer chain.Close()
			invocation, begin := Invocation(leaving, "k"), time.Now()
			invocation.Event.Kind = kind
			outcome := chain.Handle(leaving, invocation)
			took, counts := time.Since(begin), chain.Counts.Snapshot()
			assert.LessOrEqual(t, took, leave+6*time.Second, "only a deaf handler holds it")
			switch outcome.Class {
			case pipeline.Success:
				assert.EqualValues(t, 1, counts.Successes+int64(letters))
			case pipeline.Permanent:
				assert.EqualValues(t, 1, counts.Discarded)
			case pipeline.Aborted:
				assert.GreaterOrEqual(t, took, leave)
				assert.EqualValues(t, 1, counts.Aborted)
				assert.Zero(t, letters)
			default:
				t.Errorf("ended as %s", outcome.Class)
			}
			assert.Empty(t, chain.Late())
			time.Sleep(time.Minute)
		})
	})
}

func TestOptionsThatDoNotWork(t *testing.T) {
	o := options(mode.LowLatency, nil, nil)
	o.FailureTopic = ""
	_, err := mode.New(o)
	assert.Equal(t, fault.Config, fault.Of(err))
	assert.ErrorContains(t, err, "failure_topic")
	o.Mode = "fast"
	_, err = mode.New(o)
	assert.Equal(t, fault.Config, fault.Of(err))
	assert.ErrorContains(t, err, "fast")
}

func BenchmarkChain(b *testing.B) {
	for _, of := range []string{mode.Pipeline, mode.BestEffort} {
		b.Run(of, func(b *testing.B) {
			o := options(of, pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return Done() }), nil)
			o.Schedule = schedule.Options{Concurrency: 32, Cache: 8192}
			chain, _ := mode.New(o)
			defer chain.Close()
			leaving, leave := context.WithCancel(context.Background())
			defer leave()
			invocation := Invocation(leaving, "customer")
			b.ReportAllocs()
			for b.Loop() {
				chain.Handle(leaving, invocation)
			}
		})
	}
}
