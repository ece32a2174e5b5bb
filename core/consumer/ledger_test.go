package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/consumer"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// diary is a ledger that notes its calls and fails when told.
type diary struct {
	mutex   sync.Mutex
	lines   []string
	leases  int
	failing []kafka.Partition
	flushed func()
}

func (b *diary) line(format string, values ...any) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, values...))
}

func (b *diary) noted() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return slices.Clone(b.lines)
}

func (b *diary) has(line string) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return slices.Contains(b.lines, line)
}

func (b *diary) fail(names ...kafka.Partition) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.failing = names
}

func (b *diary) Assign(name kafka.Partition, leaving context.Context) any {
	b.mutex.Lock()
	b.leases++
	lease := fmt.Sprint("lease ", b.leases)
	b.mutex.Unlock()
	b.line("assign %d %s %v", name.Index, lease, leaving.Err())
	return lease
}

func (b *diary) Flush(_ context.Context, names []kafka.Partition) (failed []kafka.Partition, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, name := range names {
		b.lines = append(b.lines, fmt.Sprintf("flush %d", name.Index))
		if slices.Contains(b.failing, name) {
			failed, err = append(failed, name), errors.New("the store is down")
		}
	}
	if b.flushed != nil {
		b.flushed()
	}
	return failed, err
}

func (b *diary) Fence(lease any) { b.line("fence %s", lease) }
func (b *diary) End(lease any)   { b.line("end %s", lease) }
func (b *diary) Hold(held bool)  { b.line("hold %v", held) }

// What cannot be noted durably is not committed, and other partitions are.
func TestPositionsWaitForTheLedger(t *testing.T) {
	b := newBench(t, 2)
	kept := &diary{}
	var leases sync.Map
	options := b.options(func(_ context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
		leases.Store(invocation.Lease, invocation.Event.Partition)
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options.Ledger, options.CommitInterval = kept, 5*time.Millisecond
	c := b.start(options)
	for n := range 40 {
		b.send(fmt.Sprint(n), "1")
	}
	b.eventually(func() bool { return b.committed(2) == 40 }, "all committed")
	before, _ := b.broker.Committed(group, at(0))
	kept.fail(at(0))
	for n := range 40 {
		b.send(fmt.Sprint(n), "1")
	}
	b.eventually(func() bool { return b.committed(2) == before+(40-before)*2 }, "the other one committed")
	time.Sleep(30 * time.Millisecond)
	now, _ := b.broker.Committed(group, at(0))
	assert.Equal(t, before, now, "nothing of what is not noted")
	kept.fail()
	b.eventually(func() bool { return b.committed(2) == 80 }, "the rest committed")
	b.stop(c)
	count := 0
	leases.Range(func(lease, index any) bool {
		count++
		assert.True(t, kept.has(fmt.Sprintf("assign %d %s <nil>", index, lease)))
		assert.True(t, kept.has(fmt.Sprintf("end %s", lease)))
		assert.False(t, kept.has(fmt.Sprintf("fence %s", lease)))
		return true
	})
	assert.Equal(t, 2, count)
}

// slow is a ledger whose first flush takes its time.
type slow struct {
	diary
	once sync.Once
	took func()
}

func (s *slow) Flush(ctx context.Context, names []kafka.Partition) ([]kafka.Partition, error) {
	s.once.Do(s.took)
	return s.diary.Flush(ctx, names)
}

// A partition that is lost and assigned anew while marks are written has other marks then:
// the position of before is not committed.
func TestPositionsOfALostAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		kept := &slow{took: func() {
			s.events <- kafka.Events{Lost: []kafka.Partition{at(0)}, Assigned: []kafka.Partition{at(0)}}
			time.Sleep(time.Second)
		}}
		options := s.options(succeed)
		options.Ledger = kept
		s.events <- kafka.Events{Assigned: []kafka.Partition{at(0), at(1)}}
		s.events <- kafka.Events{Records: append(records(0, 0, 3), records(1, 0, 5)...)}
		c, err := consumer.Start(t.Context(), options)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, c.Stop(t.Context()))
		var commits []string
		for _, call := range s.noted() {
			if strings.HasPrefix(call, "commit") {
				commits = append(commits, call)
			}
		}
		assert.Equal(t, []string{"commit [{{orders 1} 5}]"}, commits)
	})
}

