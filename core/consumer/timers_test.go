package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/consumer"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/kafka"
	broker "prosody/core/kafka/memory"
	"prosody/core/pipeline"
	"prosody/core/pipeline/durable"
	"prosody/core/pipeline/mode"
	"prosody/core/pipeline/schedule"
	stores "prosody/core/store"
	"prosody/core/store/memory"
	"prosody/core/timer"
)

// keeping is a member with records of keys, timers and the chain of pipeline mode.
type keeping struct {
	durable.Ledger
	timers *timer.Timers
	chain  *mode.Chain
	member atomic.Pointer[consumer.Consumer]
}

func (k *keeping) Changed(lease *entity.Lease, key string, change entity.Change) {
	k.timers.Changed(lease, key, change)
}

func (k *keeping) Found(lease *entity.Lease, key string, seconds []int64, due int64) {
	k.timers.Found(lease, key, seconds, due)
}

func (k *keeping) Assign(name kafka.Partition, leaving context.Context) any {
	lease := k.Ledger.Assign(name, leaving)
	k.timers.Assign(lease.(*entity.Lease))
	return lease
}

func (k *keeping) End(lease any) {
	k.timers.Leave(lease.(*entity.Lease))
	k.Ledger.End(lease)
}

func (b *bench) keep(store stores.Store, host pipeline.Func) *keeping {
	k := &keeping{}
	k.Keeper = entity.New(entity.Options{Store: store, Group: group, Slab: time.Minute, Observer: k})
	k.timers = timer.New(timer.Options{
		Index: store, Slab: time.Minute, Clock: clock.Real{}, Log: silent(),
		Count: func(topic string) (int, bool) {
			if member := k.member.Load(); member != nil {
				return member.Count(topic)
			}
			return 0, false
		},
		Open: func(ctx context.Context, lease timer.Lease, key string) (timer.Key, error) {
			return lease.(*entity.Lease).Open(ctx, key)
		},
	})
	var err error
	k.chain, err = mode.New(mode.Options{
		Mode: mode.Pipeline, Host: host, RetryBase: 10 * time.Millisecond, MaxRetryDelay: time.Second,
		Schedule: schedule.Options{Concurrency: 32}, Defer: true, Base: time.Second, Most: time.Minute, Clock: clock.Real{}, Log: silent(),
	})
	require.NoError(b, err)
	options := b.options(k.chain.Handle)
	options.Ledger, options.Timers = k, k.timers
	k.member.Store(b.start(options))
	return k
}

func (b *bench) give(k *keeping) {
	b.Helper()
	b.stop(k.member.Load())
	k.timers.Close()
	k.chain.Close()
}

// book notes what happened.
type book struct {
	mutex sync.Mutex
	lines []string
	runs  map[string]bool
}

func (n *book) begin(t testing.TB, e *event.Event) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.runs == nil {
		n.runs = map[string]bool{}
	}
	assert.False(t, n.runs[e.Key], "two of key %s at once", e.Key)
	n.runs[e.Key] = true
	what := string(e.Payload)
	if e.Kind == event.Timer {
		what = "timer"
		assert.GreaterOrEqual(t, time.Now().UnixMilli(), e.Timestamp, "early")
	}
	n.lines = append(n.lines, e.Key+" "+what)
}

func (n *book) end(e *event.Event) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.runs[e.Key] = false
}

func (n *book) read() []string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return append([]string(nil), n.lines...)
}

func TestTimersTakeTheirTurnAndCanBeTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, notes := newBench(t, 2), &book{}
		store := memory.NewRegistry(memory.Settings{}).Store("test")
		host := func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			notes.begin(t, i.Event)
			defer notes.end(i.Event)
			now := time.Now().Unix()
			switch string(i.Event.Payload) {
			case `"schedule"`:
				assert.NoError(t, i.Txn.Schedule(ctx, now+2, false))
			case `"busy"`:
				time.Sleep(5 * time.Second)
			case `"clear"`:
				time.Sleep(5 * time.Second)
				assert.NoError(t, i.Txn.Clear(ctx, false))
			}
			return pipeline.Outcome{Class: pipeline.Success}
		}
		k := b.keep(store, host)
		for _, key := range []string{"a", "b"} {
			b.send(key, `"schedule"`)
		}
		time.Sleep(time.Second)
		b.send("a", `"busy"`)
		b.send("b", `"clear"`)
		time.Sleep(10 * time.Second)
		b.send("a", `"end"`)
		b.send("b", `"end"`)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{
			`a "schedule"`, `a "busy"`, `a timer`, `a "end"`, `b "schedule"`, `b "clear"`, `b "end"`,
		}, notes.read())
		assert.Zero(t, k.timers.Snapshot().Firing)
		b.give(k)
	})
}

