package respond

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/event"
	"prosody/core/peer"
	"prosody/core/pipeline"
	. "prosody/core/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world takes answers; fail says what becomes of each attempt.
type world struct {
	*Responder
	mutex    sync.Mutex
	answers  []peer.Answer
	attempts int
	fail     func(ctx context.Context, answer peer.Answer) error
}

func open() *world {
	w := &world{}
	w.Responder = New(Options{Subsystem: "billing", Deliver: w.deliver, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)})
	return w
}

func (w *world) deliver(ctx context.Context, answer peer.Answer) error {
	w.mutex.Lock()
	w.attempts++
	w.mutex.Unlock()
	if w.fail != nil {
		if err := w.fail(ctx, answer); err != nil {
			return err
		}
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.answers = append(w.answers, answer)
	return nil
}

// handle takes a request through the layer; it ends with the outcome.
func (w *world) handle(t *testing.T, outcome pipeline.Outcome, change func(*pipeline.Invocation)) pipeline.Outcome {
	invocation := Invocation(t.Context(), "k")
	invocation.Event.Reply = &event.Reply{Request: [16]byte{1}, Peer: [16]byte{2}, Deadline: time.Now().Add(5 * time.Second), Awaited: []string{"other", "billing"}}
	if change != nil {
		change(invocation)
	}
	host := w.Ask(pipeline.Func(func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome { return outcome }))
	return w.Wrap(host).Handle(t.Context(), invocation)
}

func leaving(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestWhatTheEndOfAnEventSays(t *testing.T) {
	value := func(text string) *peer.Answer { return &peer.Answer{Format: peer.JSON, Payload: []byte(text)} }
	failed := func(category peer.Category, text string) *peer.Answer {
		return &peer.Answer{Error: &peer.Error{Category: category, Text: text}}
	}
	for name, c := range map[string]struct {
		outcome pipeline.Outcome
		change  func(*pipeline.Invocation)
		want    *peer.Answer
	}{
		"success":             {pipeline.Outcome{Class: pipeline.Success, Response: []byte(`{"a":1}`)}, nil, value(`{"a":1}`)},
		"no response":         {Done(), nil, value("null")},
		"permanent":           {Never("bad"), nil, failed(peer.Permanent, "bad")},
		"given up":            {Fail("boom"), nil, failed(peer.Transient, "boom")},
		"dead letter":         {pipeline.Outcome{Class: pipeline.Success, Failed: pipeline.Transient, Text: "boom"}, nil, failed(peer.Transient, "boom")},
		"bad dead letter":     {pipeline.Outcome{Class: pipeline.Success, Failed: pipeline.Permanent, Text: "bad"}, nil, failed(peer.Permanent, "bad")},
		"duplicate, deferred": {pipeline.Outcome{Class: pipeline.Success, Silent: true}, nil, nil},
		"aborted":             {pipeline.Outcome{Class: pipeline.Aborted}, nil, nil},
		"given up at the end": {Fail("boom"), func(i *pipeline.Invocation) { i.Leaving = leaving(pipeline.Revoked) }, nil},
		"not asked":           {Done(), func(i *pipeline.Invocation) { i.Event.Reply.Awaited = []string{"other"} }, nil},
		"no request":          {Done(), func(i *pipeline.Invocation) { i.Event.Reply = nil }, nil},
		"too late":            {Done(), func(i *pipeline.Invocation) { i.Event.Reply.Deadline = time.Now().Add(-grace - time.Second) }, nil},
		"a clock behind":      {Done(), func(i *pipeline.Invocation) { i.Event.Reply.Deadline = time.Now().Add(-grace / 2) }, value("null")},
	} {
		t.Run(name, func(t *testing.T) {
			w := open()
			assert.Equal(t, c.outcome, w.handle(t, c.outcome, c.change), "the event's own end stays")
			w.Close(t.Context())
			if c.want == nil {
				assert.Empty(t, w.answers)
				return
			}
			c.want.Target, c.want.Request, c.want.Subsystem = peer.ID{2}, [16]byte{1}, "billing"
			assert.Equal(t, []peer.Answer{*c.want}, w.answers)
		})
	}
}

// The answer of an event that was deferred comes with the end of the queue's head, which
// is another event than the call came with.
func TestTheHostLearnsWhetherItIsAsked(t *testing.T) {
	w := open()
	for _, awaited := range []string{"billing", "other"} {
		invocation := Invocation(t.Context(), "k")
		invocation.Event.Reply = &event.Reply{Awaited: []string{awaited}}
		w.Ask(pipeline.Func(func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
			assert.Equal(t, awaited == "billing", i.Asked)
			return Done()
		})).Handle(t.Context(), invocation)
	}
	w.Close(t.Context())
}

// An answer is tried again until its deadline; the event has ended long before.
func TestAnAnswerIsTriedUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open()
		w.fail = func(context.Context, peer.Answer) error { return &peer.Failure{Kind: peer.Unreachable, Text: "down"} }
		began := time.Now()
		w.handle(t, Done(), nil)
		assert.Zero(t, time.Since(began))
		w.idle.Wait()
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Greater(t, w.attempts, 5)
		assert.EqualValues(t, 1, w.Stats().Failed)

		w.attempts = 0
		w.fail = func(context.Context, peer.Answer) error {
			if w.attempts < 3 {
				return &peer.Failure{Kind: peer.Unreachable, Text: "down"}
			}
			return nil
		}
		w.handle(t, Done(), nil)
		w.idle.Wait()
		assert.Len(t, w.answers, 1)
		w.fail = func(context.Context, peer.Answer) error { return &peer.Failure{Kind: peer.Unwanted, Text: "late"} }
		w.attempts = 0
		w.handle(t, Done(), nil)
		w.Close(t.Context())
		assert.Equal(t, 1, w.attempts, "what nobody wants is not sent again")
		assert.Zero(t, w.Stats().Pending)
	})
}

