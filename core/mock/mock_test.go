package mock_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/client"
	"prosody/core/config"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/mock"
	"prosody/core/pipeline"
	"prosody/core/producer"
	"prosody/core/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a world with clients.
type rig struct {
	*testing.T
	worlds *mock.Worlds
	world  *mock.World
}

func start(t *testing.T) *rig {
	r := &rig{T: t, worlds: mock.NewWorlds()}
	r.world = r.worlds.World([]string{"b", "a "})
	return r
}

type handler func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome

func (r *rig) open(options map[string]string, work handler) *client.Client {
	r.Helper()
	source := &config.Source{}
	all := map[string]string{
		"mock": "true", "bootstrap_servers": "a,b", "group_id": "group", "source_system": "test", "shutdown_timeout": "1m",
		"state_collections": `[{"name":"n","kind":"value"}]`,
	}
	for name, value := range options {
		all[name] = value
	}
	for name, value := range all {
		require.NoError(r, source.Set(name, value))
	}
	plan, err := client.Prepare(source, config.Map{})
	require.NoError(r, err)
	made, err := client.New(plan, client.Deps{
		Memory: r.worlds.Brokers, Stores: r.world.Stores, Clock: r.world.Clock, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(r, err)
	r.world.Join(made)
	r.Cleanup(func() {
		assert.NoError(r, made.Shutdown(context.Background()))
		r.world.Leave(made)
	})
	if work != nil {
		require.NoError(r, made.Subscribe(r.Context(), pipeline.Func(work)))
	}
	return made
}

func send(t assert.TestingT, from *client.Client, topic, key, payload string) error {
	done := make(chan producer.Sent, 1)
	record := producer.Outgoing{Topic: topic, Key: key}
	if payload != "" {
		record.Payload = []byte(payload)
	}
	if err := from.Send(record, func(sent producer.Sent) { done <- sent }); !assert.NoError(t, err) {
		return err
	}
	if sent := <-done; sent.Err != nil {
		return sent.Err
	}
	return nil
}

func (r *rig) idle(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	return r.world.Idle(ctx)
}

var succeed = pipeline.Outcome{Class: pipeline.Success}

func (r *rig) sent(topic string) (values []string) {
	for _, one := range r.world.Records(topic, 0) {
		values = append(values, string(one.Value))
	}
	return values
}

// A record goes through a chain of services of which each sends to the next. When the world
// says that it is idle, the last one has ended, each time.
func TestIdleIsTheEndOfAChain(t *testing.T) {
	r := start(t)
	const links, rounds = 5, 40
	var ended atomic.Int64
	for n := range links {
		var own *client.Client
		var ready sync.WaitGroup
		ready.Add(1)
		own = r.open(map[string]string{"group_id": fmt.Sprint("group-", n), "subscribed_topics": fmt.Sprint("link-", n)},
			func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
				ready.Wait()
				if n+1 < links {
					assert.NoError(t, send(t, own, fmt.Sprint("link-", n+1), i.Event.Key, string(i.Event.Payload)))
				} else {
					time.Sleep(100 * time.Microsecond)
					ended.Add(1)
				}
				return succeed
			})
		ready.Done()
	}
	sender := r.open(map[string]string{"group_id": "sender"}, nil)
	for round := range rounds {
		for key := range 5 {
			require.NoError(t, send(t, sender, "link-0", fmt.Sprint(key), fmt.Sprint(round)))
		}
		require.NoError(t, r.idle(2*time.Minute))
		require.EqualValues(t, 5*(round+1), ended.Load())
	}
}

// What is due by the moved clock is done when the world is idle; what is not due yet does
// not hold it up.
func TestIdleWaitsForWhatIsDue(t *testing.T) {
	r := start(t)
	var fired atomic.Int64
	one := r.open(map[string]string{"subscribed_topics": "t"}, func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
		if i.Event.Kind == event.Timer {
			fired.Add(1)
			return succeed
		}
		when := r.world.Clock.Now().Add(24 * time.Hour).Unix()
		if err := i.Txn.Schedule(ctx, when, false); err != nil {
			return pipeline.Outcome{Class: pipeline.Transient, Text: err.Error()}
		}
		return succeed
	})
	for key := range 50 {
		require.NoError(t, send(t, one, "t", fmt.Sprint(key), "1"))
	}
	require.NoError(t, r.idle(2*time.Minute))
	require.Zero(t, fired.Load())
	r.world.Clock.Advance(23 * time.Hour)
	require.NoError(t, r.idle(2*time.Minute))
	require.Zero(t, fired.Load())
	r.world.Clock.Advance(time.Hour + time.Second)
	require.NoError(t, r.idle(2*time.Minute))
	require.EqualValues(t, 50, fired.Load())
}

func TestIdleTellsWhatIsBusy(t *testing.T) {
	r := start(t)
	release, entered := make(chan struct{}), make(chan struct{})
	one := r.open(map[string]string{"subscribed_topics": "t"}, func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		entered <- struct{}{}
		<-release
		return succeed
	})
	require.NoError(t, send(t, one, "t", "slow", "1"))
	<-entered
	err := r.idle(20 * time.Millisecond)
	require.Equal(t, fault.Timeout, fault.Of(err))
	require.ErrorContains(t, err, `the message of key "slow" runs`)
	close(release)
	require.NoError(t, r.idle(2*time.Minute))
}

