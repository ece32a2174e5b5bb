package producer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"prosody/core/kafka"
	. "prosody/core/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caller collects the ends of its sends, by name.
type caller struct {
	mutex sync.Mutex
	ends  map[string]Sent
	at    map[string]time.Duration
	start time.Time
}

func newCaller() *caller {
	return &caller{ends: map[string]Sent{}, at: map[string]time.Duration{}, start: time.Now()}
}

func (c *caller) done(t *testing.T, name string) func(Sent) {
	return func(sent Sent) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if _, twice := c.ends[name]; twice {
			t.Errorf("%s ended twice", name)
		}
		c.ends[name] = sent
		c.at[name] = time.Since(c.start)
	}
}

func (c *caller) end(name string) (Sent, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sent, ended := c.ends[name]
	return sent, ended
}

func (c *caller) when(name string) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.at[name]
}

func start(t *testing.T, f *fake, timeout time.Duration) *Producer {
	t.Helper()
	p, err := New(Options{
		Cluster: f, Servers: []string{"b:1"}, Source: "shop", SendTimeout: timeout, Cache: 2, Clock: clock.Real{},
	})
	require.NoError(t, err)
	return p
}

func stop(t *testing.T, p *Producer) { assert.NoError(t, p.Close(t.Context())) }

func message(key, payload string) Outgoing {
	return Outgoing{Topic: "orders", Key: key, Payload: []byte(payload)}
}

func TestTheRecordOnTheWire(t *testing.T) {
	f := &fake{auto: true}
	p, c := start(t, f, time.Second), newCaller()
	defer stop(t, p)
	payload, value := []byte(`{"b": 1,"a":2.0}`), []byte("v")
	out := Outgoing{Topic: "orders", Key: "k\x00", Payload: payload, Headers: []kafka.Header{
		{Name: "b", Value: value}, {Name: "traceparent", Value: []byte("00-1")}, {Name: "a"},
		{Name: "b", Value: []byte{}}, {Name: "traceparent", Value: []byte("00-2")}, {Name: "tracestate", Value: []byte("s")},
	}}
	require.NoError(t, p.Send(out, c.done(t, "1")))
	copy(payload, "xxxxxxxx") // the caller's memory is only lent
	value[0] = 'x'
	record := f.produced()[0]
	assert.Equal(t, "orders", record.Topic)
	assert.Equal(t, []byte("k\x00"), record.Key)
	assert.Equal(t, `{"b": 1,"a":2.0}`, string(record.Value))
	assert.Equal(t, []kafka.Header{
		{Name: "b", Value: []byte("v")}, {Name: "traceparent", Value: []byte("00-1")}, {Name: "a"},
		{Name: "b", Value: []byte{}}, {Name: "tracestate", Value: []byte("s")}, {Name: "source-system", Value: []byte("shop")},
	}, record.Headers)
	assert.InDelta(t, time.Now().UnixMilli(), record.Timestamp, 5000)
	sent, ended := c.end("1")
	assert.True(t, ended)
	assert.Equal(t, Sent{}, sent)
	assert.Equal(t, time.Second, f.config.SendTimeout)
}

func TestNullAndEmptyAreTold(t *testing.T) {
	f := &fake{auto: true}
	p, c := start(t, f, 0), newCaller()
	defer stop(t, p)
	require.NoError(t, p.Send(Outgoing{Topic: "t"}, c.done(t, "1")))
	require.NoError(t, p.Send(Outgoing{Topic: "t", Key: "\xff", Payload: []byte{}, Raw: true}, c.done(t, "2")))
	require.NoError(t, p.Send(Outgoing{Topic: "t", Raw: true, Keyless: true}, c.done(t, "3")))
	records := f.produced()
	assert.Equal(t, []byte{}, records[0].Key)
	assert.Nil(t, records[0].Value)
	assert.Equal(t, []byte("\xff"), records[1].Key)
	assert.Equal(t, []byte{}, records[1].Value)
	assert.Empty(t, records[1].Headers, "raw records get no header")
	assert.Nil(t, records[2].Key)
	assert.Nil(t, records[2].Value)
}

