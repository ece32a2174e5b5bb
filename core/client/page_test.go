package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/observe/page"
	"prosody/core/pipeline"
)

// hidden is what every payload holds: no view may show it.
const hidden = "PAYLOAD-CONTENT"

// nasty is a key that would run a script if it became HTML.
const nasty = `<img src=x onerror="document.title='broken into'">`

// busy is a client with something of each kind: a handler that runs, a key that waits behind
// it, a deferred key, a timer. It ends by release.
func busy(t *testing.T) (client *Client, release func()) {
	t.Helper()
	client = open(t, map[string]string{"probe_port": "0", "group_id": "shop", "defer_base": "1h", "max_concurrency": "4"})
	gate := make(chan struct{})
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			switch {
			case i.Event.Kind != event.Message:
			case i.Event.Key == nasty:
				<-gate
			case i.Event.Key == "failing":
				return pipeline.Outcome{Class: pipeline.Transient, Text: "the <b>bank</b> does not answer"}
			case i.Event.Key == "later":
				require.NoError(t, i.Txn.Schedule(ctx, time.Now().Unix()+50, false))
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	for _, key := range []string{nasty, nasty, "failing", "later", "good"} {
		send(t, client, key, `{"secret":"`+hidden+`"}`)
	}
	require.Eventually(t, func() bool {
		s := client.Status()
		return len(s.Running) == 1 && len(s.Deferred) == 1 && len(s.Due) == 1 && s.Pipeline.Successes >= 2
	}, 2*time.Minute, 5*time.Millisecond)
	return client, func() { close(gate) }
}

func TestTheStatusTellsWhatEachKeyDoes(t *testing.T) {
	client, release := busy(t)
	defer release()
	status, body := fetch(t, client, "/status", "")
	require.Equal(t, http.StatusOK, status)
	var told page.Status
	require.NoError(t, json.Unmarshal([]byte(body), &told))
	require.Len(t, told.Running, 1)
	assert.Equal(t, nasty, told.Running[0].Key)
	assert.Equal(t, 1, told.Running[0].Waiting)
	require.Len(t, told.Deferred, 1)
	assert.Equal(t, "failing", told.Deferred[0].Key)
	assert.EqualValues(t, 1, told.Deferred[0].Attempts)
	assert.Equal(t, "the <b>bank</b> does not answer", told.Deferred[0].Reason)
	assert.Greater(t, told.Deferred[0].Next, told.Now+1000*60*20)
	require.Len(t, told.Due, 1)
	assert.Equal(t, "later", told.Due[0].Key)
	deferred := 0
	for _, each := range told.Consumer.Partitions {
		deferred += each.Deferred
	}
	assert.Equal(t, 1, deferred)
}

// Who reads the JSON need not tell a list without entries from none.
func TestListsOfAnIdleClientAreEmpty(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0"})
	require.NoError(t, client.Subscribe(t.Context(), succeed))
	status, body := fetch(t, client, "/status", "")
	require.Equal(t, http.StatusOK, status)
	var told map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &told))
	for _, name := range []string{"running_keys", "waiting_keys", "deferred_keys", "timers_due", "stalled", "outages"} {
		assert.Equal(t, "[]", string(told[name]), name)
	}
}

func TestNoViewShowsAPayload(t *testing.T) {
	client, release := busy(t)
	defer release()
	for _, path := range []string{"/", "/status", "/metrics", "/livez", "/readyz"} {
		status, body := fetch(t, client, path, "application/json")
		require.Equal(t, http.StatusOK, status, path)
		assert.NotContains(t, body, hidden, path)
	}
	_, metrics := fetch(t, client, "/metrics", "")
	for _, key := range []string{nasty, "failing", "later"} {
		assert.NotContains(t, metrics, `"`+key+`"`)
	}
}

func TestThePageLoadsNothingAndHoldsNoFacts(t *testing.T) {
	client, release := busy(t)
	defer release()
	status, body := fetch(t, client, "/", "text/html")
	require.Equal(t, http.StatusOK, status)
	for _, word := range []string{"http://", "https://", "src=", "@import", "url(", "innerHTML", "bank", "onerror", "shop"} {
		assert.NotContains(t, body, word)
	}
	assert.NotContains(t, body, "/*SCRIPT*/")
	status, _ = fetch(t, client, "/nothing", "")
	assert.Equal(t, http.StatusNotFound, status)
}

func TestThePageIsOffUnlessWanted(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0", "status_page": "false"})
	require.NoError(t, client.Subscribe(t.Context(), succeed))
	for _, path := range []string{"/", "/status"} {
		status, _ := fetch(t, client, path, "")
		assert.Equal(t, http.StatusNotFound, status, path)
	}
}

func TestTheListsOfKeysAreBounded(t *testing.T) {
	client := open(t, map[string]string{"probe_port": "0", "defer_base": "1h", "defer_failure_threshold": "1"})
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
			if strings.HasPrefix(i.Event.Key, "bad") {
				return pipeline.Outcome{Class: pipeline.Transient, Text: strings.Repeat("x", 4000)}
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	for i := range 3 * shown {
		send(t, client, "good"+strings.Repeat("g", i), `{}`)
		send(t, client, "bad"+strings.Repeat("b", i), `{}`)
	}
	require.Eventually(t, func() bool { return client.Facts().Pipeline.Deferred == 3*shown }, 2*time.Minute, 5*time.Millisecond)
	s := client.Status()
	require.Len(t, s.Deferred, shown)
	require.LessOrEqual(t, len(s.Deferred[0].Reason), 310)
}
