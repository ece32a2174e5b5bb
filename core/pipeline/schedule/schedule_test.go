package schedule

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"prosody/core/clock"
	"prosody/core/pipeline"
	. "prosody/core/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(permits int) Options {
	return Options{
		Concurrency: permits, FailureWeight: 0.3, MaxWait: 2 * time.Minute, WaitWeight: 200, Cache: 100,
		Clock: clock.Real{}, Counts: &pipeline.Counts{},
	}
}

// bench runs handlers with permits and notes the order in which they start.
type bench struct {
	t         *testing.T
	scheduler *Scheduler
	mutex     sync.Mutex
	order     []string
	used      map[string]time.Duration
	running   int
}

func newBench(t *testing.T, o Options) *bench {
	return &bench{t: t, scheduler: New(o), used: map[string]time.Duration{}}
}

// run handles an event of a key in a goroutine of its own and lets it arrive.
func (b *bench) run(leaving context.Context, invocation *pipeline.Invocation, take time.Duration) {
	name := invocation.Event.Key
	handler := b.scheduler.Wrap(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		b.mutex.Lock()
		b.order = append(b.order, name)
		b.used[name] += take
		b.running++
		assert.LessOrEqual(b.t, b.running, b.scheduler.options.Concurrency)
		b.mutex.Unlock()
		time.Sleep(take)
		b.mutex.Lock()
		b.running--
		b.mutex.Unlock()
		return Done()
	}))
	go handler.Handle(leaving, invocation)
	synctest.Wait()
}

// started takes the order so far.
func (b *bench) started() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	order := b.order
	b.order = nil
	return order
}

// spent sums the time of the keys that match.
func (b *bench) spent(match func(key string) bool) (seconds float64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for key, used := range b.used {
		if match(key) {
			seconds += used.Seconds()
		}
	}
	return seconds
}

func (b *bench) first(key string, take time.Duration) {
	b.run(b.t.Context(), Invocation(b.t.Context(), key), take)
}

func (b *bench) again(key string, take time.Duration) {
	invocation := Invocation(b.t.Context(), key)
	invocation.Demand = pipeline.Demand{Failure: true, Retry: 1}
	b.run(b.t.Context(), invocation, take)
}

func (s *Scheduler) remembered() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.levels.Len()
}

// pass lets time go by, and everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLimitHoldsAndNobodyWaitsForNothing(t *testing.T) {
	type task struct{ Key, Take, Gap, Patience, Class int }
	tasks := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) task {
		return task{
			Key: rapid.IntRange(0, 5).Draw(r, "key"), Take: rapid.IntRange(0, 20).Draw(r, "take"),
			Gap: rapid.IntRange(0, 4).Draw(r, "gap"), Patience: rapid.IntRange(0, 40).Draw(r, "patience"),
			Class: rapid.IntRange(0, 1).Draw(r, "class"),
		}
	}), 1, 60)
	rapid.Check(t, func(r *rapid.T) {
		all, permits := tasks.Draw(r, "tasks"), rapid.IntRange(1, 4).Draw(r, "permits")
		weight := rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(r, "weight")
		synctest.Test(t, func(t *testing.T) {
			o := options(permits)
			o.FailureWeight, o.Cache = weight, 3
			b := newBench(t, o)
			for _, task := range all {
				leaving, stop := context.WithTimeout(t.Context(), time.Duration(task.Patience)*time.Millisecond)
				defer stop()
				invocation := Invocation(leaving, fmt.Sprint(task.Key))
				invocation.Demand.Failure = task.Class == 1
				b.run(leaving, invocation, time.Duration(task.Take)*time.Millisecond)
				pass(time.Duration(task.Gap) * time.Millisecond)
				if b.scheduler.Waiting() > 0 {
					assert.Equal(t, permits, b.scheduler.Running(), "a permit is free and somebody waits")
				}
				assert.EqualValues(t, b.scheduler.Waiting(), o.Counts.Waiting.Load())
				assert.LessOrEqual(t, b.scheduler.remembered(), 3)
			}
			pass(time.Hour)
			assert.Zero(t, b.scheduler.Running())
			assert.Zero(t, b.scheduler.Waiting())
			for _, c := range b.scheduler.classes {
				assert.Zero(t, c.running)
				assert.Zero(t, c.starts)
			}
		})
	})
}

func TestEqualsGoInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, options(1))
		var want []string
		for n := range 20 {
			want = append(want, fmt.Sprint(n))
			b.first(fmt.Sprint(n), time.Second)
		}
		pass(time.Hour)
		assert.Equal(t, want, b.started())
	})
}

func TestTheKeyThatUsedTheLeastGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, options(1))
		for _, key := range []string{"greedy", "modest", "greedy"} {
			b.first(key, map[string]time.Duration{"greedy": 3 * time.Second, "modest": 4 * time.Second}[key])
			pass(10 * time.Second)
		}
		b.started()
		b.first("running", time.Second)
		b.first("greedy", time.Second)
		b.first("modest", time.Second)
		b.first("new", time.Second)
		pass(time.Minute)
		assert.Equal(t, []string{"running", "new", "modest", "greedy"}, b.started())
	})
}

func TestKeysOfOtherPartitionsAreOtherKeys(t *testing.T) {
	s := New(options(1))
	names := map[uint64]bool{}
	for _, place := range []struct {
		topic     string
		partition int32
		key       string
	}{{"orders", 3, "k"}, {"orders", 4, "k"}, {"order", 3, "sk"}, {"orders", 3, "K"}, {"ordersk", 3, ""}} {
		e := Event(place.key)
		e.Topic, e.Partition = place.topic, place.partition
		names[s.account(e)] = true
	}
	assert.Len(t, names, 5)
}

func TestClassesShareByWeight(t *testing.T) {
	for weight, want := range map[float64]float64{0.3: 0.3, 0.5: 0.5, 0.9: 0.9} {
		synctest.Test(t, func(t *testing.T) {
			o := options(1)
			o.FailureWeight = weight
			b := newBench(t, o)
			// Retries take longer, so counting calls instead of time would show.
			for n := range 400 {
				b.first(fmt.Sprint("n", n), 10*time.Millisecond)
				b.again(fmt.Sprint("f", n), 30*time.Millisecond)
			}
			pass(2 * time.Second)
			again := b.spent(func(key string) bool { return key[0] == 'f' })
			all := b.spent(func(string) bool { return true })
			assert.InDelta(t, want, again/all, 0.05)
			pass(time.Hour)
		})
	}
}

func TestAClassWithoutWeightWaitsForTheOther(t *testing.T) {
	for weight, want := range map[float64][]string{
		0: {"running", "n1", "n2", "f1", "f2"},
		1: {"running", "f1", "f2", "n1", "n2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := options(1)
			o.FailureWeight = weight
			b := newBench(t, o)
			b.first("running", time.Second)
			b.again("f1", time.Second)
			b.first("n1", time.Second)
			b.again("f2", time.Second)
			b.first("n2", time.Second)
			pass(time.Minute)
			assert.Equal(t, want, b.started())
		})
	}
}

func TestTimeOfRunningHandlersCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, options(2))
		b.again("long", time.Hour) // holds one permit and has never ended
		b.first("short", time.Second)
		for n := range 10 {
			b.again(fmt.Sprint("f", n), time.Second)
			b.first(fmt.Sprint("n", n), time.Second)
		}
		pass(5 * time.Second)
		assert.Equal(t, []string{"long", "short", "n0", "n1"}, b.started()[:4])
		pass(2 * time.Hour)
	})
}

func TestALongWaitMakesUpForUsedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, options(1))
		b.first("greedy", 100*time.Second)
		pass(100 * time.Second)
		b.started()
		start := time.Now()
		b.first("running", time.Second)
		b.first("greedy", time.Second)
		var waited time.Duration
		for n := 0; waited == 0; n++ {
			b.first(fmt.Sprint("new", n), time.Second) // one always waits beside it
			pass(time.Second)
			if b.spent(func(key string) bool { return key == "greedy" }) > 100 {
				waited = time.Since(start)
			}
			if n > 1000 {
				t.Fatal("it starves")
			}
		}
		// 100 s decay to about 60 while 200*(w/120)^2 grows to it.
		assert.InDelta(t, 68, waited.Seconds(), 3)
		pass(time.Hour)
	})
}

func TestWaitsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		leave bool
		want  pipeline.Class
	}{"with leaving": {true, pipeline.Aborted}, "with the context": {false, pipeline.Transient}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, options(1))
				b.first("running", time.Hour)
				leaving, leave := context.WithCancelCause(t.Context())
				defer leave(nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				begin := time.Now()
				time.AfterFunc(time.Second, func() {
					if c.leave {
						leave(pipeline.Revoked)
					} else {
						cancel(pipeline.TimedOut)
					}
				})
				host := uncalled(t)
				outcome := b.scheduler.Wrap(host).Handle(ctx, Invocation(leaving, "k"))
				assert.Equal(t, c.want, outcome.Class)
				assert.Equal(t, time.Second, time.Since(begin))
				assert.Zero(t, b.scheduler.Waiting())
				pass(2 * time.Hour)
				assert.Zero(t, b.scheduler.Running())
			})
		})
	}
}

