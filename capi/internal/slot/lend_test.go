package slot

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/capi/internal/keyed"
	"prosody/core/config"
	"prosody/core/event"
	"prosody/core/pipeline"
	sessions "prosody/core/state"
)

// txn is a transaction that tells whether its attempt is over.
type txn struct {
	pipeline.Txn
	over atomic.Bool
}

// attempt runs a host with a transaction, which ends as the attempt middleware ends it.
func (f *fixture) attempt(t *testing.T, held *txn) {
	f.ends <- f.host.Handle(t.Context(), &pipeline.Invocation{
		Event: &event.Event{Kind: event.Timer, Timestamp: 7000}, Leaving: t.Context(), Txn: held,
	})
	held.over.Store(true)
}

func TestAnAttemptEndsAfterTheCallsThatUseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, held := setUp(t), &txn{}
		go f.attempt(t, held)
		synctest.Wait()
		timer := f.take()[0]
		assert.Equal(t, got{3, timer.token, 7}, timer)
		slot, verdict := f.table.Lend(timer.token)
		require.Equal(t, Live, verdict)
		assert.Same(t, held, slot.Txn())
		assert.Equal(t, Live, f.table.Complete(timer.token, success()))
		synctest.Wait()
		assert.False(t, held.over.Load())
		_, verdict = f.table.Lend(timer.token)
		assert.Equal(t, Settled, verdict)
		slot.Return()
		assert.Equal(t, success(), <-f.ends)
		synctest.Wait()
		assert.True(t, held.over.Load())
	})
}

func TestOnlyWhatTheHostHasIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		go f.attempt(t, &txn{})
		synctest.Wait()
		_, verdict := f.table.Lend(1<<32 + 1)
		assert.Equal(t, Unknown, verdict)
		token := f.take()[0].token
		_, verdict = f.table.Lend(token + 1<<32)
		assert.Equal(t, Unknown, verdict)
		f.table.Complete(token, success())
		<-f.ends
		_, verdict = f.table.Lend(token)
		assert.Equal(t, Settled, verdict)
	})
}

// A call never gets the transaction of another event, and none that is over.
func TestCallsRaceWithEnds(t *testing.T) {
	f := setUp(t)
	var wait sync.WaitGroup
	var owners sync.Map
	for range 200 {
		held := &txn{}
		go f.attempt(t, held)
		var token uint64
		for token == 0 {
			for _, r := range f.take() {
				token = r.token
			}
		}
		owners.Store(token, held)
		for range 2 {
			wait.Go(func() {
				slot, verdict := f.table.Lend(token)
				if verdict != Live {
					assert.Equal(t, Settled, verdict)
					return
				}
				owner, _ := owners.Load(token)
				assert.Same(t, owner, slot.Txn())
				assert.False(t, slot.Txn().(*txn).over.Load())
				slot.Return()
			})
		}
		wait.Go(func() { f.table.Complete(token, success()) })
		<-f.ends
	}
	wait.Wait()
	assert.Zero(t, f.table.Used())
}

func TestCollectionsEndWithTheirInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, table := setUp(t), keyed.New()
		of := &event.Event{Kind: event.Timer, Timestamp: 7000}
		registry := sessions.New(sessions.Options{Collections: []config.Collection{{Name: "v", Kind: "value", Payload: "json"}}})
		go func() {
			f.ends <- f.host.Handle(t.Context(), &pipeline.Invocation{
				Event: of, Leaving: t.Context(), State: registry.Begin(nil, of),
			})
		}()
		synctest.Wait()
		token := f.take()[0].token
		slot, _ := f.table.Lend(token)
		attempt := slot.Bound(table)
		require.NotNil(t, attempt)
		assert.Same(t, attempt, slot.Bound(table))
		name, err := attempt.Bind(sessions.Identity{Name: "v", Kind: "value", Payload: "json"})
		require.NoError(t, err)
		bound, _ := table.Find(name)
		assert.Equal(t, token, bound.Invocation)
		f.table.Complete(token, success())
		synctest.Wait()
		bound, _ = table.Find(name)
		assert.NotNil(t, bound, "a call still uses it")
		slot.Return()
		<-f.ends
		_, stale := table.Find(name)
		assert.True(t, stale)
		assert.Zero(t, table.Used())

		go f.attempt(t, &txn{})
		synctest.Wait()
		slot, _ = f.table.Lend(f.take()[0].token)
		assert.Nil(t, slot.Bound(table), "there is no record, so no state")
		slot.Return()
		f.table.Fail(nil, "over")
		<-f.ends
	})
}
