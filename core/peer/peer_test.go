package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/peer/wire"
	"prosody/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// directory is one in memory, whose rows end with their time.
type directory struct {
	mutex   sync.Mutex
	rows    map[[16]byte]store.Peer
	until   map[[16]byte]time.Time
	enrolls int
	down    error
}

func (d *directory) Enroll(_ context.Context, p store.Peer, ttl time.Duration) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.enrolls++
	if d.down != nil {
		return d.down
	}
	d.rows[p.ID], d.until[p.ID] = p, time.Now().Add(ttl)
	return nil
}

func (d *directory) Withdraw(_ context.Context, id [16]byte) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.rows, id)
	return nil
}

func (d *directory) Locate(_ context.Context, id [16]byte) (store.Peer, bool, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	row, there := d.rows[id]
	return row, there && time.Now().Before(d.until[id]), d.down
}

func newDirectory() *directory {
	return &directory{rows: map[[16]byte]store.Peer{}, until: map[[16]byte]time.Time{}}
}

// member is an endpoint and what it got.
type member struct {
	*Endpoint
	mutex   sync.Mutex
	answers []Answer
	verdict Verdict
}

func (m *member) receive(answer Answer) Verdict {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.answers = append(m.answers, answer)
	return m.verdict
}

func (m *member) got() []Answer {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.answers
}

// apart is for listeners that come back on their port: no connection of another program
// takes it in between, for those come from 127.0.0.1.
const apart = "127.0.0.2:0"

func open(t *testing.T, d *directory, change func(*Options)) *member {
	t.Helper()
	m := &member{verdict: Accepted}
	options := Options{
		Directory: d, Receive: m.receive, Bind: "127.0.0.1:0", Capacity: 4, Lease: time.Minute, Clock: clock.Real{},
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&options)
	}
	made, err := New(options)
	require.NoError(t, err)
	m.Endpoint = made
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, made.Close(ctx))
	})
	return m
}

func to(m *member) Answer {
	return Answer{Target: m.ID(), Request: [16]byte{1, 2}, Subsystem: "billing", Format: JSON, Payload: []byte(`{"a":1}`)}
}

func kind(t *testing.T, err error) FailureKind {
	t.Helper()
	var failed *Failure
	require.ErrorAs(t, err, &failed)
	return failed.Kind
}

func TestAnAnswerArrives(t *testing.T) {
	d := newDirectory()
	asks, answers := open(t, d, nil), open(t, d, nil)
	assert.False(t, asks.Ready())
	assert.Equal(t, Unreachable, kind(t, answers.Deliver(t.Context(), to(asks))), "nobody has registered")
	require.NoError(t, asks.Reach(t.Context()))
	assert.True(t, asks.Ready())
	good := to(asks)
	bad := Answer{Target: asks.ID(), Request: [16]byte{3}, Subsystem: "x", Error: &Error{Category: Permanent, Text: "no"}}
	require.NoError(t, answers.Deliver(t.Context(), good))
	require.NoError(t, answers.Deliver(t.Context(), bad))
	assert.Equal(t, []Answer{good, bad}, asks.got())
	assert.Equal(t, 1, answers.Stats().Connections)
	assert.Zero(t, answers.Stats().Renewals, "who only answers does not listen")
	asks.mutex.Lock()
	asks.verdict = Refused
	asks.mutex.Unlock()
	assert.Equal(t, Unwanted, kind(t, answers.Deliver(t.Context(), good)))
	own := to(answers)
	require.NoError(t, answers.Deliver(t.Context(), own), "one's own answers need no socket")
	assert.Equal(t, []Answer{own}, answers.got())
}

func TestALeaseEndsAndIsRenewed(t *testing.T) {
	d := newDirectory()
	m := open(t, d, func(o *Options) { o.Lease = 300 * time.Millisecond })
	require.NoError(t, m.Reach(t.Context()))
	require.Eventually(t, func() bool { return m.Stats().Renewals > 3 }, 2*time.Minute, 5*time.Millisecond)
	d.mutex.Lock()
	d.down = fault.New(fault.Store, "down")
	d.mutex.Unlock()
	require.Eventually(t, func() bool { return !m.Ready() && m.Stats().Lapses > 0 }, 2*time.Minute, 5*time.Millisecond)
	require.ErrorContains(t, m.Reach(t.Context()), "down")
	d.mutex.Lock()
	d.down = nil
	d.mutex.Unlock()
	require.NoError(t, m.Reach(t.Context()))
	require.NoError(t, m.Close(t.Context()))
	assert.Empty(t, d.rows, "a client that ends leaves the directory")
	assert.Equal(t, fault.Closed, fault.Of(m.Reach(t.Context())))
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	d := newDirectory()
	taken, err := net.Listen("tcp", apart)
	require.NoError(t, err)
	m := open(t, d, func(o *Options) { o.Bind = taken.Addr().String() })
	err = m.Reach(t.Context())
	require.ErrorContains(t, err, "peer_bind_address")
	require.ErrorContains(t, err, taken.Addr().String())
	assert.Equal(t, fault.Config, fault.Of(err))
	assert.Empty(t, d.rows)
	require.NoError(t, taken.Close())
	require.NoError(t, m.Reach(t.Context()), "once the port is free, it listens")
}

