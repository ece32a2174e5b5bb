package peer

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/store"
)

// DefaultBind is the address on which answers arrive.
const DefaultBind = ":9099"

// call bounds one call of the directory.
const call = 10 * time.Second

// Options say where a client can be reached, and how it reaches others.
type Options struct {
	Directory  store.Directory
	Receive    func(Answer) Verdict
	Bind       string        // IP address and port; empty: DefaultBind
	Advertised string        // URI for other networks; empty: none
	Network    string        // name; empty: none
	Capacity   int           // connections that are kept
	Lease      time.Duration // of the entry in the directory
	TLS        *TLS          // nil: plain
	Clock      clock.Clock
	Log        *slog.Logger
	Fault      func(err error) // hears of a panic; nil: nobody
}

// Endpoint is a client in the network. It listens once it has to be reached.
type Endpoint struct {
	options Options
	lines   int // connections that are taken at once
	id      ID
	secure  *secure // nil: plain
	dialer  *dialer
	life    context.Context
	cut     context.CancelFunc
	running sync.WaitGroup

	gate   sync.Mutex // held while it begins to listen or renews its lease
	server *server    // nil: it does not listen
	self   store.Peer
	until  atomic.Int64 // end of the lease, in Unix ns

	counts counts
}

type counts struct {
	misdirected, malformed, overload, renewals, lapses atomic.Int64
}

// New makes an endpoint, which does nothing yet. Its error is of kind fault.Config.
func New(options Options) (*Endpoint, error) {
	if options.Bind == "" {
		options.Bind = DefaultBind
	}
	e := &Endpoint{options: options, lines: maxConnections, id: ID(uuid.New())}
	if options.TLS != nil {
		made, err := options.TLS.load()
		if err != nil {
			return nil, err
		}
		e.secure = made
	}
	advertised, err := normal(options.Advertised)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	e.self = store.Peer{ID: e.id, Advertised: advertised, Network: options.Network, Host: host}
	e.dialer = newDialer(options.Capacity, e.secure)
	e.life, e.cut = context.WithCancel(context.Background())
	return e, nil
}

// ID names the client.
func (e *Endpoint) ID() ID { return e.id }

// Ready tells whether the client can be reached.
func (e *Endpoint) Ready() bool { return e.options.Clock.Now().UnixNano() < e.until.Load() }

// Reach makes the client reachable: it listens and is in the directory.
func (e *Endpoint) Reach(ctx context.Context) error {
	if e.Ready() {
		return nil
	}
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.Ready() {
		return nil
	}
	if e.life.Err() != nil {
		return closed()
	}
	if e.server == nil {
		if err := e.listen(); err != nil {
			return err
		}
	}
	return e.enroll(ctx)
}

// listen begins to listen and to keep the lease. The gate is held.
func (e *Endpoint) listen() error {
	listener, err := (&net.ListenConfig{}).Listen(e.life, "tcp", e.options.Bind)
	if err != nil {
		return fault.Wrap(fault.Config, err, fmt.Sprintf("peer_bind_address: %s cannot be listened on, so that no answer could arrive", e.options.Bind))
	}
	e.self.Direct = direct(listener.Addr())
	e.server = e.serve(listener)
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		e.keep()
	}()
	e.options.Log.Info("listening for answers", "address", listener.Addr().String(), "direct", e.self.Direct, "peer", e.id.String())
	return nil
}

// enroll writes the lease. The gate is held.
func (e *Endpoint) enroll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	begun := e.options.Clock.Now()
	if err := e.options.Directory.Enroll(ctx, e.self, e.options.Lease); err != nil {
		e.counts.lapses.Add(1)
		return err
	}
	e.counts.renewals.Add(1)
	e.until.Store(begun.Add(e.options.Lease).UnixNano())
	return nil
}

// keep renews the lease when a third of it is over, and more often while that fails.
func (e *Endpoint) keep() {
	wait := e.options.Lease / 3
	for clock.Sleep(e.life, e.options.Clock, wait) == nil {
		e.gate.Lock()
		if e.life.Err() != nil { // it has left the directory
			e.gate.Unlock()
			return
		}
		err := e.enroll(e.life)
		e.gate.Unlock()
		wait = e.options.Lease / 3
		if err != nil && e.life.Err() == nil {
			wait = min(wait, time.Second)
			e.options.Log.Warn("the lease in the directory was not renewed, trying again", "error", err)
		}
	}
}

// Deliver tries once to bring an answer to the client that asked. Its error is a *Failure.
func (e *Endpoint) Deliver(ctx context.Context, answer Answer) error {
	if size := len(answer.Payload); size > MaxPayload {
		return &Failure{TooLarge, tooLarge(size)}
	}
	if answer.Target == e.id {
		if e.options.Receive(answer) == Refused {
			return &Failure{Unwanted, "nobody waits for the answer"}
		}
		return nil
	}
	target, err := e.find(ctx, answer.Target)
	if err != nil {
		return err
	}
	failed := e.dialer.call(ctx, target, frame(answer))
	if failed != nil && failed.Kind != TooLarge {
		e.dialer.forget(answer.Target)
	}
	if failed != nil {
		return failed
	}
	return nil
}

// find gives the way to a client.
func (e *Endpoint) find(ctx context.Context, id ID) (route, error) {
	if known, ok := e.dialer.known(id, e.options.Clock.Now()); ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	row, there, err := e.options.Directory.Locate(ctx, id)
	if err != nil {
		return route{}, &Failure{Unreachable, "the directory does not answer: " + err.Error()}
	}
	if !there {
		return route{}, &Failure{Unreachable, "the client that asked is not in the directory"}
	}
	way, err := choose(row, e.options.Network, e.secure != nil)
	if err != nil {
		return route{}, &Failure{Unwanted, err.Error()}
	}
	e.dialer.learn(id, way, e.options.Clock.Now().Add(e.options.Lease))
	return way, nil
}

// Close takes the client out of the directory, stops to listen and closes connections.
func (e *Endpoint) Close(ctx context.Context) error {
	e.cut()
	err := e.leave(ctx)
	e.running.Wait()
	e.dialer.close()
	return err
}

// leave takes the client out of the directory and stops to listen.
func (e *Endpoint) leave(ctx context.Context) error {
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.server == nil {
		return nil
	}
	e.until.Store(0)
	err := e.options.Directory.Withdraw(ctx, e.id)
	e.server.close(ctx)
	e.server = nil
	return err
}

// Stats reads the counters.
func (e *Endpoint) Stats() Stats {
	return Stats{
		Reachable: e.Ready(), Connections: e.dialer.size(),
		Misdirected: e.counts.misdirected.Load(), Malformed: e.counts.malformed.Load(), Overload: e.counts.overload.Load(),
		Renewals: e.counts.renewals.Load(), Lapses: e.counts.lapses.Load(),
	}
}
