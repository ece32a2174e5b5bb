package retry_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/pipeline"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/pipeline/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// most draws the largest delay, so that transcripts show the limits.
func most(limit int64) int64 { return limit - 1 }

func options(limit int) retry.Options {
	return retry.Options{
		Backoff: retry.Backoff{Base: 20 * time.Millisecond, Max: time.Second,
			Random: func(limit int64) int64 { return limit }},
		Limit: limit, Clock: clock.Real{}, Counts: &pipeline.Counts{}, Log: new(Log).Logger(),
	}
}

func TestTransientFailuresAreRepeatedWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := Play(Step{End: Fail("1")}, Step{End: Fail("2")}, Step{End: Fail("3")}, Step{End: Done()})
		o := options(retry.Unlimited)
		invocation := Invocation(t.Context(), "k")
		invocation.Demand = pipeline.Demand{Failure: true, Retry: 7}
		var waits []time.Duration
		invocation.Progress = func(wait time.Duration) { waits = append(waits, wait) }
		outcome := retry.New(host, o).Handle(t.Context(), invocation)
		assert.Equal(t, pipeline.Success, outcome.Class)
		assert.Equal(t, []string{
			"0s start failure=true retry=7", "0s end transient",
			"40ms start failure=true retry=8", "40ms end transient",
			"120ms start failure=true retry=9", "120ms end transient",
			"280ms start failure=true retry=10", "280ms end success",
		}, host.Transcript())
		assert.EqualValues(t, 3, o.Counts.Retries.Load())
		assert.Equal(t, []time.Duration{40e6, 80e6, 160e6}, waits, "the owner hears that the event is alive")
		assert.Equal(t, pipeline.Demand{Failure: true, Retry: 7}, invocation.Demand, "the caller's demand is kept")
	})
}

func TestFirstDeliveryKeepsItsDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := Play(Step{End: Fail("1")}, Step{End: Never("2")})
		outcome := retry.New(host, options(retry.Unlimited)).Handle(t.Context(), Invocation(t.Context(), "k"))
		assert.Equal(t, Never("2"), outcome)
		assert.Equal(t, []string{
			"0s start failure=false retry=0", "0s end transient",
			"40ms start failure=true retry=1", "40ms end permanent",
		}, host.Transcript())
	})
}

func TestLimitGivesTheLastFailureToTheOuterLayer(t *testing.T) {
	for limit, attempts := range map[int]int{0: 1, 1: 2, 3: 4} {
		synctest.Test(t, func(t *testing.T) {
			host := Play(Step{End: Fail("boom")})
			outcome := retry.New(host, options(limit)).Handle(t.Context(), Invocation(t.Context(), "k"))
			assert.Equal(t, Fail("boom"), outcome)
			assert.Len(t, host.Transcript(), 2*attempts)
		})
	}
}

func TestLeavingEndsAWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving, leave := context.WithCancelCause(t.Context())
		host := Play(Step{End: Fail("boom")})
		time.AfterFunc(50*time.Millisecond, func() { leave(pipeline.Revoked) })
		begin := time.Now()
		outcome := retry.New(host, options(retry.Unlimited)).Handle(leaving, Invocation(leaving, "k"))
		assert.Equal(t, pipeline.Aborted, outcome.Class)
		assert.Contains(t, outcome.Text, "boom")
		assert.Contains(t, outcome.Text, pipeline.Revoked.Error())
		assert.Equal(t, 50*time.Millisecond, time.Since(begin))
		assert.Len(t, host.Transcript(), 4, "no attempt after leaving")
	})
}

func TestFailureAfterLeavingIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving, leave := context.WithCancelCause(t.Context())
		host := Play(Step{Take: time.Second, Deaf: true, End: Fail("boom")})
		time.AfterFunc(time.Millisecond, func() { leave(pipeline.ShuttingDown) })
		outcome := retry.New(host, options(0)).Handle(leaving, Invocation(leaving, "k"))
		assert.Equal(t, pipeline.Aborted, outcome.Class)
	})
}

func TestDelayFollowsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")
		longest := rapid.Int64Range(1, math.MaxInt64).Draw(t, "max")
		attempt := rapid.Uint32Min(1).Draw(t, "attempt")
		backoff := retry.Backoff{Base: time.Duration(base), Max: time.Duration(longest)}
		want := min(math.Ldexp(float64(base), int(min(attempt, 1000))), float64(longest))
		delay := backoff.Delay(attempt)
		assert.GreaterOrEqual(t, delay, time.Duration(0))
		assert.LessOrEqual(t, float64(delay), want)
		backoff.Random = most
		assert.InEpsilon(t, want, float64(backoff.Delay(attempt)+1), 1e-9, "the range is used to its end")
	})
}

func TestDelayOfNothingIsTheDefault(t *testing.T) {
	backoff := retry.Backoff{Random: most}
	assert.Equal(t, 40*time.Millisecond-1, backoff.Delay(1))
	assert.Equal(t, 5*time.Minute-1, backoff.Delay(math.MaxUint32))
}
