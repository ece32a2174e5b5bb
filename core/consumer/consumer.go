// Package consumer owns one member of a consumer group at work: the poll loop, the
// goroutines that handle events, the commits, and the way out. What may run and what
// may be committed is decided by core/partition; this package does it.
//
// One goroutine polls and never waits for a handler. One goroutine commits, and only
// it gives partitions up: after their last position is committed. Handlers run on
// goroutines that go on to the next event by themselves. Stop joins them all, but for
// handlers that do not end: those it reports.
//
// Periods and budgets run on the machine's time: a clock that stands still must not
// hold up a commit or the way out.
package consumer

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/partition"
	"prosody/core/pipeline"
	"prosody/core/timer"
)

// Options say what to consume and what to do with it.
type Options struct {
	Cluster       kafka.Cluster
	Servers       []string
	Group         string
	Topics        []string // one that starts with ^ is a regular expression
	Properties    map[string]string
	AllowedEvents []string // prefixes; empty: all

	MaxUncommitted  int           // 0: 64
	CommitInterval  time.Duration // 0: 1 s
	PollInterval    time.Duration // 0: 100 ms
	ShutdownTimeout time.Duration // 0: handlers are given up at once
	StallThreshold  time.Duration // 0: 5 min

	Clock   clock.Clock
	Log     *slog.Logger
	Handler pipeline.Handler
	// Decode makes an event of a record, or says why it is none.
	Decode func(record *kafka.Record, now time.Time) (*event.Event, *event.Invalid)
	// Invalid deals with a record that is no event, and returns nil when it is durably
	// dealt with. It is called again after an error. nil: the record is skipped.
	Invalid func(ctx context.Context, record *kafka.Record, reason string) error
	// Ledger keeps what is durable about keys; nil: nothing is.
	Ledger Ledger
	// Timers hand out what is due, for leases of Ledger; nil: nothing is.
	Timers *timer.Timers
	// Fault, when set, hears of a fault of Prosody itself.
	Fault func(err error)
	// Before is the member that this one follows in the process; nil: none. Keys whose
	// handlers it could not stop wait for them.
	Before *Consumer
}

// Ledger keeps what is durable about the keys of assigned partitions. Only Flush may
// block.
type Ledger interface {
	// Assign begins an assignment, whose handlers are to stop when leaving ends. What it
	// gives is the Lease of each invocation.
	Assign(name kafka.Partition, leaving context.Context) (lease any)
	// Flush makes durable what is noted so far. The positions of partitions in which
	// that failed are not committed.
	Flush(ctx context.Context, names []kafka.Partition) (failed []kafka.Partition, err error)
	// Fence makes the handlers that still run count no more.
	Fence(lease any)
	// End is after the last commit, or when the partition is lost.
	End(lease any)
	// Hold says whether the group may not know this member any more.
	Hold(held bool)
}

const (
	commitTimeout = 5 * time.Second // of one commit
	grace         = time.Second     // for the last commit, beyond the shutdown budget
	closing       = 3 * time.Second // for the goroutines and the client to end
	verifying     = 10 * time.Second
	settling      = 3 * time.Second // for new topics to be known to all brokers
	parked        = 64              // goroutines that are kept without work
)

// Consumer is a member of a group.
type Consumer struct {
	options Options
	kafka   kafka.Consumer
	log     *slog.Logger

	mutex    sync.Mutex // guards set, leases, and what follows
	set      *partition.Set
	leases   map[kafka.Partition]*lease
	workers  int
	stopping bool
	broken   string    // why it cannot go on
	held     time.Time // since when the group does not know this member; zero: it does
	doubt    time.Time // the hold ends then, if the group has said nothing; zero: it does not
	silence  time.Duration
	bars     map[partition.Gated]partition.Token // of handlers of Before; nil: none
	heir     *Consumer                           // hears of the ends of handlers; nil: nobody

	polled   atomic.Int64 // when Poll came back, in Unix nanoseconds
	idle     atomic.Int32
	work     chan partition.Start
	wake     chan struct{} // for the committer: something has drained
	exited   chan struct{} // a worker has
	released chan struct{} // closed: nothing is held any more
	quit     chan struct{} // closed: everybody ends
	loops    sync.WaitGroup

	once sync.Once
	done chan struct{} // closed: stopped
	err  error
}

// lease is one assignment as its handlers see it.
type lease struct {
	name   kafka.Partition
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   chan struct{} // closed: the ends of its events count no more
	mark   any           // what the ledger made of it
	timers []*time.Timer
	final  time.Time // the last commit has to be done by then; zero: not leaving
	fenced bool      // over is closed
}

