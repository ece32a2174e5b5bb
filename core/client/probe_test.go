package client

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka/memory"
	"prosody/core/observe"
	"prosody/core/pipeline"
)

// livez asks for the answer of /livez without a socket, so that time may be the test's own.
func livez(t *testing.T, client *Client) (int, observe.Liveness) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil)
	request.Header.Set("Accept", "application/json")
	written := httptest.NewRecorder()
	observe.Site{Health: client}.Handler().ServeHTTP(written, request)
	var answer observe.Liveness
	require.NoError(t, json.Unmarshal(written.Body.Bytes(), &answer))
	return written.Code, answer
}

// timeless runs a test with a client whose time passes only while all wait.
func timeless(t *testing.T, options map[string]string, host Host, test func(t *testing.T, client *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		deps := Deps{Memory: memory.NewRegistry(memory.Settings{}), Log: slog.New(slog.DiscardHandler)}
		client, err := New(plan(t, options), deps)
		require.NoError(t, err)
		require.NoError(t, client.Subscribe(t.Context(), host))
		test(t, client)
		require.NoError(t, client.Shutdown(t.Context()))
		time.Sleep(5 * time.Second) // what the disk leaves behind ends
	})
}

// One partition stands still while others work: /livez is red and names it, and is green
// again after. An idle member stays green.
func TestLivezNamesThePartitionThatStandsStill(t *testing.T) {
	var release chan struct{}
	host := pipeline.Func(func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
		if i.Event.Key == "stuck" {
			<-release
		}
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options := map[string]string{"stall_threshold": "1s", "timeout": "1h"}
	timeless(t, options, host, func(t *testing.T, client *Client) {
		release = make(chan struct{}) // of its bubble
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, client.Partitions())
		status, _ := livez(t, client)
		require.Equal(t, http.StatusOK, status, "idle is healthy")

		send(t, client, "stuck", `{}`)
		for i := range 20 {
			send(t, client, fmt.Sprint(i), `{}`)
		}
		time.Sleep(900 * time.Millisecond)
		status, _ = livez(t, client)
		require.Equal(t, http.StatusOK, status, "it may take that long")
		time.Sleep(time.Second)
		status, answer := livez(t, client)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Len(t, answer.Stuck, 1)
		assert.Equal(t, "orders", answer.Stuck[0].Topic)
		assert.NotNil(t, answer.Stuck[0].Partition)
		assert.EqualValues(t, "handler", answer.Stuck[0].Part)
		close(release)
		synctest.Wait()
		status, _ = livez(t, client)
		require.Equal(t, http.StatusOK, status)
	})
}

// All handlers fail, for what they need is down: /livez says so and stays green, since a
// restart would not help.
func TestLivezStaysGreenInAnOutage(t *testing.T) {
	down := pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		return pipeline.Outcome{Class: pipeline.Transient, Text: "the database is down"}
	})
	options := map[string]string{"stall_threshold": "1s", "retry_base": "1ms", "max_retry_delay": "100ms", "max_uncommitted": "64"}
	timeless(t, options, down, func(t *testing.T, client *Client) {
		for i := range 60 {
			send(t, client, fmt.Sprint(i), `{}`)
		}
		for range 5 {
			time.Sleep(time.Second)
			status, answer := livez(t, client)
			require.Equal(t, http.StatusOK, status, "%+v", answer)
			require.Empty(t, answer.Stuck)
			require.Len(t, answer.Outages, 1)
			require.EqualValues(t, "topic", answer.Outages[0].Part)
			require.Contains(t, answer.Outages[0].Text, "orders: 100 % of the events fail")
		}
	})
}

// More members than partitions: the standby is ready and alive. A member that shuts down is
// not ready any more while its handlers end.
func TestReadyzOfAStandbyAndAtShutdown(t *testing.T) {
	options := map[string]string{"probe_port": "0", "bootstrap_servers": t.Name()}
	var members []*Client
	for range 4 { // for three partitions
		member := open(t, options)
		require.NoError(t, member.Subscribe(t.Context(), succeed))
		members = append(members, member)
	}
	standby := func() *Client {
		for _, member := range members {
			if member.Joined() && member.Partitions() == 0 {
				return member
			}
		}
		return nil
	}
	require.Eventually(t, func() bool {
		total := 0
		for _, member := range members {
			total += member.Partitions()
		}
		return total == 3 && standby() != nil
	}, 2*time.Minute, 5*time.Millisecond)
	for _, member := range members {
		status, _ := fetch(t, member, "/readyz", "text/plain")
		require.Equal(t, http.StatusOK, status)
		status, _ = livez(t, member)
		require.Equal(t, http.StatusOK, status)
	}

	slow := open(t, map[string]string{"probe_port": "0", "group_id": "slow", "shutdown_timeout": "1m", "bootstrap_servers": t.Name() + "-slow"})
	entered, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, slow.Subscribe(t.Context(), pipeline.Func(
		func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			close(entered)
			<-release
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	send(t, slow, "key", `{}`)
	<-entered
	over := make(chan error, 1)
	go func() { over <- slow.Unsubscribe(context.Background()) }()
	require.Eventually(t, func() bool {
		status, _ := fetch(t, slow, "/readyz", "text/plain")
		return status == http.StatusServiceUnavailable
	}, 2*time.Minute, time.Millisecond)
	status, _ := livez(t, slow)
	require.Equal(t, http.StatusOK, status)
	close(release)
	require.NoError(t, <-over)
}
