package client

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/kafka/memory"
	"prosody/core/pipeline"
	"prosody/core/producer"
	"prosody/core/store/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(disk.Afterglow)) }

var registry = memory.NewRegistry(memory.Settings{})

// plan makes a plan for mock mode.
func plan(t *testing.T, options map[string]string) *Plan {
	t.Helper()
	source := &config.Source{}
	all := map[string]string{
		"mock": "true", "bootstrap_servers": t.Name(), "group_id": "group", "source_system": "test",
		"subscribed_topics": "orders", "shutdown_timeout": "1m", "poll_interval": "20ms",
	}
	for name, value := range options {
		all[name] = value
	}
	for name, value := range all {
		if value != "" {
			require.NoError(t, source.Set(name, value))
		}
	}
	plan, err := Prepare(source, config.Map{})
	require.NoError(t, err)
	return plan
}

func open(t *testing.T, options map[string]string) *Client {
	t.Helper()
	client, err := New(plan(t, options), Deps{Memory: registry, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Shutdown(context.Background())) })
	return client
}

// send sends a record and waits for its acknowledgement.
func send(t *testing.T, client *Client, key, payload string) {
	t.Helper()
	done := make(chan producer.Sent, 1)
	require.NoError(t, client.Send(producer.Outgoing{Topic: "orders", Key: key, Payload: []byte(payload)},
		func(sent producer.Sent) { done <- sent }))
	require.Nil(t, (<-done).Err)
}

var succeed = pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
	return pipeline.Outcome{Class: pipeline.Success}
})

func requireKind(t *testing.T, kind fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind, fault.Of(err), err.Error())
}

func TestStatesFollowTheCalls(t *testing.T) {
	client := open(t, nil)
	ctx := t.Context()
	expect := func(expected State) {
		t.Helper()
		state, err := client.State()
		require.NoError(t, err)
		require.Equal(t, expected, state)
	}
	expect(Configured)
	requireKind(t, fault.State, client.Unsubscribe(ctx))
	require.NoError(t, client.Subscribe(ctx, succeed))
	expect(Running)
	requireKind(t, fault.State, client.Subscribe(ctx, succeed))
	require.NoError(t, client.Unsubscribe(ctx))
	expect(Configured)
	require.Zero(t, client.Partitions())
	require.NoError(t, client.Subscribe(ctx, succeed))
	require.NoError(t, client.Shutdown(ctx))
	require.NoError(t, client.Shutdown(ctx))
	expect(ShutDown)
	for _, err := range []error{
		client.Subscribe(ctx, succeed), client.Unsubscribe(ctx),
		client.Send(producer.Outgoing{Topic: "orders", Key: "k", Payload: []byte("1")}, func(producer.Sent) {}),
	} {
		requireKind(t, fault.Closed, err)
	}
	require.Equal(t, "test", client.Source())
}

func TestRecordsReachTheHost(t *testing.T) {
	client := open(t, nil)
	var seen sync.Map
	var wait sync.WaitGroup
	wait.Add(10)
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
			if _, again := seen.LoadOrStore(i.Event.Key, string(i.Event.Payload)); !again {
				wait.Done()
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", ""} {
		send(t, client, key, `{"key":"`+key+`"}`)
	}
	wait.Wait()
	payload, _ := seen.Load("c")
	require.Equal(t, `{"key":"c"}`, payload)

	text, err := client.Stats()
	require.NoError(t, err)
	var stats map[string]any
	require.NoError(t, json.Unmarshal(text, &stats))
	require.Equal(t, "running", stats["state"])
	require.Contains(t, stats, "consumer")
	require.Contains(t, stats, "pipeline")
}

func TestBrokenConsumerSettingsLeaveAProducer(t *testing.T) {
	client := open(t, map[string]string{"mode": "low-latency"})
	send(t, client, "key", "1")
	_, err := client.State()
	requireKind(t, fault.Config, err)
	require.ErrorContains(t, err, "failure_topic")
	require.ErrorContains(t, client.Subscribe(t.Context(), succeed), "failure_topic")
}

func TestNoTopicsNoSubscription(t *testing.T) {
	client := open(t, map[string]string{"subscribed_topics": ""})
	err := client.Subscribe(t.Context(), succeed)
	requireKind(t, fault.Config, err)
	require.ErrorContains(t, err, "subscribed_topics")
	state, err := client.State()
	require.NoError(t, err)
	require.Equal(t, Configured, state)
}

// Any order of calls from many goroutines ends shut down, and one subscription wins.
func TestCallsRace(t *testing.T) {
	for range 20 {
		client := open(t, nil)
		var won, unsubscribed atomic.Int32
		var wait sync.WaitGroup
		for range 8 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if client.Subscribe(t.Context(), succeed) == nil {
					won.Add(1)
				}
			}()
		}
		wait.Wait()
		require.EqualValues(t, 1, won.Load())
		for n := range 8 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				switch n % 4 {
				case 0:
					assert.NoError(t, client.Shutdown(context.Background()))
				case 1:
					if err := client.Unsubscribe(t.Context()); err == nil {
						unsubscribed.Add(1)
					}
				case 2:
					_ = client.Subscribe(t.Context(), succeed)
				case 3:
					client.Partitions()
					client.Stalled()
				}
			}()
		}
		wait.Wait()
		state, err := client.State()
		require.NoError(t, err)
		require.Equal(t, ShutDown, state)
	}
}

func TestDeafHandlerIsNamedAndDoesNotHoldUpTheEnd(t *testing.T) {
	client := open(t, map[string]string{"timeout": "50ms", "stall_threshold": "100ms", "shutdown_timeout": "300ms"})
	release, entered := make(chan struct{}), make(chan struct{})
	var once sync.Once
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			once.Do(func() { close(entered) })
			<-release
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	send(t, client, "deaf", "1")
	<-entered
	require.Eventually(t, func() bool { return len(client.Stalled()) > 0 }, time.Minute, 10*time.Millisecond)
	began := time.Now()
	require.NoError(t, client.Shutdown(t.Context()))
	require.Less(t, time.Since(began), 30*time.Second)
	close(release)
}

// A handler that could not be stopped keeps its key also from the next subscription.
func TestDeafHandlerKeepsItsKeyFromTheNextSubscription(t *testing.T) {
	client := open(t, map[string]string{"shutdown_timeout": "100ms"})
	release, entered := make(chan struct{}), make(chan struct{})
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			close(entered)
			<-release
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	send(t, client, "deaf", "1")
	<-entered
	require.NoError(t, client.Unsubscribe(t.Context()))
	handled := make(chan string, 10)
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(_ context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
			handled <- invocation.Event.Key
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	send(t, client, "other", "1")
	require.Equal(t, "other", <-handled)
	require.Empty(t, handled)
	close(release)
	require.Equal(t, "deaf", <-handled)
	require.NoError(t, client.Shutdown(t.Context()))
}
