package request

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/peer"
	"prosody/core/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what a requester talks to.
type world struct {
	*Requester
	mutex   sync.Mutex
	records []producer.Outgoing
	ready   bool
	reached chan error // what Reach gives
	refuse  error      // what Send gives
	failure *fault.Error
}

func (w *world) ID() peer.ID { return peer.ID{7} }
func (w *world) Ready() bool { return w.ready }
func (w *world) Reach(ctx context.Context) error {
	select {
	case err := <-w.reached:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) send(record producer.Outgoing, done func(producer.Sent)) error {
	if w.refuse != nil {
		return w.refuse
	}
	w.mutex.Lock()
	w.records = append(w.records, record)
	w.mutex.Unlock()
	done(producer.Sent{Err: w.failure})
	return nil
}

func open(t *testing.T, limit int) *world {
	w := &world{ready: true, reached: make(chan error, 1)}
	w.Requester = New(Options{Send: w.send, Link: w, Clock: clock.Real{}, Limit: limit})
	t.Cleanup(w.Close)
	return w
}

func ask(timeout time.Duration, names ...string) Ask {
	return Ask{Record: producer.Outgoing{Topic: "t", Key: "k", Payload: []byte("1")}, Subsystems: names, Timeout: timeout}
}

func success(id ID, name, value string) peer.Answer {
	return peer.Answer{Target: peer.ID{7}, Request: id, Subsystem: name, Format: peer.JSON, Payload: []byte(value)}
}

func TestEachAnswerReachesItsRequest(t *testing.T) {
	w := open(t, 0)
	ends := make(chan Result, 1)
	id, err := w.Request(ask(time.Minute, " a ", "b", "c", "d"), func(r Result) { ends <- r })
	require.NoError(t, err)
	reply := w.records[0].Reply
	assert.Equal(t, [16]byte(id), reply.Request)
	assert.Equal(t, [16]byte{7}, reply.Peer)
	assert.Equal(t, []string{"a", "b", "c", "d"}, reply.Awaited)
	assert.Equal(t, peer.Accepted, w.Deliver(success(id, "a", `{"x":1}`)))
	assert.Equal(t, peer.Duplicate, w.Deliver(success(id, "a", `2`)))
	assert.Equal(t, peer.Refused, w.Deliver(success(id, "e", `2`)))
	assert.Equal(t, peer.Refused, w.Deliver(success(ID{9}, "b", `2`)))
	w.Deliver(peer.Answer{Request: id, Subsystem: "b", Error: &peer.Error{Text: "PermanentError: no"}})
	w.Deliver(peer.Answer{Request: id, Subsystem: "c", Format: "protobuf", Payload: []byte("1")})
	w.Deliver(success(id, "d", strings.Repeat("[", 1000)+strings.Repeat("]", 1000)))
	assert.Equal(t, Result{Answers: []Answer{
		{Subsystem: "a", Kind: Success, Value: []byte(`{"x":1}`)}, {Subsystem: "b", Kind: Handler, Text: "PermanentError: no"},
		{Subsystem: "c", Kind: Format}, {Subsystem: "d", Kind: Malformed},
	}}, <-ends)
	assert.Equal(t, peer.Refused, w.Deliver(success(id, "a", `2`)))
	stats := w.Stats()
	stats.Microseconds = 0
	assert.Equal(t, Stats{Requests: 1, Successes: 1, HandlerErrors: 1, Unreadable: 2, Accepted: 4, Duplicate: 1, Foreign: 1, Late: 1, Unknown: 1}, stats)
}

// A request ends at its deadline, whatever stands still.
func TestTheDeadlineHolds(t *testing.T) {
	for _, ready := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := open(t, 0)
			w.ready = ready
			began := time.Now()
			ends := make(chan time.Duration, 1)
			var result Result
			_, err := w.Request(ask(3*time.Second, "a", "b"), func(r Result) { result = r; ends <- time.Since(began) })
			require.NoError(t, err)
			assert.Equal(t, 3*time.Second, <-ends)
			assert.Equal(t, []Answer{{Subsystem: "a", Kind: Timeout}, {Subsystem: "b", Kind: Timeout}}, result.Answers)
			assert.Zero(t, w.Stats().Pending)
			w.reached <- nil
			synctest.Wait()
			assert.Len(t, w.records, map[bool]int{true: 1, false: 0}[ready], "a request that is over is not sent")
			w.Close()
		})
	}
}

func TestWithoutTimeTheRecordIsSentAllTheSame(t *testing.T) {
	for _, ready := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := open(t, 0)
			w.ready = ready
			var result Result
			_, err := w.Request(ask(0, "a"), func(r Result) { result = r })
			require.NoError(t, err)
			assert.Equal(t, []Answer{{Subsystem: "a", Kind: Timeout}}, result.Answers)
			w.reached <- nil
			synctest.Wait()
			assert.Len(t, w.records, 1)
			w.Close()
		})
	}
}