// fence makes the ends of its events count no more; under the mutex.
func (l *lease) fence() {
	if !l.fenced {
		l.fenced = true
		close(l.over)
	}
}

// Start joins the group. It fails when a topic that is no regular expression does not
// exist.
func Start(ctx context.Context, options Options) (*Consumer, error) {
	if options.Group == "" {
		return nil, fault.New(fault.Config, "group_id is not set")
	}
	if len(options.Topics) == 0 {
		return nil, fault.New(fault.Config, "subscribed_topics is empty: nothing to subscribe to")
	}
	period(&options.CommitInterval, time.Second)
	period(&options.PollInterval, 100*time.Millisecond)
	period(&options.StallThreshold, 5*time.Minute)
	c := &Consumer{
		options: options,
		log:     options.Log,
		set: partition.New(partition.Config{
			Group: options.Group, Allowed: options.AllowedEvents, Uncommitted: options.MaxUncommitted,
		}),
		silence:  millis(options.Properties, "session.timeout.ms", 45*time.Second) / 2,
		leases:   map[kafka.Partition]*lease{},
		work:     make(chan partition.Start),
		wake:     make(chan struct{}, 1),
		exited:   make(chan struct{}, 1),
		released: make(chan struct{}),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	var err error
	c.kafka, err = options.Cluster.Consumer(kafka.ConsumerConfig{
		Servers: options.Servers, Group: options.Group, Properties: options.Properties, OnLog: c.library,
	})
	if err != nil {
		return nil, err
	}
	// The embedded cluster makes topics at Subscribe; a real one does not.
	if err = c.kafka.Subscribe(options.Topics); err == nil {
		err = c.verify(ctx)
	}
	if err != nil {
		if failed := c.kafka.Close(); failed != nil {
			c.log.Warn("consumer did not close", "error", failed)
		}
		return nil, err
	}
	c.polled.Store(time.Now().UnixNano())
	c.inherit(options.Before)
	if options.Timers != nil {
		options.Timers.Start(c.fire)
	}
	c.launch("poll loop", c.poll)
	c.launch("committer", c.commits)
	return c, nil
}

func period(value *time.Duration, otherwise time.Duration) {
	if *value <= 0 {
		*value = otherwise
	}
}

// verify looks for the topics that were named.
func (c *Consumer) verify(ctx context.Context) error {
	var named []string
	for _, topic := range c.options.Topics {
		if !strings.HasPrefix(topic, "^") && !slices.Contains(named, topic) {
			named = append(named, topic)
		}
	}
	if len(named) == 0 {
		return ctx.Err()
	}
	admin, err := c.options.Cluster.Admin(c.options.Servers, c.options.Properties)
	if err != nil {
		return err
	}
	defer func() {
		if err := admin.Close(); err != nil {
			c.log.Warn("admin client did not close", "error", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, verifying)
	defer cancel()
	for patience := time.Now().Add(settling); ; {
		topics, err := admin.Topics(ctx)
		if err != nil {
			return fault.Wrap(fault.Kafka, err, "list topics")
		}
		missing := slices.DeleteFunc(slices.Clone(named), func(name string) bool {
			_, exists := topics[name]
			return exists
		})
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(patience) {
			return fault.New(fault.Config, "topics not found: %s", strings.Join(missing, ", "))
		}
		if err := clock.Sleep(ctx, clock.Real{}, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// launch runs a loop that Stop joins. A panic breaks the consumer, which says so.
func (c *Consumer) launch(name string, loop func()) {
	c.loops.Add(1)
	go func() {
		defer c.loops.Done()
		defer func() {
			if thrown := recover(); thrown != nil {
				c.panicked(name, thrown)
			}
		}()
		loop()
	}()
}

// locked runs f under the mutex, which a panic does not keep.
func (c *Consumer) locked(f func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f()
}

func poke(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// library passes on a line of the client library's log; syslog levels.
func (c *Consumer) library(level int, text string) {
	severity := slog.LevelDebug
	switch {
	case level <= 3:
		severity = slog.LevelError
	case level == 4:
		severity = slog.LevelWarn
	case level <= 6:
		severity = slog.LevelInfo
	}
	c.log.Log(context.Background(), severity, text)
}

func fields(name kafka.Partition, more ...any) []any {
	return append([]any{slog.String("topic", name.Topic), slog.Int("partition", int(name.Index))}, more...)
}
