// Package observe owns what operators see of a client: the facts that it tells of itself,
// and the server of the probe port.
package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"prosody/core/health"
)

// Health answers the questions of the probes.
type Health interface {
	// Joined tells whether the consumer is in its group, with or without partitions.
	Joined() bool
	// Partitions tells how many partitions it owns.
	Partitions() int
	// Stuck gives a reason for each thing that stands still; none is healthy.
	Stuck() []health.Reason
	// Outages gives a reason for each thing that waits for something outside.
	Outages() []health.Reason
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
	Page    http.Handler // at / and /status; nil: none
}

// answering bounds an answer: /metrics of thousands of partitions takes seconds on a busy machine.
const answering = 20 * time.Second

// Listen starts a probe server: on all interfaces when host is empty. Port 0 takes a free
// one.
func Listen(host string, port int, site Site, log *slog.Logger) (*Probe, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("probe_port %d: %w; set another port, or none", port, err)
	}
	probe := &Probe{
		server: &http.Server{
			Handler:           site.Handler(),
			ReadHeaderTimeout: 5 * time.Second,
			WriteTimeout:      answering,
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

// Handler answers the paths of the site.
func (s Site) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]http.Handler{
		"/readyz":  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ready(w, r, s.Health) }),
		"/livez":   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { live(w, r, s.Health) }),
		"/metrics": s.Metrics,
	} {
		if answer != nil {
			mux.Handle("GET "+path, answer)
			mux.Handle("GET "+path+"/{$}", answer)
		}
	}
	if s.Page != nil {
		mux.Handle("GET /{$}", s.Page)
		mux.Handle("GET /status", s.Page)
		mux.Handle("GET /status/{$}", s.Page)
	}
	return mux
}

// Readiness is the answer of /readyz as JSON.
type Readiness struct {
	Ready      bool   `json:"ready"`
	Partitions int    `json:"partitions"`
	Text       string `json:"text"`
}

// Liveness is the answer of /livez as JSON. Only what is stuck makes it red: a restart
// does not end an outage.
type Liveness struct {
	Live    bool            `json:"live"`
	Stuck   []health.Reason `json:"stuck"`
	Outages []health.Reason `json:"outages"`
}

// ready is green once the member is in the group. A standby without partitions is
// ready too: otherwise a roll-out with more members than partitions never ends.
func ready(w http.ResponseWriter, r *http.Request, of Health) {
	answer := Readiness{Ready: true, Partitions: of.Partitions()}
	switch {
	case answer.Partitions > 0:
		answer.Text = fmt.Sprintf("%d partitions assigned", answer.Partitions)
	case of.Joined():
		answer.Text = "no partitions assigned; standing by in the group"
	default:
		answer.Ready, answer.Text = false, "no partitions assigned"
	}
	write(w, r, answer.Ready, answer.Text, answer)
}

func live(w http.ResponseWriter, r *http.Request, of Health) {
	answer := Liveness{Stuck: of.Stuck(), Outages: of.Outages()}
	answer.Live = len(answer.Stuck) == 0
	text := "No stalled components."
	if !answer.Live {
		text = "Stalled:\n" + strings.Join(health.Texts(answer.Stuck), "\n")
	}
	if len(answer.Outages) > 0 {
		text += "\nBlocked by an outage:\n" + strings.Join(health.Texts(answer.Outages), "\n")
	}
	answer.Stuck, answer.Outages = append([]health.Reason{}, answer.Stuck...), append([]health.Reason{}, answer.Outages...)
	write(w, r, answer.Live, text, answer)
}

// write answers with text, or with JSON where that is asked for.
func write(w http.ResponseWriter, r *http.Request, well bool, text string, answer any) {
	kind, body := "text/plain; charset=utf-8", []byte(text+"\n")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		if data, err := json.Marshal(answer); err == nil {
			kind, body = "application/json", append(data, '\n')
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept")
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(body) // the asker is gone: nobody is left to tell
}