func TestWhatIsTooLargeNamesItsSize(t *testing.T) {
	w := open()
	w.handle(t, pipeline.Outcome{Class: pipeline.Success, Response: make([]byte, peer.MaxPayload+1)}, nil)
	w.idle.Wait()
	w.fail = func(_ context.Context, answer peer.Answer) error {
		if answer.Error == nil {
			return &peer.Failure{Kind: peer.TooLarge, Text: "over the limit there"}
		}
		return nil
	}
	w.handle(t, pipeline.Outcome{Class: pipeline.Success, Response: make([]byte, 1234567)}, nil)
	w.Close(t.Context())
	for i, size := range []string{"4177921", "1234567"} {
		assert.Contains(t, w.answers[i].Error.Text, size)
	}
	assert.EqualValues(t, 2, w.Stats().Oversized)
}

// One client that cannot be reached takes a part of the room only, and what has none is
// dropped at once.
func TestTheRoomIsLimited(t *testing.T) {
	w := open()
	w.fail = func(ctx context.Context, _ peer.Answer) error {
		<-ctx.Done()
		return &peer.Failure{Kind: peer.Unreachable, Text: "down"}
	}
	to := func(n byte) func(*pipeline.Invocation) {
		return func(i *pipeline.Invocation) { i.Event.Reply.Peer = [16]byte{n} }
	}
	for range maxOfOne + 5 {
		w.handle(t, Done(), to(1))
	}
	assert.EqualValues(t, 5, w.Stats().Dropped)
	assert.Equal(t, maxOfOne, w.Stats().Pending)
	w.handle(t, Done(), to(2))
	assert.Equal(t, maxOfOne+1, w.Stats().Pending)
	big := pipeline.Outcome{Class: pipeline.Success, Response: []byte(strings.Repeat("x", peer.MaxPayload))}
	for range 40 {
		w.handle(t, big, to(3))
	}
	assert.LessOrEqual(t, w.bytes, maxBytes)
	for n := range maxAnswers {
		w.handle(t, Done(), to(byte(4+n/maxOfOne)))
	}
	assert.Equal(t, maxAnswers, w.Stats().Pending)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Close(ctx)
	assert.Zero(t, w.Stats().Pending)
	assert.Empty(t, w.of)
	w.handle(t, Done(), to(1))
	assert.Zero(t, w.Stats().Pending, "after the end nothing begins")
}

func TestAPanicIsAFaultOfTheClient(t *testing.T) {
	w := open()
	faults := make(chan error, 1)
	w.options.Fault = func(err error) { faults <- err }
	w.fail = func(context.Context, peer.Answer) error { panic("boom") }
	w.handle(t, Done(), nil)
	assert.ErrorContains(t, <-faults, "boom")
	w.Close(t.Context())
	assert.Zero(t, w.Stats().Pending)
}
