package timeout_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/pipeline"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/pipeline/timeout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(after time.Duration) timeout.Options {
	return timeout.Options{After: after, Clock: clock.Real{}, Counts: &pipeline.Counts{}, Log: new(Log).Logger()}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name       string
		step       Step
		want       pipeline.Outcome
		transcript []string
		timeouts   int64
	}{
		{"in time", Step{Take: time.Second, End: Done()}, Done(),
			[]string{"0s start failure=false retry=0", "1s end success"}, 0},
		{"a failure in time keeps its text", Step{Take: time.Second, End: Fail("boom")}, Fail("boom"),
			[]string{"0s start failure=false retry=0", "1s end transient"}, 0},
		{"success after the deadline", Step{Take: time.Minute, Deaf: true, End: Done()}, Done(),
			[]string{"0s start failure=false retry=0",
				"4s asked to stop: " + pipeline.TimedOut.Error(), "1m0s end success"}, 1},
		{"failure after the deadline", Step{Take: time.Minute, End: Fail("stopped")}, Fail("timed out after 4s: stopped"),
			[]string{"0s start failure=false retry=0",
				"4s asked to stop: " + pipeline.TimedOut.Error(), "4s end transient"}, 1},
		{"permanent failure after the deadline", Step{Take: time.Minute, End: Never("bad")}, Never("timed out after 4s: bad"),
			[]string{"0s start failure=false retry=0",
				"4s asked to stop: " + pipeline.TimedOut.Error(), "4s end permanent"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, o := Play(c.step), options(4*time.Second)
				handler := timeout.New(host, o)
				defer handler.Close()
				assert.Equal(t, c.want, handler.Handle(t.Context(), Invocation(t.Context(), "k")))
				assert.Equal(t, c.transcript, host.Transcript())
				assert.Equal(t, c.timeouts, o.Counts.Timeouts.Load())
				assert.Empty(t, handler.Late())
			})
		})
	}
}

func TestADeafHandlerIsSeenUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := Play(Step{Take: 10 * time.Second, Deaf: true, End: Fail("x")})
		handler := timeout.New(host, options(time.Second))
		defer handler.Close()
		begin := time.Now()
		invocation := Invocation(t.Context(), "deaf")
		go handler.Handle(t.Context(), invocation)
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		assert.Empty(t, handler.Late())
		time.Sleep(time.Second)
		assert.Equal(t, []timeout.Late{{Event: invocation.Event, Since: begin.Add(time.Second)}}, handler.Late())
		time.Sleep(9 * time.Second)
		synctest.Wait()
		assert.Empty(t, handler.Late())
	})
}

func TestLeavingIsToldFromATimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving, leave := context.WithCancelCause(t.Context())
		host := Play(Step{Take: 10 * time.Second, End: Fail("x")})
		handler := timeout.New(host, options(4*time.Second))
		defer handler.Close()
		time.AfterFunc(time.Second, func() { leave(pipeline.Lost) })
		assert.Equal(t, Fail("x"), handler.Handle(leaving, Invocation(leaving, "k")))
		assert.Contains(t, host.Transcript(), "1s asked to stop: "+pipeline.Lost.Error())
	})
}

func TestTheContextEndsWithTheAttempt(t *testing.T) {
	var attempt context.Context
	handler := timeout.New(pipeline.Func(func(ctx context.Context, _ *pipeline.Invocation) pipeline.Outcome {
		attempt = ctx
		return Done()
	}), options(time.Minute))
	defer handler.Close()
	handler.Handle(t.Context(), Invocation(t.Context(), "k"))
	assert.Error(t, attempt.Err(), "otherwise its owner's context would keep it")
}

func TestNoTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := Play(Step{Take: 1000 * time.Hour, End: Done()})
		handler := timeout.New(host, options(0))
		defer handler.Close()
		assert.Equal(t, Done(), handler.Handle(t.Context(), Invocation(t.Context(), "k")))
		assert.Len(t, host.Transcript(), 2)
	})
}

func BenchmarkHandle(b *testing.B) {
	handler := timeout.New(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return Done() }),
		options(time.Minute))
	defer handler.Close()
	leaving, leave := context.WithCancel(context.Background())
	defer leave()
	invocation := Invocation(leaving, "k")
	b.ReportAllocs()
	for b.Loop() {
		handler.Handle(leaving, invocation)
	}
}
