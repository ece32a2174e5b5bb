// Package observe owns what operators see of a client. So far: the probes.
package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Health answers the questions of the probes.
type Health interface {
	// Joined tells whether the consumer is in its group, with or without partitions.
	Joined() bool
	// Partitions tells how many partitions it owns.
	Partitions() int
	// Stalled gives a reason for each thing that stands still; none is healthy.
	Stalled() []string
}

// Probe serves /readyz and /livez while a consumer runs.
type Probe struct {
	server *http.Server
	port   int
	done   chan struct{}
}

// Listen starts a probe server on all interfaces; port 0 takes a free one.
func Listen(port int, health Health, log *slog.Logger) (*Probe, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, fmt.Errorf("probe_port %d: %w; set another port, or none", port, err)
	}
	probe := &Probe{
		server: &http.Server{
			Handler:           routes(health),
			ReadHeaderTimeout: 5 * time.Second,
			WriteTimeout:      5 * time.Second,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		port: listener.Addr().(*net.TCPAddr).Port,
		done: make(chan struct{}),
	}
	go func() {
		defer close(probe.done)
		if err := probe.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("probe server ended", "port", probe.port, "error", err)
		}
	}()
	return probe, nil
}

// Port tells the port that the server listens on.
func (p *Probe) Port() int { return p.port }

// Close stops the server. Requests that run get until the end of ctx.
func (p *Probe) Close(ctx context.Context) error {
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	<-p.done
	return err
}

func routes(health Health) http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]http.HandlerFunc{
		"/readyz": func(w http.ResponseWriter, _ *http.Request) { ready(w, health) },
		"/livez":  func(w http.ResponseWriter, _ *http.Request) { live(w, health) },
	} {
		mux.HandleFunc("GET "+path, answer)
		mux.HandleFunc("GET "+path+"/{$}", answer)
	}
	return mux
}

// ready is green once the member is in the group. A standby without partitions is
// ready too: otherwise a roll-out with more members than partitions never ends.
func ready(w http.ResponseWriter, health Health) {
	count := health.Partitions()
	switch {
	case count > 0:
		write(w, http.StatusOK, fmt.Sprintf("%d partitions assigned", count))
	case health.Joined():
		write(w, http.StatusOK, "no partitions assigned; standing by in the group")
	default:
		write(w, http.StatusServiceUnavailable, "no partitions assigned")
	}
}

func live(w http.ResponseWriter, health Health) {
	reasons := health.Stalled()
	if len(reasons) == 0 {
		write(w, http.StatusOK, "No stalled components.")
		return
	}
	write(w, http.StatusServiceUnavailable, "Stalled:\n"+strings.Join(reasons, "\n"))
}

func write(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the asker is gone: nobody is left to tell
}
