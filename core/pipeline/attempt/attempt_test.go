package attempt_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/attempt"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/store/memory"
)

// A success leaves its transaction for the layers around it, who alone can go on with
// it; any other end leaves none. Each attempt has one of its own.
func TestOneTransactionForEachAttempt(t *testing.T) {
	keeper := entity.New(entity.Options{Store: memory.NewRegistry(memory.Settings{}).Store("x"), Group: "g"})
	record, err := keeper.Assign(kafka.Partition{Topic: "orders"}).Open(t.Context(), "k")
	require.NoError(t, err)
	defer record.Close()
	invocation := Invocation(t.Context(), "k")
	invocation.Entity = record
	var last pipeline.Txn
	for _, end := range []pipeline.Outcome{Fail("boom"), Never("bad"), {Class: pipeline.Aborted}, Done()} {
		attempt.New(pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
			fresh := last != invocation.Txn
			assert.True(t, fresh)
			last = invocation.Txn
			seconds, err := last.Scheduled(ctx)
			assert.NoError(t, err)
			assert.Empty(t, seconds, "what failed is gone")
			assert.NoError(t, last.Schedule(ctx, 7, false))
			return end
		}), nil).Handle(t.Context(), invocation)
		assert.Equal(t, fault.Settled, fault.Of(last.Schedule(t.Context(), 8, false)))
		if end.Class != pipeline.Success {
			assert.Nil(t, invocation.Txn)
		}
	}
	assert.Same(t, last, invocation.Txn)
	assert.True(t, invocation.Txn.(*entity.Txn).Dirty())
	invocation.Txn.(*entity.Txn).Discard()
}

func TestWithoutARecord(t *testing.T) {
	invocation := Invocation(t.Context(), "k")
	assert.Equal(t, Done(), attempt.New(Play(Step{End: Done()}), nil).Handle(t.Context(), invocation))
	assert.Nil(t, invocation.Txn)
}
