// Package client is the composition root: it builds a producer and a consumer from
// one configuration, and owns their life cycle.
//
// It upholds I8 for the calls of a host: each ends by a result, an error or its
// deadline, and Shutdown joins all that the client started.
package client

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/clock"
	"prosody/core/consumer"
	"prosody/core/fault"
	"prosody/core/kafka/memory"
	"prosody/core/observe"
	"prosody/core/observe/metric"
	"prosody/core/observe/topic"
	"prosody/core/peer"
	"prosody/core/pipeline"
	"prosody/core/pipeline/mode"
	"prosody/core/producer"
	"prosody/core/publish"
	"prosody/core/request"
	"prosody/core/respond"
	stores "prosody/core/store/memory"
)

// State is what a host may ask for.
type State int

// The states of a client.
const (
	Configured State = iota + 1
	Running
	ShutDown
)

// Deps are what a client shares with others in the process.
type Deps struct {
	Memory *memory.Registry // the embedded Kafka of mock mode
	Stores *stores.Registry // the stores of mock mode; nil: one of the client's own
	Peers  *peer.Exchange   // between clients in mock mode; nil: one of the client's own
	Log    *slog.Logger
	Tracer otel.Tracer // of the process; nil: no spans
	// Clock tells when timers and retries are due and what has lived its time; nil: the
	// real one. How long things take is measured in real time.
	Clock clock.Clock
	// Metrics, when set, reads the client's metrics as long as it lives.
	Metrics *metric.Registry
	// Fault, when set, hears of a fault of Prosody itself.
	Fault func(err error)
}

// phase is the life of a client in finer steps than State.
type phase int

const (
	idle phase = iota
	starting
	running
	stopping
	closing
	closed
)

// Client sends records and runs at most one consumer.
type Client struct {
	plan     *Plan
	deps     Deps
	producer *producer.Producer
	store    backend
	times    *timed // the store, timed
	readers  *publish.Readers
	link     link
	requests *request.Requester
	answers  *respond.Responder // nil: the client is no subsystem
	label    string
	records  *topic.Emitter            // nil: no telemetry records
	unseen   func(last *observe.Facts) // ends the metrics

	mutex   sync.Mutex
	phase   phase
	moved   chan struct{}      // closed when the phase changes
	run     *run               // nil: no consumer
	past    *observe.Facts     // of the last run, at its end
	before  *consumer.Consumer // a consumer whose handlers may still run; nil: none
	abandon context.CancelFunc // ends a start
}

// run is a consumer and what belongs to it.
type run struct {
	consumer *consumer.Consumer
	site     *site // nil: none
	chain    *mode.Chain
	keep     *keep
}

// closeBudget bounds what is not handlers at the end: what is on its way to the
// broker, and the probe server.
const closeBudget = 5 * time.Second

// New makes a client of a plan.
func New(plan *Plan, deps Deps) (*Client, error) {
	if deps.Clock == nil {
		deps.Clock = clock.Real{}
	}
	if deps.Stores == nil {
		deps.Stores = stores.NewRegistry(stores.Settings{Clock: deps.Clock})
	}
	if deps.Peers == nil {
		deps.Peers = peer.NewExchange()
	}
	for _, note := range plan.config.Notes {
		deps.Log.Warn(note)
	}
	records, err := telemetry(plan, deps)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "failed to initialize telemetry")
	}
	made, err := producer.New(producer.Options{
		Cluster:     plan.cluster(deps.Memory),
		Servers:     plan.config.BootstrapServers,
		Properties:  plan.config.Kafka,
		Source:      plan.config.SourceSystem,
		SendTimeout: plan.config.SendTimeout,
		Cache:       plan.config.IdempotenceCacheSize,
		Clock:       clock.Real{},
		Dates:       deps.Clock,
		Tracer:      plan.tracer(deps.Tracer),
		Sent:        sent(records, plan.config.SourceSystem),
		Log:         deps.Log.With("target", "prosody.producer"),
	})
	if err != nil {
		records.Close(expired)
		return nil, fault.Wrap(fault.Config, err, "failed to initialize producer")
	}
	opened, err := connect(plan, deps)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
		defer cancel()
		err = errors.Join(err, made.Close(ctx))
		records.Close(ctx)
		return nil, err
	}
	times := &timed{backend: opened}
	readers := publish.New(publish.Options{
		Store: times, Catalog: times, Window: plan.config.StateReadCache, Bytes: plan.config.StateReadCacheSize, Clock: deps.Clock,
	})
	c := &Client{
		plan: plan, deps: deps, producer: made, store: times, times: times, readers: readers, label: label(), records: records, moved: make(chan struct{}),
		unseen: func(*observe.Facts) {},
	}
	if err := c.converse(opened); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
		defer cancel()
		return nil, errors.Join(err, made.Close(ctx), opened.Close())
	}
	if deps.Metrics != nil {
		c.unseen = deps.Metrics.Add(c.Facts)
	}
	return c, nil
}

// Source is the source system that the client's records carry.
func (c *Client) Source() string { return c.plan.config.SourceSystem }

// State tells what the client can do now, or why it can never consume.
func (c *Client) State() (State, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch c.phase {
	case closing, closed:
		return ShutDown, nil
	case running, stopping:
		return Running, nil
	}
	return Configured, c.plan.consuming()
}

// Send sends a record; done gets the result. An error means that nothing was sent
// and done is not called.
func (c *Client) Send(record producer.Outgoing, done func(producer.Sent)) error {
	c.mutex.Lock()
	over := c.phase >= closing
	c.mutex.Unlock()
	if over {
		return errClosed()
	}
	return c.producer.Send(record, done)
}

// Partitions tells how many partitions the client owns.
func (c *Client) Partitions() int {
	if running := c.current(); running != nil {
		return running.consumer.Partitions()
	}
	return 0
}

// Joined tells whether the client is a member of its group.
func (c *Client) Joined() bool {
	running := c.current()
	return running != nil && running.consumer.Joined()
}

func (c *Client) current() *run {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.run
}

// move changes the phase and wakes those that wait for it. The mutex is held.
func (c *Client) move(to phase) {
	c.phase = to
	close(c.moved)
	c.moved = make(chan struct{})
}

// settle waits until the client is not in one of the given phases. It returns with
// the mutex held, unless ctx ends first.
func (c *Client) settle(ctx context.Context, phases ...phase) error {
	for {
		c.mutex.Lock()
		busy := false
		for _, one := range phases {
			busy = busy || c.phase == one
		}
		if !busy {
			return nil
		}
		moved := c.moved
		c.mutex.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return fault.Wrap(fault.Timeout, ctx.Err(), "the client is busy")
		}
	}
}

func errClosed() error { return fault.New(fault.Closed, "client is shut down") }

// Host is the innermost handler of a client: the one that a user gives.
type Host = pipeline.Handler
