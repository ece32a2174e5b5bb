package log_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"prosody/core/event"
	"prosody/core/pipeline"
	"prosody/core/pipeline/log"
	. "prosody/core/pipeline/pipelinetest"
)

func TestNothingEndsInSilence(t *testing.T) {
	for _, c := range []struct {
		name               string
		kind               event.Kind
		inner              pipeline.Outcome
		want               pipeline.Class
		phrase, level      string
		discarded, aborted int64
	}{
		{"success", event.Message, Done(), pipeline.Success, "", "", 0, 0},
		{"permanent", event.Message, Never("bad"), pipeline.Permanent, "discarding message", "ERROR", 1, 0},
		{"transient", event.Message, Fail("bad"), pipeline.Permanent, "discarding message", "ERROR", 1, 0},
		{"excise", event.Excise, Never("bad"), pipeline.Permanent, "discarding excise", "ERROR", 1, 0},
		{"timer", event.Timer, Never("bad"), pipeline.Permanent, "discarding timer", "ERROR", 1, 0},
		{"aborted", event.Message, pipeline.Outcome{Class: pipeline.Aborted, Text: "bad"}, pipeline.Aborted,
			"aborting processing", "WARN", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, counts := &Log{}, &pipeline.Counts{}
			inner := pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return c.inner })
			invocation := Invocation(t.Context(), "customer")
			invocation.Event.Kind = c.kind
			outcome := log.New(inner, counts, lines.Logger()).Handle(t.Context(), invocation)
			assert.Equal(t, c.want, outcome.Class)
			assert.Equal(t, c.inner.Text, outcome.Text)
			assert.Equal(t, c.discarded, counts.Discarded.Load())
			assert.Equal(t, c.aborted, counts.Aborted.Load())
			if c.phrase == "" {
				assert.Empty(t, lines.String())
				return
			}
			assert.Equal(t, 1, strings.Count(lines.String(), "\n"))
			for _, part := range []string{"level=" + c.level, c.phrase, "topic=orders", "partition=3", "offset=42",
				"key=customer", "reason=bad"} {
				assert.Contains(t, lines.String(), part)
			}
			assert.NotContains(t, lines.String(), "secret", "no payload")
		})
	}
}
