package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/consumer"
	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/kafka/memory"
	"prosody/core/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	group = "group"
	topic = "orders"
)

// bench is a broker with one topic.
type bench struct {
	testing.TB
	broker   *memory.Broker
	producer kafka.Producer
}

func newBench(t testing.TB, partitions int) *bench {
	t.Helper()
	b := &bench{TB: t}
	b.broker = memory.NewRegistry(memory.Settings{Retention: 1 << 30}).Broker("test")
	admin, err := b.broker.Admin(nil, nil)
	require.NoError(t, err)
	require.NoError(t, admin.Create(t.Context(), kafka.Topic{Name: topic, Partitions: partitions}))
	require.NoError(t, admin.Close())
	b.producer, err = b.broker.Producer(kafka.ProducerConfig{})
	require.NoError(t, err)
	return b
}

func (b *bench) send(key, value string) {
	b.Helper()
	record := &kafka.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Timestamp: 1}
	require.NoError(b, b.producer.Produce(record, func(d kafka.Delivery) {
		if d.Err != nil {
			panic(d.Err)
		}
	}))
}

// committed sums the group's offsets.
func (b *bench) committed(partitions int) (sum int64) {
	for i := range partitions {
		offset, _ := b.broker.Committed(group, at(i))
		sum += offset
	}
	return sum
}

func at(index int) kafka.Partition { return kafka.Partition{Topic: topic, Index: int32(index)} }

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (b *bench) options(handler pipeline.Func) consumer.Options {
	return consumer.Options{
		Cluster: b.broker, Group: group, Topics: []string{topic},
		ShutdownTimeout: 10 * time.Second, Clock: clock.Real{}, Log: silent(),
		Handler: handler, Decode: event.Decode,
	}
}

func (b *bench) start(options consumer.Options) *consumer.Consumer {
	b.Helper()
	c, err := consumer.Start(context.Background(), options)
	require.NoError(b, err)
	return c
}

func (b *bench) stop(c *consumer.Consumer) {
	b.Helper()
	require.NoError(b, c.Stop(context.Background()))
}

// eventually waits in steps that are short in real time and nothing in a bubble.
func (b *bench) eventually(condition func() bool, what string, arguments ...any) {
	b.Helper()
	for end := time.Now().Add(3 * time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("never: "+what, arguments...)
		}
	}
}

func succeed(context.Context, *pipeline.Invocation) pipeline.Outcome {
	return pipeline.Outcome{Class: pipeline.Success}
}

// ledger notes what handlers did, over all members.
type ledger struct {
	mutex   sync.Mutex
	running map[string]bool
	seen    map[string][]string // by key: payloads in order of their starts
	faults  []string
	count   int
}

func newLedger() *ledger { return &ledger{running: map[string]bool{}, seen: map[string][]string{}} }

func (l *ledger) begin(e *event.Event) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.running[e.Key] {
		l.faults = append(l.faults, fmt.Sprintf("%s: two at once at offset %d", e.Key, e.Offset))
	}
	l.running[e.Key] = true
	l.seen[e.Key] = append(l.seen[e.Key], string(e.Payload))
}

func (l *ledger) end(e *event.Event) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.running, e.Key)
	l.count++
}

func (l *ledger) ended() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.count
}

func (l *ledger) of(key string) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]string(nil), l.seen[key]...)
}

// script is a cluster whose only consumer does what the test tells.
type script struct {
	mutex   sync.Mutex
	events  chan kafka.Events
	calls   []string
	end     int64
	topics  map[string]int
	polls   int
	panics  bool
	failing error
	block   chan struct{} // Commit waits for it
	spins   error         // Poll returns it at once
	stall   time.Duration // that the next Poll takes
}

func newScript() *script {
	return &script{events: make(chan kafka.Events, 100), topics: map[string]int{topic: 1}}
}

func (s *script) note(format string, arguments ...any) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, arguments...))
	return s.failing
}

func (s *script) noted() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.calls...)
}

func (s *script) polled() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.polls
}

func (s *script) set(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change()
}

func (s *script) Consumer(kafka.ConsumerConfig) (kafka.Consumer, error) { return s, nil }
func (s *script) Producer(kafka.ProducerConfig) (kafka.Producer, error) {
	return nil, errors.New("none")
}
func (s *script) Reader(kafka.ReaderConfig) (kafka.Reader, error) {
	return nil, errors.New("none")
}
func (s *script) Admin([]string, map[string]string) (kafka.Admin, error) { return scriptAdmin{s}, nil }

type scriptAdmin struct{ *script }

func (scriptAdmin) Create(context.Context, kafka.Topic) error { return nil }
func (scriptAdmin) Delete(context.Context, string) error      { return nil }
func (scriptAdmin) Close() error                              { return nil }
func (a scriptAdmin) Topics(context.Context) (map[string]int, error) {
	return a.topics, nil
}

func (s *script) Subscribe([]string) error { return nil }
func (s *script) Joined() bool             { return true }
func (s *script) Count(string) (int, bool) { return 1, true }
func (s *script) Close() error             { _ = s.note("close"); return nil }
func (s *script) Poll(wait time.Duration, _ int) kafka.Events {
	s.mutex.Lock()
	s.polls++
	panics, spins, stall := s.panics, s.spins, s.stall
	s.stall = 0
	s.mutex.Unlock()
	time.Sleep(stall)
	if panics {
		panic("injected")
	}
	if spins != nil {
		return kafka.Events{Errors: []error{spins}}
	}
	select {
	case events := <-s.events:
		return events
	case <-time.After(wait):
		return kafka.Events{}
	}
}
func (s *script) Pause(p []kafka.Partition) error  { return s.note("pause %v", p) }
func (s *script) Resume(p []kafka.Partition) error { return s.note("resume %v", p) }
func (s *script) Release(p []kafka.Partition) error {
	return s.note("release %v", p)
}
func (s *script) Commit(_ context.Context, p []kafka.Position) error {
	s.mutex.Lock()
	block := s.block
	s.mutex.Unlock()
	if block != nil {
		<-block
	}
	return s.note("commit %v", p)
}
func (s *script) End(kafka.Partition) (int64, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.end, true
}

func (s *script) options(handler pipeline.Func) consumer.Options {
	return consumer.Options{
		Cluster: s, Group: group, Topics: []string{topic},
		ShutdownTimeout: 10 * time.Second, Clock: clock.Real{}, Log: silent(),
		Handler: handler, Decode: event.Decode,
	}
}

func records(index int, from, to int64) (list []*kafka.Record) {
	for offset := from; offset < to; offset++ {
		list = append(list, &kafka.Record{
			Topic: topic, Partition: int32(index), Offset: offset, Key: fmt.Append(nil, "k", offset), Value: []byte("1"),
		})
	}
	return list
}