// A client that comes back on the port of another gets the answers to itself only.
func TestAnotherClientOnTheSamePort(t *testing.T) {
	d := newDirectory()
	first, answers := open(t, d, func(o *Options) { o.Bind = apart }), open(t, d, nil)
	require.NoError(t, first.Reach(t.Context()))
	require.NoError(t, answers.Deliver(t.Context(), to(first)))
	address := first.self.Direct
	for range 100 {
		require.NoError(t, first.Close(t.Context()))
		first = open(t, d, func(o *Options) { o.Bind = address })
		require.NoError(t, first.Reach(t.Context()))
	}
	stale := to(first)
	stale.Target = ID{9}
	require.NoError(t, d.Enroll(t.Context(), store.Peer{ID: stale.Target, Direct: address}, time.Hour))
	require.Eventually(t, func() bool { return answers.Deliver(t.Context(), to(first)) == nil }, 2*time.Minute, 10*time.Millisecond)
	assert.Equal(t, Unreachable, kind(t, answers.Deliver(t.Context(), stale)))
	assert.EqualValues(t, 1, first.Stats().Misdirected)
	for _, answer := range first.got() {
		assert.Equal(t, first.ID(), answer.Target)
	}
}

func TestFramesThatAreNoAnswerAreRefused(t *testing.T) {
	m := open(t, newDirectory(), nil)
	client := raw(t, m)
	id, other := m.ID(), ID{5}
	whole := frame(to(m))
	for name, c := range map[string]struct {
		frame *wire.DeliverResultRequest
		code  codes.Code
	}{
		"empty":         {&wire.DeliverResultRequest{}, codes.InvalidArgument},
		"short target":  {&wire.DeliverResultRequest{TargetPeer: id[:15], RequestId: whole.RequestId, Result: whole.Result}, codes.InvalidArgument},
		"long request":  {&wire.DeliverResultRequest{TargetPeer: id[:], RequestId: make([]byte, 17), Result: whole.Result}, codes.InvalidArgument},
		"relay":         {&wire.DeliverResultRequest{TargetPeer: id[:], RequestId: whole.RequestId, RelayPeer: []byte("x"), Result: whole.Result}, codes.InvalidArgument},
		"no result":     {&wire.DeliverResultRequest{TargetPeer: id[:], RequestId: whole.RequestId}, codes.InvalidArgument},
		"another peer":  {&wire.DeliverResultRequest{TargetPeer: other[:], RequestId: whole.RequestId, Result: whole.Result}, codes.NotFound},
		"over the size": {frame(Answer{Target: id, Format: JSON, Payload: make([]byte, MaxFrame)}), codes.ResourceExhausted},
	} {
		_, err := client.DeliverResult(t.Context(), c.frame)
		assert.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
	}
	assert.EqualValues(t, 5, m.Stats().Malformed)
	assert.EqualValues(t, 1, m.Stats().Misdirected)
	assert.Empty(t, m.got())
	_, err := client.DeliverResult(t.Context(), frame(Answer{Target: id, Format: JSON, Payload: make([]byte, MaxPayload)}))
	require.NoError(t, err)
}

func TestAPanicIsAFaultOfTheClient(t *testing.T) {
	faults := make(chan error, 1)
	m := open(t, newDirectory(), func(o *Options) { o.Fault = func(err error) { faults <- err } })
	m.options.Receive = func(Answer) Verdict { panic("boom") }
	_, err := raw(t, m).DeliverResult(t.Context(), frame(to(m)))
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.ErrorContains(t, <-faults, "boom")
}

func TestConnectionsAreAsManyAsTheCapacity(t *testing.T) {
	d := newDirectory()
	answers := open(t, d, func(o *Options) { o.Capacity = 2 })
	for range 3 {
		for range 4 {
			m := open(t, d, nil)
			require.NoError(t, m.Reach(t.Context()))
			require.NoError(t, answers.Deliver(t.Context(), to(m)))
			assert.LessOrEqual(t, answers.Stats().Connections, 2)
		}
	}
}

// Where nobody listens, or nobody speaks, an attempt ends with its context.
func TestAPeerThatIsDownOrSilent(t *testing.T) {
	d := newDirectory()
	answers := open(t, d, nil)
	silence, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silence.Close()
	for n, address := range []string{"127.0.0.1:1", silence.Addr().String()} {
		id := ID{byte(n + 1)}
		require.NoError(t, d.Enroll(t.Context(), store.Peer{ID: id, Direct: address}, time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		assert.Equal(t, Unreachable, kind(t, answers.Deliver(ctx, Answer{Target: id})))
		assert.Less(t, time.Since(began), 20*time.Second)
		cancel()
	}
	d.down = errors.New("down")
	assert.Equal(t, Unreachable, kind(t, answers.Deliver(t.Context(), Answer{Target: ID{77}})))
}

func TestTheExchangeOfMockMode(t *testing.T) {
	exchange := NewExchange()
	var got []Answer
	verdict := Accepted
	one := exchange.Join(func(answer Answer) Verdict { got = append(got, answer); return verdict })
	two := exchange.Join(func(Answer) Verdict { return Refused })
	answer := Answer{Target: one.ID(), Subsystem: "x"}
	require.NoError(t, one.Reach(t.Context()))
	require.NoError(t, two.Deliver(t.Context(), answer))
	assert.Equal(t, []Answer{answer}, got)
	answer.Payload = []byte(strings.Repeat("x", MaxPayload+1))
	assert.Equal(t, TooLarge, kind(t, two.Deliver(t.Context(), answer)))
	answer.Payload = nil
	verdict = Refused
	assert.Equal(t, Unwanted, kind(t, two.Deliver(t.Context(), answer)))
	require.NoError(t, one.Close(t.Context()))
	assert.Equal(t, Unwanted, kind(t, two.Deliver(t.Context(), answer)))
	assert.Empty(t, exchange.members[one.ID()])
}