// Each commit comes after a flush that began when its events had ended.
func TestTheLedgerComesFirst(t *testing.T) {
	b := newBench(t, 1)
	var mutex sync.Mutex
	ended, noted := int64(0), int64(0)
	kept := &diary{flushed: func() {
		mutex.Lock()
		defer mutex.Unlock()
		noted = ended
	}}
	options := b.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		mutex.Lock()
		defer mutex.Unlock()
		ended++
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options.Ledger, options.CommitInterval = kept, time.Millisecond
	c := b.start(options)
	for n := range 300 {
		b.send(fmt.Sprint(n), "1")
		committed := b.committed(1)
		mutex.Lock()
		assert.LessOrEqual(t, committed, noted)
		mutex.Unlock()
	}
	b.eventually(func() bool { return b.committed(1) == 300 }, "all committed")
	b.stop(c)
	assert.EqualValues(t, 300, noted)
}

// A partition that leaves does not take along positions of which nothing is noted yet.
func TestALeavingPartitionCommitsItsOwnPosition(t *testing.T) {
	s, kept := newScript(), &diary{}
	done := make(chan struct{}, 2)
	options := s.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		done <- struct{}{}
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options.Ledger, options.CommitInterval = kept, time.Hour
	c, err := consumer.Start(t.Context(), options)
	require.NoError(t, err)
	s.events <- kafka.Events{Assigned: []kafka.Partition{at(0), at(1)}}
	s.events <- kafka.Events{Records: append(records(0, 5, 6), records(1, 7, 8)...)}
	<-done
	<-done
	b := &bench{TB: t}
	b.eventually(func() bool { return c.Snapshot().Running == 0 }, "all done")
	s.events <- kafka.Events{Revoked: []kafka.Partition{at(0)}}
	b.eventually(func() bool { return slices.Contains(s.noted(), "release [{orders 0}]") }, "released")
	assert.Equal(t, []string{"commit [{{orders 0} 6}]", "release [{orders 0}]"}, s.noted())
	assert.True(t, kept.has("flush 0"))
	assert.False(t, kept.has("flush 1"))
	require.NoError(t, c.Stop(context.Background()))
	assert.Contains(t, s.noted(), "commit [{{orders 1} 8}]")
	assert.True(t, kept.has("flush 1"))
}

func TestTheLastPositionWaitsForTheLedgerToo(t *testing.T) {
	b := newBench(t, 1)
	kept := &diary{failing: []kafka.Partition{at(0)}}
	done := make(chan struct{}, 1)
	options := b.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		done <- struct{}{}
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options.Ledger, options.ShutdownTimeout = kept, 100*time.Millisecond
	c := b.start(options)
	b.send("k", "1")
	<-done
	_ = c.Stop(context.Background())
	assert.Zero(t, b.committed(1), "the record comes again")
	assert.True(t, kept.has("end lease 1"))

	options.Ledger, options.ShutdownTimeout = &diary{failing: []kafka.Partition{at(0)}}, time.Minute
	kept = options.Ledger.(*diary)
	c = b.start(options)
	<-done
	time.AfterFunc(200*time.Millisecond, func() { kept.fail() })
	b.stop(c)
	assert.EqualValues(t, 1, b.committed(1), "it is tried again while there is time")
}

func TestAHandlerThatIsLeftBehindIsFenced(t *testing.T) {
	b := newBench(t, 1)
	kept := &diary{}
	running, end := make(chan struct{}), make(chan struct{})
	options := b.options(func(context.Context, *pipeline.Invocation) pipeline.Outcome {
		close(running)
		<-end
		return pipeline.Outcome{Class: pipeline.Success}
	})
	options.Ledger, options.ShutdownTimeout = kept, 50*time.Millisecond
	c := b.start(options)
	b.send("k", "1")
	<-running
	_ = c.Stop(context.Background())
	assert.True(t, kept.has("fence lease 1"))
	assert.True(t, kept.has("end lease 1"))
	close(end)
	assert.Zero(t, b.committed(1))
}