func TestARequestThatIsNotSentFails(t *testing.T) {
	w := open(t, 0)
	w.refuse = fault.New(fault.Invalid, "no")
	_, err := w.Request(ask(time.Minute, "a"), func(Result) { t.Error("done is not called") })
	assert.Equal(t, fault.Invalid, fault.Of(err))
	w.refuse, w.failure = nil, fault.New(fault.Kafka, "broker")
	ends := make(chan Result, 1)
	_, err = w.Request(ask(time.Minute, "a"), func(r Result) { ends <- r })
	require.NoError(t, err)
	assert.Equal(t, fault.Kafka, (<-ends).Err.Kind)
	w.ready = false
	w.reached <- fault.New(fault.Config, "peer_bind_address: in use")
	_, err = w.Request(ask(time.Minute, "a"), func(r Result) { ends <- r })
	require.NoError(t, err)
	assert.Contains(t, (<-ends).Err.Text, "peer_bind_address")
	assert.Zero(t, w.Stats().Pending)
}

func TestAnAbandonedRequestIsOver(t *testing.T) {
	w := open(t, 0)
	id, err := w.Request(ask(time.Minute, "a"), func(Result) { t.Error("done is not called") })
	require.NoError(t, err)
	assert.True(t, w.Abandon(id))
	assert.False(t, w.Abandon(id))
	assert.Equal(t, peer.Refused, w.Deliver(success(id, "a", "1")))
	assert.Zero(t, w.Stats().Pending)
}

func TestSoManyRequestsAndNoMore(t *testing.T) {
	w := open(t, 2)
	var ids []ID
	for range 2 {
		id, err := w.Request(ask(time.Minute, "a"), func(Result) {})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	_, err := w.Request(ask(time.Minute, "a"), func(Result) {})
	assert.Equal(t, fault.State, fault.Of(err))
	w.Deliver(success(ids[0], "a", "1"))
	_, err = w.Request(ask(time.Minute, "a"), func(Result) {})
	assert.NoError(t, err)
}

func TestTheEndOfTheClientEndsRequests(t *testing.T) {
	w := open(t, 0)
	ends := make(chan Result, 2)
	_, err := w.Request(ask(time.Minute, "a"), func(r Result) { ends <- r })
	require.NoError(t, err)
	w.ready = false
	_, err = w.Request(ask(time.Minute, "a"), func(r Result) { ends <- r })
	require.NoError(t, err)
	w.Close()
	for range 2 {
		assert.Equal(t, fault.Closed, (<-ends).Err.Kind)
	}
	_, err = w.Request(ask(time.Minute, "a"), func(Result) {})
	assert.Equal(t, fault.Closed, fault.Of(err))
}

func TestNamesAndTimesAreChecked(t *testing.T) {
	w := open(t, 0)
	many := make([]string, maxSubsystems+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, names := range [][]string{nil, {""}, {" \t"}, {"a", "a"}, {"a", " a"}, many, {strings.Repeat("x", maxName+1)}, {"\xff"}} {
		_, err := w.Request(ask(time.Minute, names...), func(Result) {})
		var known *fault.Error
		require.ErrorAs(t, err, &known, "%q", names)
	}
	for _, timeout := range []time.Duration{-1, maxTimeout + 1} {
		_, err := w.Request(ask(timeout, "a"), func(Result) {})
		assert.Equal(t, fault.Argument, fault.Of(err))
	}
	assert.Empty(t, w.records)
}

// Answers, deadlines and callers race: each request ends once.
func TestOneEnd(t *testing.T) {
	w := open(t, 0)
	var ended sync.Map
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			var once sync.Once
			double := true
			id, err := w.Request(ask(time.Duration(n%3)*time.Millisecond, "a"), func(Result) {
				double = false
				once.Do(func() { double = true })
				ended.Store(n, double)
			})
			if !assert.NoError(t, err) {
				return
			}
			w.Deliver(success(id, "a", "1"))
			if n%2 == 0 {
				w.Abandon(id)
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return w.Stats().Pending == 0 }, 2*time.Minute, time.Millisecond)
	ended.Range(func(_, once any) bool { return assert.True(t, once.(bool), "ended twice") })
}

// What calls back while the client shuts down has ended when Close returns.
func TestCloseWaitsForACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0)
		release, ended := make(chan struct{}), false
		_, err := w.Request(ask(time.Second, "a"), func(Result) {
			<-release
			ended = true
		})
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		time.AfterFunc(time.Second, func() { close(release) })
		w.Close()
		assert.True(t, ended)
	})
}

func TestAPanicIsAFaultOfTheClient(t *testing.T) {
	w := open(t, 0)
	faults := make(chan error, 1)
	w.options.Fault = func(err error) { faults <- err }
	_, err := w.Request(ask(time.Millisecond, "a"), func(Result) { panic("boom") })
	require.NoError(t, err)
	assert.ErrorContains(t, <-faults, "boom")
}