// A retry that is not due yet is no work; moved there by the clock it is done.
func TestStoreAndBrokerFail(t *testing.T) {
	r := start(t)
	var tries atomic.Int64
	one := r.open(map[string]string{"subscribed_topics": "t"}, func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		if tries.Add(1) == 1 {
			return pipeline.Outcome{Class: pipeline.Transient, Text: "not now"}
		}
		return succeed
	})
	require.NoError(t, r.idle(2*time.Minute))

	require.NoError(t, r.world.Fail(mock.Write, "k", 2))
	require.NoError(t, send(t, one, "t", "k", "1"))
	require.NoError(t, r.idle(2*time.Minute)) // the write of the deferral is tried again
	r.world.Clock.Advance(time.Hour)
	require.NoError(t, r.idle(2*time.Minute))
	require.EqualValues(t, 2, tries.Load())

	require.NoError(t, r.world.Fail(mock.Produce|mock.Consume|mock.Commit, "", -1))
	err := send(t, one, "t", "k", "2")
	var known *fault.Error
	require.ErrorAs(t, err, &known)
	require.Contains(t, err.Error(), "as the test wants")
	require.NoError(t, r.world.Fail(mock.Produce, "", 0))
	require.NoError(t, send(t, one, "t", "k", "3"))
	require.ErrorContains(t, r.idle(50*time.Millisecond), "records wait in t:")
	require.NoError(t, r.world.Fail(mock.Consume|mock.Commit, "", 0))
	require.NoError(t, r.idle(2*time.Minute))
	require.EqualValues(t, 3, tries.Load())
	require.Equal(t, fault.Argument, fault.Of(r.world.Fail(64, "", 1)))
	require.Equal(t, fault.Argument, fault.Of(r.world.Fail(0, "", 1)))
}

// A handler hears that its partition leaves; the event comes again to the same member.
func TestRebalance(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost=", lost), func(t *testing.T) {
			r := start(t)
			causes := make(chan error, 2)
			var calls atomic.Int64
			one := r.open(map[string]string{"subscribed_topics": "t", "shutdown_timeout": "100ms"},
				func(ctx context.Context, _ *pipeline.Invocation) pipeline.Outcome {
					if calls.Add(1) > 1 {
						return succeed
					}
					causes <- nil
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return pipeline.Outcome{Class: pipeline.Transient}
				})
			require.NoError(t, send(t, one, "t", "k", "1"))
			<-causes
			require.NoError(t, r.world.Rebalance("group", lost))
			cause := pipeline.Revoked
			if lost {
				cause = pipeline.Lost
			}
			require.ErrorIs(t, <-causes, cause)
			require.NoError(t, r.idle(2*time.Minute))
			require.EqualValues(t, 2, calls.Load())
			require.Equal(t, fault.Argument, fault.Of(r.world.Rebalance("other", lost)))
		})
	}
}

// Records of several partitions are told in the order in which they were sent.
func TestRecordsAreInOrder(t *testing.T) {
	r := start(t)
	one := r.open(nil, nil)
	var all []string
	for n := range 100 {
		require.NoError(t, send(t, one, "out", fmt.Sprint(n%7), fmt.Sprint(n)))
		all = append(all, fmt.Sprint(n))
	}
	require.Equal(t, all, r.sent("out"))
	require.Empty(t, r.sent("nowhere"))
	require.Len(t, r.world.Records("out", 98), 2)
	r.world.Clock.Advance(time.Hour)
	require.NoError(t, send(t, one, "out", "late", "100"))
	later := r.world.Records("out", 99)
	require.GreaterOrEqual(t, later[1].Timestamp-later[0].Timestamp, time.Hour.Milliseconds())
	require.Empty(t, r.world.Records("out", 101))
	require.IsType(t, []*kafka.Record{}, r.world.Records("out", 0))
}

func TestStateIsReadAndForgotten(t *testing.T) {
	r := start(t)
	value := state.Identity{Name: "n", Kind: config.KindValue, Payload: config.PayloadJSON}
	_, err := r.worlds.Find("a")
	require.Equal(t, fault.Argument, fault.Of(err))
	one := r.open(map[string]string{"subscribed_topics": "t"},
		func(context.Context, *pipeline.Invocation) pipeline.Outcome { return succeed })
	_, err = r.worlds.Find("b,a")
	require.NoError(t, err)
	require.Equal(t, fault.State, fault.Of(r.worlds.Forget("a,b")))

	reader, err := one.Kept("t", value)
	require.NoError(t, err)
	type getter interface {
		Get(ctx context.Context) (state.Item, bool, error)
	}
	_, has, err := reader.Bind("k").(getter).Get(t.Context())
	require.NoError(t, err)
	require.False(t, has)

	require.NoError(t, send(t, one, "t", "k", "1"))
	require.NoError(t, one.Shutdown(t.Context()))
	r.world.Leave(one)
	require.NoError(t, r.worlds.Forget("a,b"))
	_, err = r.worlds.Find("a,b")
	require.Equal(t, fault.Argument, fault.Of(err))
	require.Empty(t, r.worlds.World([]string{"a", "b"}).Records("t", 0))
}
