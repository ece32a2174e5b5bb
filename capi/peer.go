package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"prosody/capi/internal/lines"
	"prosody/capi/internal/queue"
	"prosody/capi/internal/record"
	"prosody/core/client"
	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/mock"
	"prosody/core/observe/export"
	"prosody/core/producer"
)

// peer is a client as the host sees it: there from the call that makes it, while the
// core's client comes later or never.
type peer struct {
	plan     *client.Plan
	life     context.Context
	sink     atomic.Pointer[queue.Queue] // of log lines; nil is standard error
	log      atomic.Pointer[slog.Logger]
	exported *export.Export

	asked asked       // requests that wait
	world *mock.World // nil: not in mock mode

	ready  chan struct{}  // closed when the two below are set
	core   *client.Client // nil when it could not be made
	failed error

	mutex   sync.Mutex
	settled bool          // no call waits any more
	waiting []func(error) // calls until then, in order
}

func newPeer(plan *client.Plan, sink *queue.Queue) *peer {
	p := &peer{plan: plan, life: context.Background(), ready: make(chan struct{})}
	p.sink.Store(sink)
	library.mutex.Lock()
	library.clients[p] = struct{}{}
	library.mutex.Unlock()
	return p
}

// observe makes the client part of what the process exports, and makes its logger.
func (p *peer) observe(variables config.Map) {
	var wrong error
	p.exported = library.observe(variables, func(err error) { wrong = err })
	log := p.logger(p.exported)
	p.log.Store(log)
	if wrong != nil {
		log.Error("telemetry is not set up as wanted", "target", "prosody.telemetry", "error", wrong)
	}
}

// build makes the core's client, tells what came of it and runs what waited for it.
func (p *peer) build(tell func(error)) {
	deps := client.Deps{
		Memory: library.mocks.Brokers, Peers: library.peers, Metrics: library.metrics, Log: p.log.Load(),
		Tracer: p.exported.Tracer(),
		Fault:  func(err error) { library.poison("the consumer", err) },
	}
	if servers, mock := p.plan.Mock(); mock {
		p.world = library.mocks.World(servers)
		deps.Stores, deps.Clock = p.world.Stores, p.world.Clock
	}
	core, err := client.New(p.plan, deps)
	if err == nil {
		p.core = core
		if p.world != nil {
			p.world.Join(core)
		}
	} else {
		p.failed = fault.Wrap(fault.Closed, err, "client is shut down")
		p.forget()
	}
	close(p.ready)
	tell(err)
	for {
		p.mutex.Lock()
		calls := p.waiting
		p.waiting = nil
		p.settled = len(calls) == 0
		p.mutex.Unlock()
		if len(calls) == 0 {
			return
		}
		for _, call := range calls {
			call(p.failed)
		}
	}
}

// made tells whether build is over.
func (p *peer) made() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// after runs a call now, or when build is over, in the order of the calls.
func (p *peer) after(call func(error)) {
	p.mutex.Lock()
	if !p.settled {
		p.waiting = append(p.waiting, call)
		p.mutex.Unlock()
		return
	}
	p.mutex.Unlock()
	call(p.failed)
}

// later runs a call that waits in a goroutine of its own.
func (p *peer) later(name string, call func(error)) {
	p.after(func(err error) { library.spawn(name, func() { call(err) }) })
}

// send sends a record, whose bytes belong to the host.
func (p *peer) send(out producer.Outgoing, done func(producer.Sent)) error {
	p.mutex.Lock()
	if p.settled {
		p.mutex.Unlock()
		if p.core == nil {
			return p.failed
		}
		return p.core.Send(out, done)
	}
	defer p.mutex.Unlock()
	out = out.Owned()
	p.waiting = append(p.waiting, func(err error) {
		if err == nil {
			err = p.core.Send(out, done)
		}
		if err != nil {
			done(producer.Sent{Partition: -1, Offset: -1, Err: asFault(err)})
		}
	})
	return nil
}

// shutdown closes the client; all calls wait for the same end.
func (p *peer) shutdown(ctx context.Context) error {
	<-p.ready
	if p.core == nil {
		return nil
	}
	err := p.core.Shutdown(ctx)
	p.forget()
	return err
}

func (p *peer) forget() {
	if p.world != nil && p.core != nil {
		p.world.Leave(p.core)
	}
	library.mutex.Lock()
	delete(library.clients, p)
	library.mutex.Unlock()
}

// print sends a line of the log on its way.
func (p *peer) print(line *record.Log) {
	if q := p.sink.Load(); q != nil {
		q.Log(line)
		return
	}
	fmt.Fprintf(os.Stderr, "%s %s %s: %s %s\n", time.Unix(0, line.Time).UTC().Format(time.RFC3339Nano),
		lines.Name(line.Level), line.Target, line.Text, line.Fields)
}

func asFault(err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	return fault.Wrap(fault.Internal, err, "send")
}