func TestRefusals(t *testing.T) {
	f := &fake{auto: true}
	p := start(t, f, time.Second)
	defer stop(t, p)
	named := func(name string) Outgoing { return Outgoing{Topic: "t", Headers: []kafka.Header{{Name: name}}} }
	for name, c := range map[string]struct {
		out  Outgoing
		kind fault.Kind
		text string
	}{
		"no topic":         {Outgoing{}, fault.Invalid, `topic "": is empty`},
		"dot":              {Outgoing{Topic: "."}, fault.Invalid, `topic "."`},
		"dots":             {Outgoing{Topic: ".."}, fault.Invalid, `topic ".."`},
		"blank":            {Outgoing{Topic: "a b"}, fault.Invalid, `topic "a b": may have only`},
		"not ASCII":        {Outgoing{Topic: "日本"}, fault.Invalid, `topic "日本"`},
		"look-alike":       {Outgoing{Topic: "оrders"}, fault.Invalid, "may have only"},
		"regex":            {Outgoing{Topic: "^ev.*"}, fault.Invalid, "may have only"},
		"NUL":              {Outgoing{Topic: "a\x00"}, fault.Invalid, `topic "a\x00"`},
		"long":             {Outgoing{Topic: strings.Repeat("a", 250)}, fault.Invalid, "has 250 bytes; at most 249"},
		"bad topic of raw": {Outgoing{Topic: "a b", Raw: true}, fault.Invalid, `topic "a b"`},
		"long key":         {Outgoing{Topic: "t", Key: strings.Repeat("k", 32769)}, fault.Invalid, "key: has 32769 bytes; at most 32768"},
		"key no text":      {Outgoing{Topic: "t", Key: "\xff"}, fault.Invalid, "key: is not valid UTF-8"},
		"empty payload":    {message("k", ""), fault.Invalid, "payload"},
		"NaN":              {message("k", "NaN"), fault.Invalid, "payload"},
		"two documents":    {message("k", "{}{}"), fault.Invalid, "payload"},
		"source header":    {named("source-system"), fault.Argument, `header "source-system"`},
		"response header":  {named("response-deadline"), fault.Argument, `header "response-deadline"`},
		"header with NUL":  {named("a\x00b"), fault.Argument, `header "a\x00b"`},
		"header no text":   {named("\xff"), fault.Argument, `header "\xff"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.Send(c.out, func(Sent) { t.Error("done was called") })
			var refusal *fault.Error
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, c.kind, refusal.Kind)
			assert.Contains(t, refusal.Text, c.text)
		})
	}
	assert.Empty(t, f.produced())
	assert.Zero(t, p.Stats().Pending)
	for _, good := range []Outgoing{
		{Topic: "a.b_c-D9"}, {Topic: "t", Key: strings.Repeat("k", 32768)}, message("", "null"), message("k", ` "" `),
		named("Source-System"), named("responses"), named(""),
	} {
		assert.NoError(t, p.Send(good, func(Sent) {}))
	}
}

func TestErrorsHaveTheirKind(t *testing.T) {
	for code, kind := range map[kafka.Code]fault.Kind{
		kafka.Unknown: fault.Kafka, kafka.Unavailable: fault.Kafka, kafka.TimedOut: fault.Timeout,
		kafka.TooLarge: fault.TooLarge, kafka.UnknownTopic: fault.Kafka, kafka.BadTopic: fault.Invalid,
		kafka.Denied: fault.Kafka, kafka.Fatal: fault.Kafka, kafka.Closed: fault.Closed, kafka.BadConfig: fault.Config,
	} {
		f := &fake{}
		p, c := start(t, f, time.Minute), newCaller()
		failure := &kafka.Error{Code: code, Text: "broker says no"}
		require.NoError(t, p.Send(message("k", "1"), c.done(t, "later")))
		f.report(0, kafka.Delivery{Err: failure})
		sent, _ := c.end("later")
		require.NotNil(t, sent.Err)
		assert.Equal(t, kind, sent.Err.Kind)
		assert.Equal(t, `send to topic "orders": broker says no`, sent.Err.Text)
		assert.ErrorIs(t, sent.Err, failure)
		f.refusal = failure
		err := p.Send(message("k", "1"), c.done(t, "now"))
		assert.Equal(t, kind, fault.Of(err))
		_, ended := c.end("now")
		assert.False(t, ended)
		stop(t, p)
	}
	assert.Equal(t, fault.Kafka, Fault(errors.New("odd"), "x").Kind, "unknown failures are transient")
}

func TestASendEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{trouble: "connection refused"}
		p, c := start(t, f, time.Second), newCaller()
		for n := range 500 {
			require.NoError(t, p.Send(message("k", "1"), c.done(t, fmt.Sprint(n))))
			time.Sleep(time.Millisecond)
		}
		f.report(3, kafka.Delivery{Offset: 3})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for n := range 500 {
			sent, ended := c.end(fmt.Sprint(n))
			require.True(t, ended)
			if n == 3 {
				assert.Nil(t, sent.Err)
				continue
			}
			require.NotNil(t, sent.Err)
			assert.Equal(t, fault.Timeout, sent.Err.Kind)
			assert.Contains(t, sent.Err.Text, `"orders" timed out after 1s`)
			assert.Contains(t, sent.Err.Text, "connection refused")
			assert.Equal(t, time.Duration(n)*time.Millisecond+time.Second, c.when(fmt.Sprint(n)))
		}
		f.report(4, kafka.Delivery{})
		assert.Equal(t, Stats{Sent: 1, Timeouts: 499, Late: 1}, p.Stats())
		stop(t, p)
	})
}

func TestCloseEndsAllSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{auto: true}
		p, c := start(t, f, 0), newCaller()
		require.NoError(t, p.Send(message("k", `{"id":"known"}`), func(Sent) {}))
		f.auto, f.room, f.records = false, 2, nil
		for n := range 4 {
			require.NoError(t, p.Send(message("k", fmt.Sprintf(`{"id":"%d"}`, n/2)), c.done(t, fmt.Sprint(n))))
		}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() { assert.NoError(t, p.Close(t.Context())) })
		}
		group.Wait()
		for n := range 4 {
			sent, ended := c.end(fmt.Sprint(n))
			require.True(t, ended)
			assert.Equal(t, fault.Closed, sent.Err.Kind)
		}
		for _, payload := range []string{"1", `{"id":"0"}`, `{"id":"known"}`} {
			assert.Equal(t, fault.Closed, fault.Of(p.Send(message("k", payload), func(Sent) { t.Error("done was called") })))
		}
		f.report(0, kafka.Delivery{Err: &kafka.Error{Code: kafka.Closed}})
		assert.Len(t, f.produced(), 2, "nothing is sent after the close")
		assert.Zero(t, p.Stats().Pending)
	})
}

func TestConfiguration(t *testing.T) {
	_, err := New(Options{Cluster: &fake{}, Clock: clock.Real{}})
	assert.Equal(t, fault.Config, fault.Of(err))
	_, err = New(Options{Cluster: &fake{refusal: &kafka.Error{Code: kafka.BadConfig, Text: "no such property"}}, Source: "s"})
	assert.Equal(t, fault.Config, fault.Of(err))
	assert.ErrorContains(t, err, "no such property")
}

func TestLinesOfTheClientLibrary(t *testing.T) {
	f, lines := &fake{}, &strings.Builder{}
	p, err := New(Options{Cluster: f, Source: "s", Clock: clock.Real{},
		Log: slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	require.NoError(t, err)
	defer stop(t, p)
	for level, word := range map[int]string{3: "ERROR", 4: "WARN", 6: "INFO", 7: "DEBUG"} {
		lines.Reset()
		f.config.OnLog(level, "broker down")
		assert.Contains(t, lines.String(), "level="+word)
		assert.Contains(t, lines.String(), "broker down")
	}
}

func BenchmarkSend(b *testing.B) {
	for name, payload := range map[string]string{
		"plain": `{"customer":17,"amount":12.5,"note":"a short text"}`,
		"id":    `{"id":"%d","customer":17,"amount":12.5,"note":"a short text"}`,
	} {
		b.Run(name, func(b *testing.B) {
			p, err := New(Options{
				Cluster: instant{}, Source: "shop", SendTimeout: time.Minute, Cache: 8192, Clock: clock.Real{},
			})
			require.NoError(b, err)
			defer func() { _ = p.Close(context.Background()) }()
			out := message("customer-17", payload)
			if name == "id" {
				out.Payload = []byte(strings.Replace(payload, "%d", "0000000000", 1))
			}
			done := func(Sent) {}
			b.SetBytes(int64(len(out.Payload)))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if name == "id" {
					copy(out.Payload[7:], fmt.Appendf(nil, "%010d", n))
				}
				if err := p.Send(out, done); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// instant is a Kafka that takes no time.
type instant struct{ *fake }

func (instant) Close(context.Context) error { return nil }

func (instant) Producer(kafka.ProducerConfig) (kafka.Producer, error) { return instant{}, nil }

func (instant) Produce(_ *kafka.Record, done func(kafka.Delivery)) error {
	done(kafka.Delivery{})
	return nil
}
