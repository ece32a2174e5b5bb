package deadletter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/deadletter"
	. "prosody/core/pipeline/pipelinetest"
	"prosody/core/pipeline/retry"
	"prosody/core/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// topic is a failure topic: each send ends as the next of ends says, the last one
// repeating; nil leaves a send open.
type topic struct {
	ends []*end
	got  []producer.Outgoing
	at   []time.Duration
	from time.Time
}

// end is how a send ends: refused now, or later with an error or without.
type end struct {
	now   error
	later *fault.Error
}

func fine() *end { return &end{} }

func refuse(kind fault.Kind) *end { return &end{now: fault.New(kind, "refused")} }

func fail(kind fault.Kind) *end { return &end{later: fault.New(kind, "failed")} }

func (k *topic) send(out producer.Outgoing, done func(producer.Sent)) error {
	k.got = append(k.got, out)
	k.at = append(k.at, time.Since(k.from))
	end := k.ends[0]
	if len(k.ends) > 1 {
		k.ends = k.ends[1:]
	}
	if end == nil {
		return nil
	}
	if end.now == nil {
		go done(producer.Sent{Err: end.later})
	}
	return end.now
}

func letters(k *topic) (*deadletter.Letters, *pipeline.Counts, *Log) {
	k.from = time.Now()
	counts, lines := &pipeline.Counts{}, &Log{}
	return deadletter.New(deadletter.Options{
		Topic: "failures", Group: "shop", Source: "shop-system", Send: k.send,
		Backoff: retry.Backoff{Base: time.Second, Max: 5 * time.Second, Random: func(limit int64) int64 { return limit }},
		Clock:   clock.Real{}, Counts: counts, Log: lines.Logger(),
	}), counts, lines
}

func list(headers []kafka.Header) (lines []string) {
	for _, header := range headers {
		value := "null"
		if header.Value != nil {
			value = fmt.Sprintf("%q", header.Value)
		}
		lines = append(lines, header.Name+": "+value)
	}
	return lines
}

func header(name, value string) kafka.Header { return kafka.Header{Name: name, Value: []byte(value)} }

func TestTheCopyHasAllOfTheRecordAndItsOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &topic{ends: []*end{fine()}}
		l, counts, lines := letters(k)
		invocation := Invocation(t.Context(), "customer")
		invocation.Event.Headers = []kafka.Header{
			header("b", "1"), header("source-system", "other"), header("a", ""), {Name: "b"}, header("traceparent", "00-1"),
			header("source-error", "old"), header("source-note", "kept"), header("response-peer", "p"),
			header("response-code", "kept"), header("tracestate", "s"), header("z", "\xff"),
		}
		outcome := l.Wrap(Play(Step{End: Never("boom")})).Handle(t.Context(), invocation)
		assert.Equal(t, pipeline.Success, outcome.Class)
		assert.Len(t, k.got, 1)
		out := k.got[0]
		assert.Equal(t, "failures", out.Topic)
		assert.Equal(t, "customer", out.Key)
		assert.Equal(t, []byte(`{"secret":1}`), out.Payload)
		assert.True(t, out.Raw, "no duplicate cache")
		assert.Equal(t, []string{
			`b: "1"`, `a: ""`, `b: null`, `source-note: "kept"`, `response-code: "kept"`, `z: "\xff"`,
			`source-kind: "message"`, `source-topic: "orders"`, `source-partition: "3"`, `source-offset: "42"`,
			`source-timestamp: "2023-11-14T22:13:20.123Z"`, `source-group-id: "shop"`,
			`source-error: "handler error: boom"`, `source-system: "shop-system"`,
			`traceparent: "00-1"`, `tracestate: "s"`,
		}, list(out.Headers))
		assert.EqualValues(t, 1, counts.DeadLetters.Load())
		assert.Contains(t, lines.String(), "level=ERROR")
		assert.NotContains(t, lines.String(), "secret")
	})
}

func TestHeadersDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &topic{ends: []*end{fine()}}
		l, _, _ := letters(k)
		invocation := Invocation(t.Context(), "k")
		invocation.Event.Kind, invocation.Event.Payload = event.Excise, nil
		for range 10 {
			l.Wrap(Play(Step{End: Fail(strings.Repeat("é", 250_000))})).Handle(t.Context(), invocation)
			last := k.got[len(k.got)-1]
			assert.Nil(t, last.Payload)
			assert.Len(t, last.Headers, 8)
			assert.Equal(t, "excise", string(last.Headers[0].Value))
			assert.LessOrEqual(t, len(last.Headers[6].Value), 4096)
			invocation.Event.Headers = last.Headers
		}
	})
}

func TestOnlyTheSendIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &topic{ends: []*end{
			fail(fault.Timeout), refuse(fault.Kafka), fail(fault.Invalid), fine()}}
		l, counts, _ := letters(k)
		host := Play(Step{End: Fail("boom")})
		outcome := l.Wrap(host).Handle(t.Context(), Invocation(t.Context(), "k"))
		assert.Equal(t, pipeline.Success, outcome.Class)
		assert.Len(t, host.Transcript(), 2, "one attempt")
		assert.Equal(t, []time.Duration{0, 2 * time.Second, 6 * time.Second, 11 * time.Second}, k.at)
		assert.EqualValues(t, 3, counts.Unsent.Load())
		assert.EqualValues(t, 1, counts.DeadLetters.Load())
	})
}

