package guard_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"prosody/core/pipeline"
	"prosody/core/pipeline/guard"
	. "prosody/core/pipeline/pipelinetest"
)

type angry struct{}

func (angry) Error() string { panic("no text for you") }

func TestWhateverTheHostDoesIsAnOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		host pipeline.Func
		want pipeline.Class
		text string
	}{
		"panic": {func(context.Context, *pipeline.Invocation) pipeline.Outcome { panic("boom") },
			pipeline.Transient, "handler panicked: boom"},
		"panic of a value without text": {func(context.Context, *pipeline.Invocation) pipeline.Outcome { panic(angry{}) },
			pipeline.Transient, "handler panicked"},
		"no class": {func(context.Context, *pipeline.Invocation) pipeline.Outcome { return pipeline.Outcome{} },
			pipeline.Transient, "without a result"},
		"odd class": {func(context.Context, *pipeline.Invocation) pipeline.Outcome { return pipeline.Outcome{Class: 99} },
			pipeline.Transient, "without a result"},
		"10 MiB": {func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			return Never(strings.Repeat("é\xff", 4<<20))
		}, pipeline.Permanent, "é\uFFFDé"},
	} {
		t.Run(name, func(t *testing.T) {
			counts := &pipeline.Counts{}
			outcome := guard.New(c.host, counts).Handle(t.Context(), Invocation(t.Context(), "k"))
			assert.Equal(t, c.want, outcome.Class)
			assert.Contains(t, outcome.Text, c.text)
			assert.LessOrEqual(t, len(outcome.Text), pipeline.MaxText)
			assert.True(t, utf8.ValidString(outcome.Text))
			assert.EqualValues(t, 1, counts.Attempts.Load())
		})
	}
}

func TestAProperOutcomeIsUnchanged(t *testing.T) {
	want := pipeline.Outcome{Class: pipeline.Success, Text: "fine", Response: []byte("null")}
	host := pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return want })
	assert.Equal(t, want, guard.New(host, &pipeline.Counts{}).Handle(t.Context(), Invocation(t.Context(), "k")))
}
