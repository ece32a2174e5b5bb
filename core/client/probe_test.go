package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/observe"
	"prosody/core/pipeline"
)

func livez(t *testing.T, client *Client) (int, observe.Liveness) {
	t.Helper()
	status, body := fetch(t, client, "/livez", "application/json")
	var answer observe.Liveness
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	return status, answer
}

// One partition stands still while others work: /livez is red and names it, and is green
// again after. An idle member stays green.
func TestLivezNamesThePartitionThatStandsStill(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0", "stall_threshold": "200ms", "timeout": "10s"})
	release := make(chan struct{})
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
			if i.Event.Key == "stuck" {
				<-release
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	require.Eventually(t, func() bool { return client.Partitions() > 0 }, 10*time.Second, time.Millisecond)
	time.Sleep(600 * time.Millisecond) // three times the threshold without a record
	status, _ := livez(t, client)
	require.Equal(t, http.StatusOK, status, "idle is healthy")

	send(t, client, "stuck", `{}`)
	for i := range 20 {
		send(t, client, fmt.Sprint(i), `{}`)
	}
	var answer observe.Liveness
	require.Eventually(t, func() bool {
		status, answer = livez(t, client)
		return status == http.StatusServiceUnavailable
	}, 10*time.Second, 10*time.Millisecond)
	require.Len(t, answer.Stuck, 1)
	assert.Equal(t, "orders", answer.Stuck[0].Topic)
	assert.NotNil(t, answer.Stuck[0].Partition)
	assert.EqualValues(t, "handler", answer.Stuck[0].Part)
	close(release)
	require.Eventually(t, func() bool { status, _ = livez(t, client); return status == http.StatusOK }, 10*time.Second, 10*time.Millisecond)
}

// All handlers fail, for what they need is down: /livez says so and stays green, since a
// restart would not help.
func TestLivezStaysGreenInAnOutage(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0", "stall_threshold": "300ms", "retry_base": "1ms", "max_retry_delay": "20ms", "max_uncommitted": "64"})
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(context.Context, *pipeline.Invocation) pipeline.Outcome {
			return pipeline.Outcome{Class: pipeline.Transient, Text: "the database is down"}
		})))
	for i := range 60 {
		send(t, client, fmt.Sprint(i), `{}`)
	}
	require.Eventually(t, func() bool {
		_, answer := livez(t, client)
		return len(answer.Outages) > 0
	}, 10*time.Second, 10*time.Millisecond)
	time.Sleep(700 * time.Millisecond)
	status, answer := livez(t, client)
	require.Equal(t, http.StatusOK, status, "%+v", answer)
	require.Empty(t, answer.Stuck)
	require.EqualValues(t, "topic", answer.Outages[0].Part)
	require.Contains(t, answer.Outages[0].Text, "orders: 100 % of the events fail")
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
	}, 20*time.Second, 5*time.Millisecond)
	for _, member := range members {
		status, _ := fetch(t, member, "/readyz", "text/plain")
		require.Equal(t, http.StatusOK, status)
		status, _ = livez(t, member)
		require.Equal(t, http.StatusOK, status)
	}

	slow := open(t, map[string]string{"probe_port": "0", "group_id": "slow", "bootstrap_servers": t.Name() + "-slow"})
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
	}, time.Second, time.Millisecond)
	status, _ := livez(t, slow)
	require.Equal(t, http.StatusOK, status)
	close(release)
	require.NoError(t, <-over)
}