// Timers and deferred events go with their partition from member to member, and none is
// lost or doubled.
func TestTimersMoveWithTheirPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 60
		b, notes := newBench(t, 2), &book{}
		store := memory.NewRegistry(memory.Settings{}).Store("test")
		var mutex sync.Mutex
		failed := map[string]bool{}
		host := func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			if i.Event.Kind == event.Message && !i.Demand.Failure {
				mutex.Lock()
				first := !failed[i.Event.Key]
				failed[i.Event.Key] = true
				mutex.Unlock()
				if first && len(i.Event.Key)%2 == 0 {
					return pipeline.Outcome{Class: pipeline.Transient, Text: "later"}
				}
			}
			notes.begin(t, i.Event)
			defer notes.end(i.Event)
			time.Sleep(50 * time.Millisecond)
			if i.Event.Kind == event.Message {
				if err := i.Txn.Schedule(ctx, time.Now().Unix()+20, false); err != nil {
					return pipeline.Outcome{Class: pipeline.Transient, Text: err.Error()}
				}
			}
			return pipeline.Outcome{Class: pipeline.Success}
		}
		members := []*keeping{b.keep(store, host)}
		for n := range keys {
			b.send(fmt.Sprint("key-", n), `"1"`)
		}
		time.Sleep(500 * time.Millisecond)
		members = append(members, b.keep(store, host))
		time.Sleep(3 * time.Second)
		b.give(members[0])
		time.Sleep(10 * time.Second)
		b.give(members[1])
		last := b.keep(store, host)
		time.Sleep(2 * time.Minute)
		seen := map[string]int{}
		for _, line := range notes.read() {
			seen[line]++
		}
		assert.Len(t, seen, 2*keys)
		for line, times := range seen {
			assert.Equal(t, 1, times, line)
		}
		b.give(last)
	})
}

// A burst of overdue timers does not keep messages of other keys waiting.
func TestMessagesAreServedAmongOverdueTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2)
		store := memory.NewRegistry(memory.Settings{}).Store("test")
		var mutex sync.Mutex
		timers, served := 0, time.Time{}
		host := func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			switch {
			case i.Event.Kind == event.Timer:
				time.Sleep(100 * time.Millisecond)
				mutex.Lock()
				timers++
				mutex.Unlock()
			case string(i.Event.Payload) == `"live"`:
				mutex.Lock()
				served = time.Now()
				mutex.Unlock()
			default:
				assert.NoError(t, i.Txn.Schedule(ctx, time.Now().Unix()+5, false))
			}
			return pipeline.Outcome{Class: pipeline.Success}
		}
		k := b.keep(store, host)
		for n := range 3000 {
			b.send(fmt.Sprint("key-", n), `"1"`)
		}
		time.Sleep(5500 * time.Millisecond)
		sent := time.Now()
		b.send("other", `"live"`)
		time.Sleep(time.Second)
		mutex.Lock()
		assert.Less(t, served.Sub(sent), time.Second)
		assert.False(t, served.IsZero())
		assert.Less(t, timers, 3000, "timers are still at work")
		mutex.Unlock()
		time.Sleep(time.Minute)
		mutex.Lock()
		assert.Equal(t, 3000, timers)
		mutex.Unlock()
		b.give(k)
	})
}

// When a topic gets more partitions, timers and deferred events follow their keys.
func TestTimersFollowTheirKeysToNewPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 40
		b, notes := newBench(t, 2), &book{}
		store := memory.NewRegistry(memory.Settings{}).Store("test")
		var mutex sync.Mutex
		places := map[string]int32{}
		host := func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			notes.begin(t, i.Event)
			defer notes.end(i.Event)
			if i.Event.Kind == event.Message {
				assert.NoError(t, i.Txn.Schedule(ctx, time.Now().Unix()+600, false))
			} else {
				mutex.Lock()
				places[i.Event.Key] = i.Event.Partition
				mutex.Unlock()
			}
			return pipeline.Outcome{Class: pipeline.Success}
		}
		members := []*keeping{b.keep(store, host), b.keep(store, host)}
		time.Sleep(5 * time.Second)
		for n := range keys {
			b.send(fmt.Sprint("key-", n), `"1"`)
		}
		time.Sleep(time.Minute)
		admin, err := b.broker.Admin(nil, nil)
		require.NoError(t, err)
		require.NoError(t, admin.(*broker.Admin).AddPartitions(t.Context(), topic, 7))
		time.Sleep(20 * time.Minute)
		seen := map[string]int{}
		for _, line := range notes.read() {
			seen[line]++
		}
		assert.Len(t, seen, 2*keys)
		for line, times := range seen {
			assert.Equal(t, 1, times, line)
		}
		for key, place := range places {
			assert.EqualValues(t, crc32.ChecksumIEEE([]byte(key))%7, place, key)
		}
		for _, member := range members {
			b.give(member)
		}
	})
}

// A timer that is durable although the answer was lost fires without a restart.
func TestATimerWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, notes := newBench(t, 2), &book{}
		store := memory.NewRegistry(memory.Settings{}).Store("test")
		due := time.Now().Unix() + 30
		var silent sync.Map // keys whose writes get no answer
		store.Fail(func(op string, key stores.Key) error {
			if _, found := silent.Load(key.Key); found && op == "Apply" {
				return memory.Lost(errors.New("no answer"))
			}
			return nil
		})
		host := func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			notes.begin(t, i.Event)
			defer notes.end(i.Event)
			if i.Event.Kind == event.Message && !i.Demand.Failure {
				silent.Store(i.Event.Key, true)
				err := i.Txn.Schedule(ctx, due, true)
				silent.Delete(i.Event.Key)
				assert.ErrorContains(t, err, "no answer")
				return pipeline.Outcome{Class: pipeline.Transient, Text: err.Error()}
			}
			if i.Event.Kind == event.Message && i.Event.Key == "again" {
				assert.NoError(t, i.Txn.Schedule(ctx, due, false))
			}
			return pipeline.Outcome{Class: pipeline.Success}
		}
		k := b.keep(store, host)
		b.send("once", `"1"`)
		b.send("again", `"1"`)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{
			`once "1"`, `once "1"`, "once timer", `again "1"`, `again "1"`, "again timer",
		}, notes.read())
		b.give(k)
	})
}
