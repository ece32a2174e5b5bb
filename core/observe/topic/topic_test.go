package topic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a cluster whose producer does as it is told.
type broker struct {
	kafka.Cluster
	mutex   sync.Mutex
	config  kafka.ProducerConfig
	records []*kafka.Record
	held    []func(kafka.Delivery)
	hold    bool  // deliveries wait
	refuse  error // of Produce
	end     error // of deliveries
	closed  bool
}

func (b *broker) Producer(config kafka.ProducerConfig) (kafka.Producer, error) {
	b.config = config
	return b, nil
}

func (b *broker) Produce(record *kafka.Record, done func(kafka.Delivery)) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case b.closed:
		return &kafka.Error{Code: kafka.Closed, Text: "closed"}
	case b.refuse != nil:
		return b.refuse
	case b.hold:
		b.held = append(b.held, done)
		return nil
	}
	if b.end == nil {
		b.records = append(b.records, record)
	}
	done(kafka.Delivery{Err: b.end})
	return nil
}

func (b *broker) Close(ctx context.Context) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.closed = true
	for _, done := range b.held {
		done(kafka.Delivery{Err: ctx.Err()})
	}
	return nil
}

func (b *broker) set(change func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	change()
}

func start(t require.TestingT, b *broker) *Emitter {
	e, err := New(Options{Cluster: b, Topic: "told", Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return e
}

func (e *Emitter) total() int64 {
	facts := e.Snapshot()
	return facts.Sent + facts.Dropped + facts.Failed + int64(facts.Waiting)
}

var moment = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

func TestTheFieldsAreThoseOfTheContract(t *testing.T) {
	base := Record{Time: moment, Topic: "orders", Partition: 3, Key: "k\"ö", Offset: 17, Source: "group"}
	with := func(change func(r *Record)) Record {
		r := base
		change(&r)
		return r
	}
	for _, each := range []struct {
		record Record
		want   string
	}{
		{with(func(r *Record) { r.Kind = Sent }),
			`{"type":"prosody.message.sent","eventTime":"2026-03-04T05:06:07.089Z","offset":17,"topic":"orders","partition":3,"key":"k\"ö","source":"group","hostname":"h"}`},
		{with(func(r *Record) {
			r.Kind, r.Demand, r.Category, r.Exception = Failed, "failure", "permanent", "no\nway"
			r.Trace = "00-a-b-01\nx=y"
		}),
			`{"type":"prosody.message.failed","eventTime":"2026-03-04T05:06:07.089Z","offset":17,"topic":"orders","partition":3,"key":"k\"ö","source":"group","hostname":"h","demandType":"failure","errorCategory":"permanent","exception":"no\nway","traceParent":"00-a-b-01","traceState":"x=y"}`},
		{with(func(r *Record) {
			r.Kind, r.Timer, r.Second, r.Trace = Cancelled, application, 1_800_000_000, "00-a-b-01"
		}),
			`{"type":"prosody.timer.cancelled","eventTime":"2026-03-04T05:06:07.089Z","scheduledTime":"2027-01-15T08:00:00Z","timerType":"application","topic":"orders","partition":3,"key":"k\"ö","source":"group","hostname":"h","traceParent":"00-a-b-01"}`},
	} {
		got := string(each.record.encode("h"))
		require.True(t, json.Valid([]byte(got)), got)
		require.JSONEq(t, each.want, got)
	}
}

func TestAnyTextIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{Kind: Failed, Time: moment, Key: rapid.String().Draw(t, "key"), Exception: rapid.String().Draw(t, "text")}
		var read map[string]any
		require.NoError(t, json.Unmarshal(r.encode("h"), &read))
		require.Equal(t, r.Key, read["key"])
	})
}

func TestRecordsAreKeyedAndTheProducerMayLoseThem(t *testing.T) {
	b := &broker{}
	e := start(t, b)
	e.Tell(&Record{Kind: Sent, Key: "k"})
	e.Close(t.Context())
	require.Len(t, b.records, 1)
	require.Equal(t, "told", b.records[0].Topic)
	require.Equal(t, "k", string(b.records[0].Key))
	require.Empty(t, b.records[0].Headers)
	require.True(t, b.config.Lossy)
	require.Equal(t, Facts{Sent: 1}, e.Snapshot())
	e.Tell(&Record{})
	require.Equal(t, Facts{Sent: 1, Dropped: 1}, e.Snapshot())
}

// Whatever the broker does, nobody waits, and each record is counted once.
func TestNothingIsLostWithoutACount(t *testing.T) {
	b := &broker{hold: true}
	e := start(t, b)
	const records = length + flying + 500
	began := time.Now()
	for i := range records {
		e.Tell(&Record{Kind: Sent, Key: fmt.Sprint(i)})
	}
	require.Less(t, time.Since(began), 30*time.Second)
	require.EqualValues(t, records, e.total())
	require.GreaterOrEqual(t, e.Snapshot().Dropped, int64(records-length-flying-1))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	e.Close(ctx)
	require.Zero(t, e.Snapshot().Waiting)
	require.EqualValues(t, records, e.total())
}

func TestBytesAreBounded(t *testing.T) {
	b := &broker{refuse: &kafka.Error{Code: kafka.Full}}
	e := start(t, b)
	long := strings.Repeat("x", 1<<20)
	for range 40 {
		e.Tell(&Record{Kind: Failed, Exception: long})
	}
	require.LessOrEqual(t, e.Snapshot().Waiting, most>>20+2)
	b.set(func() { b.refuse = nil })
	e.Close(t.Context())
	require.EqualValues(t, 40, e.total())
	require.Positive(t, e.Snapshot().Sent)
}

func TestATopicThatIsNotThereMutes(t *testing.T) {
	b := &broker{end: &kafka.Error{Code: kafka.UnknownTopic}}
	e := start(t, b)
	e.Tell(&Record{})
	require.Eventually(t, func() bool { return e.Snapshot().Failed == 1 }, 2*time.Minute, time.Millisecond)
	e.Tell(&Record{})
	require.Equal(t, Facts{Failed: 1, Dropped: 1}, e.Snapshot())
	e.muted.Store(1) // the time is over
	b.set(func() { b.end = nil })
	e.Tell(&Record{})
	e.Close(t.Context())
	require.Equal(t, Facts{Failed: 1, Dropped: 1, Sent: 1}, e.Snapshot())
}

func TestTellersAndACloseAtTheSameTime(t *testing.T) {
	b := &broker{end: errors.New("down")}
	e := start(t, b)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				e.Tell(&Record{})
			}
		})
	}
	e.Close(t.Context())
	all.Wait()
	require.EqualValues(t, 8000, e.total())
}

func TestNoEmitterDropsAll(t *testing.T) {
	var e *Emitter
	e.Tell(&Record{})
	assert.Equal(t, Facts{}, e.Snapshot())
	e.Close(t.Context())
	var s *Story
	assert.Nil(t, s.Attempt(nil))
	assert.Nil(t, s.Waits(nil))
	assert.Nil(t, s.Event(nil))
}

func BenchmarkTell(b *testing.B) {
	e := start(b, &broker{})
	defer e.Close(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		e.Tell(&Record{Kind: Dispatched, Time: moment, Topic: "orders", Key: "key", Source: "group", Demand: "normal"})
	}
}
