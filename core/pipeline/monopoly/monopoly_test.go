package monopoly_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/pipeline"
	"prosody/core/pipeline/monopoly"
	. "prosody/core/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(cache int) *monopoly.Monopoly {
	return monopoly.New(monopoly.Options{
		Threshold: 0.5, Window: 64 * time.Second, Cache: cache, Clock: clock.Real{}, Log: new(Log).Logger(),
	})
}

func run(t *testing.T, m *monopoly.Monopoly, host pipeline.Handler, topic, key string) pipeline.Outcome {
	invocation := Invocation(t.Context(), key)
	invocation.Event.Topic = topic
	return m.Wrap(host).Handle(t.Context(), invocation)
}

func TestBusyKeyStepsBackAndComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := build(0)
		busy := Play(Step{Take: 16 * time.Second, End: Done()})
		for range 2 {
			assert.Equal(t, pipeline.Success, run(t, m, busy, "a", "k").Class)
		}
		assert.Equal(t, pipeline.Success, run(t, m, Play(Step{Take: time.Millisecond, End: Done()}), "a", "k").Class, "half is not more than half")
		outcome := run(t, m, busy, "a", "k")
		assert.Equal(t, pipeline.Transient, outcome.Class)
		assert.Contains(t, outcome.Text, "monopolization")
		quick := Play(Step{End: Done()})
		assert.Equal(t, pipeline.Success, run(t, m, quick, "b", "k").Class, "the same key of another topic")
		assert.Equal(t, pipeline.Success, run(t, m, quick, "a", "other").Class)
		time.Sleep(30 * time.Second)
		assert.Equal(t, pipeline.Transient, run(t, m, quick, "a", "k").Class)
		time.Sleep(3 * time.Second)
		assert.Equal(t, pipeline.Success, run(t, m, quick, "a", "k").Class, "what is over the window is forgotten")
	})
}

func TestLongHandlerIsForgottenAfterAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := build(0)
		assert.Equal(t, pipeline.Success, run(t, m, Play(Step{Take: time.Hour, End: Done()}), "a", "k").Class)
		assert.Equal(t, pipeline.Transient, run(t, m, Play(Step{End: Done()}), "a", "k").Class)
		time.Sleep(33 * time.Second)
		assert.Equal(t, pipeline.Success, run(t, m, Play(Step{End: Done()}), "a", "k").Class)
	})
}

func TestPanicClosesTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := build(0)
		assert.Panics(t, func() {
			run(t, m, pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
				time.Sleep(time.Minute)
				panic("boom")
			}), "a", "k")
		})
		assert.Equal(t, pipeline.Transient, run(t, m, Play(Step{End: Done()}), "a", "k").Class)
		time.Sleep(time.Minute)
		assert.Equal(t, pipeline.Success, run(t, m, Play(Step{End: Done()}), "a", "k").Class)
	})
}

func TestKeysAreBounded(t *testing.T) {
	m := build(10)
	for n := range 100 {
		run(t, m, Play(Step{End: Done()}), "a", fmt.Sprint(n))
	}
	assert.Equal(t, 10, monopoly.Keys(m))
}
