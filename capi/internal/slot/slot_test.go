package slot

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"prosody/capi/internal/queue"
	"prosody/core/event"
	"prosody/core/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	table *Table
	queue *queue.Queue
	host  *Host
	ends  chan pipeline.Outcome
}

func setUp(t testing.TB) *fixture {
	q, err := queue.New()
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(); _ = unix.Close(q.Descriptor()) })
	f := &fixture{table: New(), queue: q, ends: make(chan pipeline.Outcome, 64)}
	f.host = &Host{Table: f.table, Queue: q, Refuse: func() string { return "" }}
	return f
}

func (f *fixture) start(ctx, leaving context.Context) {
	go func() {
		f.ends <- f.host.Handle(ctx, &pipeline.Invocation{
			Event: &event.Event{Kind: event.Message, Key: "k"}, Leaving: leaving,
		})
	}()
}

type got struct {
	kind   uint16
	token  uint64
	reason uint32
}

// take gives the records that wait.
func (f *fixture) take() (list []got) {
	buffer := make([]byte, 1<<16)
	batch := f.queue.Take(buffer, 1<<20)
	for at := 0; at < batch.Size; {
		r := buffer[at:]
		list = append(list, got{
			binary.NativeEndian.Uint16(r[4:]), binary.NativeEndian.Uint64(r[8:]),
			binary.NativeEndian.Uint32(r[16:]),
		})
		at += int(binary.NativeEndian.Uint32(r))
	}
	return list
}

func success() pipeline.Outcome { return pipeline.Outcome{Class: pipeline.Success} }

func TestAnInvocationEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		f.start(t.Context(), t.Context())
		synctest.Wait()
		list := f.take()
		require.Len(t, list, 1)
		token := list[0].token
		assert.Equal(t, Live, f.table.Check(token))
		assert.Equal(t, Unknown, f.table.Complete(token+1<<32, success()))
		assert.Equal(t, Unknown, f.table.Complete(token+64, success()))
		assert.Equal(t, Live, f.table.Complete(token, success()))
		assert.Equal(t, Settled, f.table.Complete(token, success()))
		assert.Equal(t, pipeline.Success, (<-f.ends).Class)
		assert.Equal(t, Settled, f.table.Complete(token, success()))
		assert.Equal(t, Settled, f.table.Check(token))
		assert.Zero(t, f.table.Used())
	})
}

// The host cannot end what it has not seen.
func TestAQueuedInvocationIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		f.start(t.Context(), t.Context())
		synctest.Wait()
		guess := uint64(1)<<32 | uint64(f.table.turn.Load()%shards) // the first place of the shard
		assert.Equal(t, Unknown, f.table.Complete(guess, success()))
		f.queue.Close()
		assert.Equal(t, pipeline.Aborted, (<-f.ends).Class)
	})
}

func TestCancelAsksOnceAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		leaving, leave := context.WithCancelCause(t.Context())
		ctx, cancel := context.WithCancelCause(leaving)
		f.start(ctx, leaving)
		synctest.Wait()
		token := f.take()[0].token
		cancel(pipeline.TimedOut)
		synctest.Wait()
		assert.Equal(t, []got{{4, token, 1}}, f.take())
		assert.Equal(t, Stopped, f.table.Check(token))
		leave(pipeline.Revoked)
		synctest.Wait()
		assert.Empty(t, f.take())
		assert.Empty(t, f.ends, "it waits for the host's end")
		assert.Equal(t, Live, f.table.Complete(token, success()))
		assert.Equal(t, pipeline.Success, (<-f.ends).Class)
	})
}

func TestALostPartitionIsToldToTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		leaving, leave := context.WithCancelCause(t.Context())
		f.start(leaving, leaving)
		synctest.Wait()
		token := f.take()[0].token
		leave(pipeline.Lost)
		synctest.Wait()
		assert.Equal(t, []got{{4, token, 4}}, f.take())
		assert.Equal(t, Gone, f.table.Check(token))
		assert.Equal(t, Gone, f.table.Complete(token, success()))
		<-f.ends
		assert.Equal(t, Settled, f.table.Complete(token, success()))
	})
}

