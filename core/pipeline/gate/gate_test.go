package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/pipeline"
	"prosody/core/pipeline/gate"
	. "prosody/core/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	*testing.T
	clock *clock.Manual
	gate  *gate.Gate
}

func start(t *testing.T, threshold float64) *bench {
	manual := clock.NewManual(time.Unix(1_700_000_000, 0))
	return &bench{t, manual, gate.New(gate.Options{Threshold: threshold, Window: 32 * time.Second, Least: 10, Clock: manual})}
}

func (b *bench) run(topic string, times int, demand pipeline.Demand, end pipeline.Outcome) {
	handler := b.gate.Wrap(Play(Step{End: end}))
	for range times {
		invocation := Invocation(b.Context(), "k")
		invocation.Event.Topic, invocation.Demand = topic, demand
		assert.Equal(b, end, handler.Handle(b.Context(), invocation))
	}
}

var again = pipeline.Demand{Failure: true, Retry: 1}

func TestSmallSampleKeepsTheGateOpen(t *testing.T) {
	b := start(t, 0.9)
	assert.True(t, b.gate.Open("orders"))
	b.run("orders", 9, pipeline.Demand{}, Fail("boom"))
	assert.True(t, b.gate.Open("orders"))
	b.run("orders", 1, pipeline.Demand{}, Fail("boom"))
	assert.False(t, b.gate.Open("orders"))
	assert.True(t, b.gate.Open("others"), "each topic has its own")
}

func TestThresholdIsStrict(t *testing.T) {
	b := start(t, 0.9)
	b.run("orders", 10, pipeline.Demand{}, Done())
	b.run("orders", 89, pipeline.Demand{}, Fail("boom"))
	assert.True(t, b.gate.Open("orders"), "89 of 99")
	b.run("orders", 1, pipeline.Demand{}, Fail("boom"))
	assert.False(t, b.gate.Open("orders"), "90 of 100")
}

func TestRepeatedAndAbortedAttemptsDoNotCount(t *testing.T) {
	b := start(t, 0.5)
	b.run("orders", 10, pipeline.Demand{}, Done())
	b.run("orders", 9, pipeline.Demand{}, Fail("boom"))
	b.run("orders", 100, again, Fail("boom"))
	b.run("orders", 100, pipeline.Demand{}, pipeline.Outcome{Class: pipeline.Aborted})
	assert.True(t, b.gate.Open("orders"))
	b.run("orders", 1, pipeline.Demand{}, Fail("boom"))
	assert.False(t, b.gate.Open("orders"))
	b.run("orders", 100, again, Done())
	assert.False(t, b.gate.Open("orders"))
	b.run("orders", 1, pipeline.Demand{}, Never("no"))
	assert.True(t, b.gate.Open("orders"), "a permanent failure is an answer")
}

// The ring agrees with a list of all times, to a step.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := start(t, 0.5)
		var good, bad []time.Time
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			b.clock.Advance(time.Duration(rapid.IntRange(0, 10_000).Draw(rt, "ms")) * time.Millisecond)
			times := rapid.IntRange(0, 9).Draw(rt, "times")
			list, end := &good, Done()
			if rapid.Bool().Draw(rt, "fails") {
				list, end = &bad, Fail("boom")
			}
			b.run("orders", times, pipeline.Demand{}, end)
			for range times {
				*list = append(*list, b.clock.Now())
			}
			count := func(list []time.Time) (sum int) {
				for _, at := range list {
					if b.clock.Now().Unix()-at.Unix() < 32 {
						sum++
					}
				}
				return sum
			}
			all, failed := count(good)+count(bad), count(bad)
			assert.Equal(rt, all < 10 || float64(failed) < 0.5*float64(all), b.gate.Open("orders"), "%d of %d", failed, all)
		}
	})
}

func TestSilentTopicsAreForgotten(t *testing.T) {
	b := start(t, 0.5)
	for n := range 1000 {
		b.run(fmt.Sprint("topic-", n), 1, pipeline.Demand{}, Done())
		b.clock.Advance(time.Second)
	}
	assert.LessOrEqual(t, gate.Topics(b.gate), 256)
}