func TestAPermitThatComesTooLateIsPassedOn(t *testing.T) {
	s := New(options(1))
	first, err := s.acquire(t.Context(), Invocation(t.Context(), "first"))
	assert.NoError(t, err)
	late := s.enqueue(permit{account: 1, class: failure}, s.now())
	next := s.enqueue(permit{account: 2}, s.now()+1)
	s.classes[normal].used = 1 // the other class goes first
	s.release(first)
	assert.True(t, late.granted)
	s.withdraw(late)
	<-next.ready
	assert.Equal(t, 1, s.Running())
	s.release(next.permit)
	assert.Zero(t, s.Running())
	assert.Zero(t, s.classes[failure].running)
}

// uncalled is a host that must not be called.
func uncalled(t *testing.T) pipeline.Handler {
	return pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		t.Error("called without a permit")
		return Done()
	})
}

func TestAPanicGivesThePermitBack(t *testing.T) {
	s := New(options(1))
	handler := s.Wrap(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { panic("boom") }))
	assert.Panics(t, func() { handler.Handle(t.Context(), Invocation(t.Context(), "k")) })
	assert.Zero(t, s.Running())
}

// Calm lasts until the last waiter has its permit or gives up, but no longer than asked.
func TestCalm(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiters int
		most    time.Duration
		ends    time.Duration // of the contexts of the waiters
		stop    time.Duration // of the context of the one that waits for calm
		want    time.Duration
	}{
		{"nobody waits", 0, time.Minute, time.Hour, time.Hour, 0},
		{"until all have started", 3, time.Minute, time.Hour, time.Hour, 3 * time.Second},
		{"until all have given up", 3, time.Minute, time.Second / 2, time.Hour, time.Second / 2},
		{"at most", 3, 2 * time.Second, time.Hour, time.Hour, 2 * time.Second},
		{"until its context ends", 3, time.Minute, time.Hour, time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, options(1))
				b.first("busy", time.Second)
				for n := range c.waiters {
					leaving, stop := context.WithTimeout(t.Context(), c.ends)
					defer stop()
					b.run(leaving, Invocation(leaving, fmt.Sprint(n)), time.Second)
				}
				begin := time.Now()
				for range 2 {
					go b.scheduler.Calm(t.Context(), time.Hour) // others may wait for it too
				}
				ctx, stop := context.WithTimeout(t.Context(), c.stop)
				defer stop()
				b.scheduler.Calm(ctx, c.most)
				assert.Equal(t, c.want, time.Since(begin))
				pass(time.Hour)
			})
		})
	}
}

func TestLevels(t *testing.T) {
	assert.Zero(t, unused.at(time.Hour))
	used := unused.add(8*time.Second, time.Hour)
	assert.InDelta(t, 8, used.at(time.Hour), 1e-9)
	assert.InDelta(t, 4, used.at(time.Hour+halfLife), 1e-9)
	assert.InDelta(t, 5, used.add(time.Second, time.Hour+halfLife).at(time.Hour+halfLife), 1e-9)
	rapid.Check(t, func(r *rapid.T) {
		// Whatever happens at whatever age, levels compare as the seconds that are left.
		then := time.Duration(rapid.Int64Range(0, int64(20*365*24*time.Hour)).Draw(r, "then"))
		gap := time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(r, "gap"))
		one := rapid.Float64Range(0.001, 1000).Draw(r, "one")
		two := rapid.Float64Range(0.001, 1000).Draw(r, "two")
		a := unused.add(time.Duration(one*1e9), then)
		b := unused.add(time.Duration(two*1e9), then+gap)
		left := one * math.Exp2(-float64(gap)/float64(halfLife))
		if math.Abs(left/two-1) > 1e-6 {
			assert.Equal(r, left < two, a < b)
		}
		assert.InEpsilon(r, left, a.at(then+gap), 1e-6)
	})
}

func BenchmarkFree(b *testing.B) {
	o := options(32)
	o.Cache = 8192
	s := New(o)
	handler := s.Wrap(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return Done() }))
	ctx := context.Background()
	for _, keys := range []int{1, 1000, 100000} {
		b.Run(fmt.Sprint(keys, "keys"), func(b *testing.B) {
			var all []*pipeline.Invocation
			for n := range keys {
				all = append(all, Invocation(ctx, fmt.Sprint("customer-", n)))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				handler.Handle(ctx, all[n%keys])
				n++
			}
		})
	}
}

func BenchmarkContended(b *testing.B) {
	o := options(4)
	o.Cache = 8192
	s := New(o)
	handler := s.Wrap(pipeline.Func(func(context.Context, *pipeline.Invocation) pipeline.Outcome { return Done() }))
	ctx := context.Background()
	b.SetParallelism(512)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		invocation := Invocation(ctx, fmt.Sprintf("%p", pb))
		for pb.Next() {
			handler.Handle(ctx, invocation)
		}
	})
}