// A host that ends an event after the budget hears that it counts no more.
func TestTheEndOfTheBudgetIsToldToTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		leaving, leave := context.WithCancelCause(t.Context())
		over := make(chan struct{})
		go func() {
			f.ends <- f.host.Handle(leaving, &pipeline.Invocation{
				Event: &event.Event{Kind: event.Timer, Timestamp: 7000}, Leaving: leaving, Over: over,
			})
		}()
		synctest.Wait()
		token := f.take()[0].token
		leave(pipeline.Revoked)
		synctest.Wait()
		assert.Equal(t, Stopped, f.table.Check(token))
		close(over)
		synctest.Wait()
		assert.Equal(t, Gone, f.table.Check(token))
		assert.Equal(t, Gone, f.table.Complete(token, success()))
		<-f.ends
	})
}

// An event that the host has not seen when its time is over does not reach it any more.
func TestAnUnseenEventIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.start(ctx, t.Context())
		end := <-f.ends
		assert.Equal(t, pipeline.Transient, end.Class)
		assert.Contains(t, end.Text, "not delivered")
		assert.Empty(t, f.take())
		assert.Zero(t, f.table.Used())
	})
}

func TestADestroyedQueueFailsItsInvocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t)
		f.start(t.Context(), t.Context())
		synctest.Wait()
		token := f.take()[0].token
		f.start(t.Context(), t.Context())
		synctest.Wait()
		f.queue.Close()
		f.table.Fail(f.queue, destroyed)
		f.start(t.Context(), t.Context())
		for range 3 {
			assert.Equal(t, gone(destroyed), <-f.ends)
		}
		assert.Equal(t, Settled, f.table.Complete(token, success()))
		assert.Zero(t, f.table.Used())
	})
}

func TestFailSparesOtherQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := setUp(t), setUp(t)
		f.start(t.Context(), t.Context())
		synctest.Wait()
		token := f.take()[0].token
		f.table.Fail(other.queue, destroyed)
		assert.Equal(t, Live, f.table.Check(token))
		f.table.Fail(nil, "fault")
		assert.Equal(t, "fault", (<-f.ends).Text)
	})
}

func TestARefusingLibraryFailsEvents(t *testing.T) {
	f := setUp(t)
	f.host.Refuse = func() string { return "fault" }
	f.start(t.Context(), t.Context())
	assert.Equal(t, gone("fault"), <-f.ends)
}

// Many handlers and readers: each event ends once, with its own outcome.
func TestManyAtOnce(t *testing.T) {
	const workers, each, readers = 32, 300, 4
	f := setUp(t)
	done := make(chan struct{})
	var handlers, hosts sync.WaitGroup
	for range readers {
		hosts.Go(func() {
			for {
				for _, r := range f.take() {
					if r.kind != 1 {
						continue
					}
					text := string(binary.NativeEndian.AppendUint64(nil, r.token))
					assert.Contains(t, []Verdict{Live}, f.table.Complete(r.token, pipeline.Outcome{Class: pipeline.Success, Text: text}))
					assert.Equal(t, Settled, f.table.Complete(r.token, success()))
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	tokens := make([]map[string]bool, workers)
	for w := range workers {
		tokens[w] = map[string]bool{}
		handlers.Go(func() {
			for range each {
				end := f.host.Handle(t.Context(), &pipeline.Invocation{Event: &event.Event{Key: "k"}, Leaving: t.Context()})
				assert.Equal(t, pipeline.Success, end.Class)
				assert.False(t, tokens[w][end.Text])
				tokens[w][end.Text] = true
			}
		})
	}
	handlers.Wait()
	close(done)
	hosts.Wait()
	all := map[string]bool{}
	for _, own := range tokens {
		for token := range own {
			assert.False(t, all[token], "a token was used twice")
			all[token] = true
		}
	}
	assert.Zero(t, f.table.Used())
}

func BenchmarkHandle(b *testing.B) {
	f := setUp(b)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			select {
			case <-stop:
				return
			default:
			}
			batch := f.queue.Take(buffer, 1<<20)
			for at := 0; at < batch.Size; at += int(binary.NativeEndian.Uint32(buffer[at:])) {
				f.table.Complete(binary.NativeEndian.Uint64(buffer[at+8:]), success())
			}
			if batch.Count == 0 {
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(f.queue.Descriptor()), Events: unix.POLLIN}}, 10)
			}
		}
	}()
	invocation := &pipeline.Invocation{Event: &event.Event{Topic: "topic", Key: "key", Payload: make([]byte, 100)}, Leaving: b.Context()}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.host.Handle(ctx, invocation)
		}
	})
}
