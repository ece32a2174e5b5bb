// Package observe owns what operators see of a client: the facts that it tells of itself,
// and the server of the probe port.
package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
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

// Site is what a probe server shows.
type Site struct {
	Health  Health
	Metrics http.Handler // at /metrics; nil: none
}

// Listen starts a probe server: on all interfaces when host is empty. Port 0 takes a free
// one.
func Listen(host string, port int, site Site, log *slog.Logger) (*Probe, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("probe_port %d: %w; set another port, or none", port, err)
	}
	probe := &Probe{
		server: &http.Server{
			Handler:           site.routes(),
			ReadHeaderTimeout: 5 * time.Second,
			WriteTimeout:      5 * time.Second,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		port: listener.Addr().(*net.TCPAddr).Port,
		done: make(chan struct{}),
	}
	log.Info("probe server listens", "port", probe.port)
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

func (s Site) routes() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]http.Handler{
		"/readyz":  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ready(w, s.Health) }),
		"/livez":   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { live(w, s.Health) }),
		"/metrics": s.Metrics,
	} {
		if answer != nil {
			mux.Handle("GET "+path, answer)
			mux.Handle("GET "+path+"/{$}", answer)
		}
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
