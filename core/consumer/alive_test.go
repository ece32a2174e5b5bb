package consumer_test

import (
	"context"
	"slices"
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

// After a silence nothing starts and nothing is written, until the group has had time to
// say what holds.
func TestSilenceHolds(t *testing.T) {
	for name, lost := range map[string]bool{"still a member": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, kept := newScript(), &diary{}
				var starts atomic.Int32
				options := s.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
					starts.Add(1)
					return pipeline.Outcome{Class: pipeline.Success}
				})
				options.Ledger = kept
				options.Properties = map[string]string{"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
				c, err := consumer.Start(t.Context(), options)
				require.NoError(t, err)
				s.events <- kafka.Events{Assigned: []kafka.Partition{at(0)}}
				time.Sleep(10 * time.Second)
				assert.True(t, c.Alive(), "nothing to do is no silence")
				assert.False(t, kept.has("hold true"))

				s.set(func() { s.stall = 4 * time.Second })
				time.Sleep(3500 * time.Millisecond)
				assert.False(t, c.Alive())
				if lost {
					s.events <- kafka.Events{Lost: []kafka.Partition{at(0)}, Assigned: []kafka.Partition{at(0)}}
				}
				s.events <- kafka.Events{Records: records(0, 0, 1)}
				time.Sleep(time.Second)
				synctest.Wait()
				assert.True(t, c.Alive())
				lines := kept.noted()
				if lost {
					end, free := slices.Index(lines, "end lease 1"), slices.Index(lines, "hold false")
					last := len(lines) - 1 - slices.Index(reversed(lines), "hold false")
					assert.GreaterOrEqual(t, free, 0)
					assert.Less(t, slices.Index(lines, "hold true"), end)
					assert.Less(t, end, last, "what is lost is fenced before the hold ends")
					assert.EqualValues(t, 1, starts.Load())
				} else {
					assert.Equal(t, "hold true", lastHold(lines))
					assert.Zero(t, starts.Load())
					time.Sleep(4 * time.Second)
					synctest.Wait()
					assert.Equal(t, "hold false", lastHold(kept.noted()))
					assert.EqualValues(t, 1, starts.Load())
				}
				require.NoError(t, c.Stop(context.Background()))
			})
		})
	}
}

func reversed(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Reverse(lines)
	return lines
}

func lastHold(lines []string) string {
	for _, line := range reversed(lines) {
		if line == "hold true" || line == "hold false" {
			return line
		}
	}
	return ""
}
