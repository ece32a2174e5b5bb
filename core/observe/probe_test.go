package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/health"
	"prosody/core/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type member struct {
	joined     bool
	partitions int
	stuck      []health.Reason
	outages    []health.Reason
}

func (h *member) Joined() bool             { return h.joined }
func (h *member) Partitions() int          { return h.partitions }
func (h *member) Stuck() []health.Reason   { return h.stuck }
func (h *member) Outages() []health.Reason { return h.outages }

func ask(t *testing.T, probe *Probe, method, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d%s", probe.Port(), path), nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func TestProbesFollowTheHealth(t *testing.T) {
	state := &member{}
	probe, err := Listen("127.0.0.1", 0, Site{Health: state}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { require.NoError(t, probe.Close(context.Background())) }()

	for _, step := range []struct {
		change func()
		path   string
		status int
		body   string
	}{
		{func() {}, "/readyz", 503, "no partitions assigned\n"},
		{func() { state.joined = true }, "/readyz", 200, "no partitions assigned; standing by in the group\n"},
		{func() { state.partitions = 3 }, "/readyz/", 200, "3 partitions assigned\n"},
		{func() {}, "/livez", 200, "No stalled components.\n"},
		{func() { state.outages = []health.Reason{health.Of(health.Broker, "no broker")} }, "/livez", 200,
			"No stalled components.\nBlocked by an outage:\nno broker\n"},
		{func() {
			state.stuck = []health.Reason{
				health.At(health.Handler, kafka.Partition{Topic: "orders", Index: 1}, "orders:1 waits"), health.Of(health.PollLoop, "silent"),
			}
		}, "/livez/", 503, "Stalled:\norders:1 waits\nsilent\nBlocked by an outage:\nno broker\n"},
		{func() {}, "/other", 404, "404 page not found\n"},
		{func() {}, "/readyz/more", 404, "404 page not found\n"},
	} {
		step.change()
		status, body := ask(t, probe, http.MethodGet, step.path)
		require.Equal(t, step.status, status, step.path)
		require.Equal(t, step.body, body, step.path)
	}
	status, _ := ask(t, probe, http.MethodPost, "/livez")
	require.Equal(t, http.StatusMethodNotAllowed, status)
}

func TestTakenPortNamesPortAndOption(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	// Connections of other programs, which come from 127.0.0.1, do not take the port.
	const host = "127.0.0.2"
	first, err := Listen(host, 0, Site{Health: &member{}}, log)
	require.NoError(t, err)
	_, err = Listen(host, first.Port(), Site{Health: &member{}}, log)
	require.ErrorContains(t, err, fmt.Sprintf("probe_port %d", first.Port()))
	require.NoError(t, first.Close(context.Background()))

	again, err := Listen(host, first.Port(), Site{Health: &member{}}, log)
	require.NoError(t, err, "the port is free after Close")
	require.NoError(t, again.Close(context.Background()))
}

func TestProbesAnswerWithJSONWhereItIsAskedFor(t *testing.T) {
	state := &member{joined: true, outages: []health.Reason{health.Of(health.Broker, "no broker")}}
	routes := Site{Health: state}.Handler()
	ask := func(path string) (int, string, string) {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Accept", "text/html, application/json;q=0.9")
		answer := httptest.NewRecorder()
		routes.ServeHTTP(answer, request)
		return answer.Code, answer.Header().Get("Content-Type"), answer.Body.String()
	}
	status, kind, body := ask("/readyz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "application/json", kind)
	require.JSONEq(t, `{"ready":true,"partitions":0,"text":"no partitions assigned; standing by in the group"}`, body)
	status, _, body = ask("/livez")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"live":true,"stuck":[],"outages":[{"part":"broker","text":"no broker"}]}`, body)
	state.stuck = []health.Reason{health.At(health.Partition, kafka.Partition{Topic: "orders"}, "stands still")}
	status, _, body = ask("/livez")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"live":false,"stuck":[{"part":"partition","topic":"orders","partition":0,"text":"stands still"}],
		"outages":[{"part":"broker","text":"no broker"}]}`, body)
}
