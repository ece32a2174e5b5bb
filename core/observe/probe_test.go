package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

type health struct {
	joined     bool
	partitions int
	stalled    []string
}

func (h *health) Joined() bool      { return h.joined }
func (h *health) Partitions() int   { return h.partitions }
func (h *health) Stalled() []string { return h.stalled }

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
	defer goleak.VerifyNone(t)
	state := &health{}
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
		{func() { state.stalled = []string{"orders:1 waits", "orders:2 waits"} }, "/livez/", 503, "Stalled:\norders:1 waits\norders:2 waits\n"},
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
	defer goleak.VerifyNone(t)
	log := slog.New(slog.DiscardHandler)
	first, err := Listen("127.0.0.1", 0, Site{Health: &health{}}, log)
	require.NoError(t, err)
	_, err = Listen("127.0.0.1", first.Port(), Site{Health: &health{}}, log)
	require.ErrorContains(t, err, fmt.Sprintf("probe_port %d", first.Port()))
	require.NoError(t, first.Close(context.Background()))

	again, err := Listen("127.0.0.1", first.Port(), Site{Health: &health{}}, log)
	require.NoError(t, err, "the port is free after Close")
	require.NoError(t, again.Close(context.Background()))
}
