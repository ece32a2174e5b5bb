package topic

import (
	"context"
	"sync"

	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/observe/trace"
	"prosody/core/pipeline"
)

// Story tells what happens to the events of a consumer. It has three places in the chain:
// Event is around the durable layer, Waits around the deferral, Attempt around the guard
// of the host. A nil one leaves the chain as it is.
type Story struct {
	Emitter *Emitter
	Group   string
}

// note is what is told only when an event's effects are durable.
type note struct {
	head   event.Kind // of the deferred event that was retried
	timers []Record   // what the attempt has changed
	retry  Record     // when the key's queue is tried again; Kind is empty: nothing changes
}

type within struct{}

// Event tells of timers once they are durable.
func (s *Story) Event(next pipeline.Handler) pipeline.Handler {
	if s == nil {
		return next
	}
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		kept := &note{}
		outcome := next.Handle(context.WithValue(ctx, within{}, kept), invocation)
		if outcome.Class == pipeline.Success {
			for i := range kept.timers {
				s.Emitter.Tell(&kept.timers[i])
			}
			if kept.retry.Kind != "" {
				s.Emitter.Tell(&kept.retry)
			}
		}
		return outcome
	})
}

// Waits notes when the retry of a deferred event moves.
func (s *Story) Waits(next pipeline.Handler) pipeline.Handler {
	if s == nil {
		return next
	}
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		outcome := next.Handle(ctx, invocation)
		txn, begun := invocation.Txn.(*entity.Txn)
		kept, told := ctx.Value(within{}).(*note)
		if !begun || txn == nil || !told || outcome.Class != pipeline.Deferred && outcome.Class != pipeline.Success {
			return outcome
		}
		before, err := invocation.Entity.Queue(ctx)
		after := txn.Queue()
		if err != nil || after.Head == after.Tail || after.Due == before.Due {
			return outcome
		}
		kept.retry = s.about(invocation, Scheduled)
		kept.retry.Second, kept.retry.Timer = after.Due/1000, waits(invocation.Event.Kind)
		if invocation.Event.Kind == event.Retry {
			kept.retry.Timer = waits(kept.head)
		}
		return outcome
	})
}

// Attempt tells of the calls of the host, and notes what they change of timers.
func (s *Story) Attempt(next pipeline.Handler) pipeline.Handler {
	if s == nil {
		return next
	}
	return pipeline.Func(func(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		kept, told := ctx.Value(within{}).(*note)
		if !told {
			kept = &note{}
		}
		kept.timers = nil
		retried := s.retried(ctx, invocation)
		kept.head = invocation.Event.Kind
		s.tell(invocation, retried, Dispatched, TimerStarted, pipeline.Outcome{Class: pipeline.Success})
		own := invocation.Txn
		if own != nil {
			invocation.Txn = &txn{Txn: own, story: s, about: s.about(invocation, Scheduled), note: kept}
		}
		outcome := pipeline.Outcome{Class: pipeline.Aborted, Text: "panicked"}
		defer func() {
			invocation.Txn = own
			if outcome.Class == pipeline.Success {
				s.tell(invocation, retried, Succeeded, TimerSucceeded, outcome)
				return
			}
			kept.timers = nil
			s.tell(invocation, retried, Failed, TimerFailed, outcome)
		}()
		outcome = next.Handle(ctx, invocation)
		return outcome
	})
}

// retried is when the deferred event of the invocation was due, in seconds; -1: it was
// not deferred.
func (s *Story) retried(ctx context.Context, invocation *pipeline.Invocation) int64 {
	if invocation.Next == 0 || invocation.Entity == nil {
		return -1
	}
	queue, err := invocation.Entity.Queue(ctx)
	if err != nil {
		return -1
	}
	return queue.Due / 1000
}

// tell tells of an attempt, and of the timer that retried a deferred event around it.
func (s *Story) tell(invocation *pipeline.Invocation, retried int64, message, timer Kind, outcome pipeline.Outcome) {
	about := s.about(invocation, message)
	about.Demand = demand(invocation.Demand)
	if outcome.Class != pipeline.Success {
		about.Category, about.Exception = category(outcome.Class), outcome.Text
	}
	around := about
	around.Kind, around.Second, around.Timer = timer, retried, waits(invocation.Event.Kind)
	if retried >= 0 && timer == TimerStarted {
		s.Emitter.Tell(&around)
	}
	if invocation.Event.Kind == event.Timer {
		about.Kind, about.Timer, about.Second = timer, application, invocation.Event.Timestamp/1000
	}
	s.Emitter.Tell(&about)
	if retried >= 0 && timer != TimerStarted {
		s.Emitter.Tell(&around)
	}
}

// about begins a record about the event of an invocation.
func (s *Story) about(invocation *pipeline.Invocation, kind Kind) Record {
	of := invocation.Event
	return Record{
		Kind: kind, Topic: of.Topic, Partition: of.Partition, Key: of.Key, Offset: of.Offset, Source: s.Group,
		Trace: trace.Text(invocation.Trace()),
	}
}

// txn is a transaction that notes what it changes of timers.
type txn struct {
	pipeline.Txn
	story *Story
	about Record

	mutex sync.Mutex
	note  *note
}

// told notes changes, or tells of them when they are durable already.
func (t *txn) told(immediate bool, kind Kind, seconds ...int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, second := range seconds {
		made := t.about
		made.Kind, made.Second, made.Timer, made.Time = kind, second, application, t.story.Emitter.options.Clock.Now()
		if immediate {
			t.story.Emitter.Tell(&made)
			continue
		}
		t.note.timers = append(t.note.timers, made)
	}
}

// others lists the timers that there are, but for one second.
func (t *txn) others(ctx context.Context, immediate bool, but int64) []int64 {
	if !immediate {
		ctx = over // the host waits: only memory is asked
	}
	seconds, err := t.Txn.Scheduled(ctx)
	if err != nil {
		return nil
	}
	list := seconds[:0]
	for _, second := range seconds {
		if second != but {
			list = append(list, second)
		}
	}
	return list
}

// Schedule tells of the timer.
func (t *txn) Schedule(ctx context.Context, second int64, immediate bool) error {
	err := t.Txn.Schedule(ctx, second, immediate)
	if err == nil {
		t.told(immediate, Scheduled, second)
	}
	return err
}

// Replace tells of the timers that go and of the one that comes.
func (t *txn) Replace(ctx context.Context, second int64, immediate bool) error {
	gone := t.others(ctx, immediate, second)
	err := t.Txn.Replace(ctx, second, immediate)
	if err == nil {
		t.told(immediate, Cancelled, gone...)
		t.told(immediate, Scheduled, second)
	}
	return err
}

// Unschedule tells of the timer, whether there is one or not.
func (t *txn) Unschedule(ctx context.Context, second int64, immediate bool) error {
	err := t.Txn.Unschedule(ctx, second, immediate)
	if err == nil {
		t.told(immediate, Cancelled, second)
	}
	return err
}

// Clear tells of the timers that go.
func (t *txn) Clear(ctx context.Context, immediate bool) error {
	gone := t.others(ctx, immediate, never)
	err := t.Txn.Clear(ctx, immediate)
	if err == nil {
		t.told(immediate, Cancelled, gone...)
	}
	return err
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// never is the second of no timer.
const never = -1