func TestATooLargeCopyIsShortenedOnceThenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &topic{ends: []*end{fail(fault.TooLarge), fail(fault.TooLarge), fine()}}
		l, _, lines := letters(k)
		outcome := l.Wrap(Play(Step{End: Fail(strings.Repeat("x", 10_000))})).Handle(t.Context(), Invocation(t.Context(), "k"))
		assert.Equal(t, pipeline.Success, outcome.Class)
		assert.Equal(t, []time.Duration{0, 0, 4 * time.Second}, k.at)
		assert.Len(t, k.got[0].Headers[6].Value, 4096)
		assert.Len(t, k.got[1].Headers[6].Value, 256)
		assert.Contains(t, lines.String(), "dead letter was not written")
	})
}

func TestLeavingWritesNothingMore(t *testing.T) {
	for name, c := range map[string]struct {
		end   *end
		leave time.Duration
		sends int
	}{
		"before the failure": {fine(), 0, 0},
		"during a send":      {nil, time.Second, 1},
		"during a wait":      {fail(fault.Kafka), time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &topic{ends: []*end{c.end}}
				l, counts, _ := letters(k)
				leaving, leave := context.WithCancelCause(t.Context())
				if c.leave == 0 {
					leave(pipeline.Revoked)
				}
				time.AfterFunc(c.leave, func() { leave(pipeline.Revoked) })
				for _, end := range []pipeline.Outcome{Fail("boom"), Never("bad")} {
					outcome := l.Wrap(Play(Step{End: end})).Handle(leaving, Invocation(leaving, "k"))
					assert.Equal(t, pipeline.Aborted, outcome.Class)
				}
				assert.Equal(t, c.leave, time.Since(k.from))
				assert.Len(t, k.got, c.sends)
				assert.Zero(t, counts.DeadLetters.Load())
			})
		})
	}
}

// A copy that was written while its owner began to leave counts: nobody writes it again.
func TestACopyThatIsWrittenCounts(t *testing.T) {
	for range 100 {
		leaving, leave := context.WithCancelCause(t.Context())
		l := deadletter.New(deadletter.Options{
			Topic: "failures", Clock: clock.Real{}, Counts: &pipeline.Counts{}, Log: new(Log).Logger(),
			Send: func(_ producer.Outgoing, done func(producer.Sent)) error {
				done(producer.Sent{})
				leave(pipeline.Revoked)
				return nil
			},
		})
		assert.Equal(t, pipeline.Success, l.Wrap(Play(Step{End: Never("bad")})).Handle(leaving, Invocation(leaving, "k")).Class)
	}
}

func TestOtherOutcomesPass(t *testing.T) {
	k := &topic{}
	l, _, _ := letters(k)
	aborted := pipeline.Outcome{Class: pipeline.Aborted}
	for _, end := range []pipeline.Outcome{Done(), aborted} {
		assert.Equal(t, end, l.Wrap(Play(Step{End: end})).Handle(t.Context(), Invocation(t.Context(), "k")))
	}
	timer := Invocation(t.Context(), "k")
	timer.Event.Kind = event.Timer
	assert.Equal(t, Fail("x"), l.Wrap(Play(Step{End: Fail("x")})).Handle(t.Context(), timer))
	assert.Empty(t, k.got)
}

func TestAnInvalidRecordIsCopiedAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &topic{ends: []*end{fail(fault.Kafka), fine()}}
		l, counts, _ := letters(k)
		for _, c := range []struct {
			key, value []byte
			keyless    bool
		}{{[]byte("\xff\xfe"), []byte("{"), false}, {nil, []byte{}, true}, {[]byte{}, nil, false}} {
			record := &kafka.Record{Topic: "orders", Partition: 1, Offset: 9, Timestamp: -1, Key: c.key, Value: c.value}
			outcome := l.Invalid(t.Context(), record, "payload: is not valid JSON")
			assert.Equal(t, pipeline.Success, outcome.Class)
			out := k.got[len(k.got)-1]
			assert.Equal(t, string(c.key), out.Key)
			assert.Equal(t, c.keyless, out.Keyless)
			assert.Equal(t, c.value, out.Payload)
			assert.Equal(t, []string{
				`source-kind: "invalid"`, `source-topic: "orders"`, `source-partition: "1"`, `source-offset: "9"`,
				`source-group-id: "shop"`, `source-error: "payload: is not valid JSON"`, `source-system: "shop-system"`,
			}, list(out.Headers))
		}
		assert.EqualValues(t, 3, counts.DeadLetters.Load())
		gone, leave := context.WithCancelCause(t.Context())
		leave(pipeline.Lost)
		assert.Equal(t, pipeline.Aborted, l.Invalid(gone, &kafka.Record{}, "x").Class)
	})
}
