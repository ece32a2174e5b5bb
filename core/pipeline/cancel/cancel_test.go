package cancel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"prosody/core/pipeline"
	"prosody/core/pipeline/cancel"
	. "prosody/core/pipeline/pipelinetest"
)

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name  string
		stay  bool // the owner does not leave
		inner pipeline.Outcome
		want  pipeline.Class
	}{
		{"success", false, Done(), pipeline.Success},
		{"transient", false, Fail("boom"), pipeline.Aborted},
		{"permanent", false, Never("bad"), pipeline.Permanent},
		{"transient of one who stays", true, Fail("boom"), pipeline.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			leaving, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			handler := cancel.New(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
				if !c.stay {
					leave(pipeline.Revoked)
				}
				return c.inner
			}))
			assert.Equal(t, c.want, handler.Handle(leaving, Invocation(leaving, "k")).Class)
		})
	}
}

func TestNothingStartsAfterLeaving(t *testing.T) {
	leaving, leave := context.WithCancelCause(t.Context())
	leave(pipeline.ShuttingDown)
	host := Play(Step{End: Done()})
	outcome := cancel.New(host).Handle(leaving, Invocation(leaving, "k"))
	assert.Equal(t, pipeline.Aborted, outcome.Class)
	assert.Contains(t, outcome.Text, pipeline.ShuttingDown.Error())
	assert.Empty(t, host.Transcript())
}
