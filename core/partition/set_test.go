package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

var (
	epoch = time.Unix(1_000_000, 0)
	p0    = kafka.Partition{Topic: "orders", Index: 0}
	p1    = kafka.Partition{Topic: "orders", Index: 1}
)

func message(p kafka.Partition, offset int64, key string) *event.Event {
	return &event.Event{Kind: event.Message, Topic: p.Topic, Partition: p.Index, Offset: offset, Key: key}
}

func offer(t *testing.T, s *Set, p kafka.Partition, offset int64, key string) {
	t.Helper()
	require.Equal(t, Queued, s.Offer(message(p, offset, key), 10))
}

func start(t *testing.T, s *Set) Start {
	t.Helper()
	started, ok := s.Next(epoch)
	require.True(t, ok, "nothing started")
	return started
}

func idle(t *testing.T, s *Set) {
	t.Helper()
	started, ok := s.Next(epoch)
	require.False(t, ok, "started %+v", started)
}

func positions(s *Set) map[kafka.Partition]int64 {
	found := map[kafka.Partition]int64{}
	for _, position := range s.Positions(nil) {
		found[position.Partition] = position.Offset
	}
	return found
}

func TestHotKeyTakesOneSlotAndOneTurn(t *testing.T) {
	s := New(Config{Uncommitted: 2})
	s.Assign(p0, nil)
	for offset := range int64(100) {
		offer(t, s, p0, offset, "hot")
	}
	for offset := int64(100); offset < 110; offset++ {
		offer(t, s, p0, offset, fmt.Sprint(offset))
	}
	hot, other := start(t, s), start(t, s)
	assert.Equal(t, "hot", hot.Event.Key)
	for offset := int64(100); offset < 110; offset++ {
		assert.Equal(t, offset, other.Event.Offset)
		require.True(t, s.Done(other.Token, pipeline.Success))
		if offset < 109 {
			other = start(t, s)
		}
	}
	idle(t, s)
}

func TestPartitionsTakeTurns(t *testing.T) {
	s := New(Config{Uncommitted: 1})
	s.Assign(p0, nil)
	s.Assign(p1, nil)
	for offset := range int64(50) {
		offer(t, s, p0, offset, fmt.Sprint(offset))
	}
	offer(t, s, p1, 0, "a")
	offer(t, s, p1, 1, "b")
	var order []kafka.Partition
	for range 5 {
		started := start(t, s)
		order = append(order, started.Event.At())
		s.Done(started.Token, pipeline.Success)
	}
	assert.Equal(t, []kafka.Partition{p0, p1, p0, p1, p0}, order)
}

func TestKeyWaitsForItsOldHandlerOnly(t *testing.T) {
	s := New(Config{})
	s.Assign(p0, nil)
	offer(t, s, p0, 7, "a")
	old := start(t, s)
	s.Revoke(p0)
	s.Abandon(p0)
	assert.Equal(t, []kafka.Partition{p0}, s.Drained(nil))
	s.Lose(p0)

	s.Assign(p0, nil)
	offer(t, s, p0, 7, "a")
	offer(t, s, p0, 8, "b")
	assert.Equal(t, "b", start(t, s).Event.Key)
	idle(t, s)
	assert.False(t, s.Done(old.Token, pipeline.Success), "the old outcome counts")
	assert.Empty(t, positions(s))
	again := start(t, s)
	assert.Equal(t, int64(7), again.Event.Offset)
	s.Done(again.Token, pipeline.Success)
	assert.Equal(t, map[kafka.Partition]int64{p0: 8}, positions(s))
}

func TestAbortStopsTheKeyAndIsReported(t *testing.T) {
	s := New(Config{})
	s.Assign(p0, nil)
	offer(t, s, p0, 0, "a")
	offer(t, s, p0, 1, "a")
	offer(t, s, p0, 2, "b")
	s.Done(start(t, s).Token, pipeline.Aborted)
	b := start(t, s)
	assert.Equal(t, "b", b.Event.Key)
	s.Done(b.Token, pipeline.Success)
	idle(t, s)
	assert.Empty(t, positions(s))
	assert.Equal(t, []string{"orders:0: 1 keys stand still after an aborted event"}, s.Stalled(epoch, time.Hour))
}

func TestNothingStartsWhileTooManyAreAbandoned(t *testing.T) {
	s := New(Config{Uncommitted: leastExcess})
	s.Assign(p0, nil)
	var tokens []Token
	for offset := range int64(leastExcess) {
		offer(t, s, p0, offset, fmt.Sprint(offset))
		tokens = append(tokens, start(t, s).Token)
	}
	s.Lose(p0)
	s.Assign(p0, nil)
	offer(t, s, p0, 1000, "new")
	idle(t, s)
	assert.Equal(t, []string{"nothing starts: 64 abandoned handlers still run and 0 keys stand still"}, s.Stalled(epoch, time.Hour))
	s.Done(tokens[0], pipeline.Success)
	start(t, s)
	assert.Empty(t, s.Stalled(epoch, time.Hour))
}

func TestPauseHasHysteresis(t *testing.T) {
	for name, config := range map[string]Config{
		"records": {Records: 10, Uncommitted: 1},
		"bytes":   {Bytes: 100, Uncommitted: 1},
		"share":   {TotalRecords: 20, Uncommitted: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(config)
			s.Assign(p0, nil)
			s.Assign(p1, nil)
			offer(t, s, p1, 0, "z")
			running := start(t, s)
			for offset := range int64(10) {
				pause, _ := s.Flow(nil, nil)
				assert.Empty(t, pause, "offset %d", offset)
				offer(t, s, p0, offset, fmt.Sprint(offset))
			}
			pause, resume := s.Flow(nil, nil)
			assert.Equal(t, []kafka.Partition{p0}, pause, "the other partition flows")
			assert.Empty(t, resume)
			s.Flowed(pause, true)
			for left := 9; left >= 5; left-- {
				_, resume = s.Flow(nil, nil)
				assert.Empty(t, resume, "left %d", left)
				s.Done(running.Token, pipeline.Success)
				running = start(t, s)
			}
			_, resume = s.Flow(nil, nil)
			assert.Equal(t, []kafka.Partition{p0}, resume)
		})
	}
}

func TestSpanIsBoundedByRecords(t *testing.T) {
	s := New(Config{Span: 10})
	s.Assign(p0, nil)
	offer(t, s, p0, 0, "stuck")
	stuck := start(t, s)
	for n := range int64(9) {
		pause, _ := s.Flow(nil, nil)
		require.Empty(t, pause)
		offer(t, s, p0, (n+1)*1_000_000, "k") // far apart, as after compaction
		s.Done(start(t, s).Token, pipeline.Success)
	}
	pause, _ := s.Flow(nil, nil)
	require.Equal(t, []kafka.Partition{p0}, pause)
	s.Flowed(pause, true)
	s.Done(stuck.Token, pipeline.Success)
	_, resume := s.Flow(nil, nil)
	assert.Equal(t, []kafka.Partition{p0}, resume)
	assert.Equal(t, map[kafka.Partition]int64{p0: 9_000_001}, positions(s))
}

func TestSpanHasHysteresis(t *testing.T) {
	s := New(Config{Span: 10})
	s.Assign(p0, nil)
	var tokens []Token
	for offset := range int64(10) {
		offer(t, s, p0, offset, fmt.Sprint(offset))
		tokens = append(tokens, start(t, s).Token)
	}
	s.Flowed([]kafka.Partition{p0}, true)
	for n, token := range tokens[:5] {
		_, resume := s.Flow(nil, nil)
		assert.Empty(t, resume, "done %d", n)
		s.Done(token, pipeline.Success)
	}
	_, resume := s.Flow(nil, nil)
	assert.Equal(t, []kafka.Partition{p0}, resume)
}

func TestBeatTellsRetryFromStandstill(t *testing.T) {
	s := New(Config{})
	s.Assign(p0, nil)
	offer(t, s, p0, 3, "a")
	running := start(t, s)
	late := epoch.Add(11 * time.Minute)
	assert.Equal(t, []string{"orders:0: the event at offset 3 has been running for 11m0s"}, s.Stalled(late, 5*time.Minute))
	s.Beat(running.Token, epoch.Add(7*time.Minute))
	assert.Empty(t, s.Stalled(late, 5*time.Minute))
	assert.InDelta(t, 660, s.Snapshot(late).Partitions[0].Oldest, 0.001)
	s.Done(running.Token, pipeline.Success)
	s.Beat(running.Token, late)
	assert.Equal(t, int64(1), s.Snapshot(late).Counters.Retried)
	assert.Empty(t, s.Stalled(late, 0))
}

func TestHoldStopsStarts(t *testing.T) {
	s := New(Config{})
	s.Assign(p0, nil)
	offer(t, s, p0, 0, "a")
	s.Hold(true)
	idle(t, s)
	s.Hold(false)
	start(t, s)
}

func TestRingDropsABurst(t *testing.T) {
	var r ring
	var sequences []uint64
	for offset := range int64(3 * keep) {
		sequences = append(sequences, r.push(offset))
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(sequences), func(i, j int) {
		sequences[i], sequences[j] = sequences[j], sequences[i]
	})
	var last int64
	for _, sequence := range sequences {
		if position, moved := r.done(sequence); moved {
			assert.Greater(t, position, last)
			last = position
		}
	}
	assert.Equal(t, int64(3*keep), last)
	assert.Nil(t, r.entries)
	position, moved := r.done(r.push(99))
	assert.True(t, moved)
	assert.Equal(t, int64(100), position)
}

// One op is one record from Offer to Done, over 4 partitions and 1,000 keys.
func BenchmarkRecord(b *testing.B) {
	s := New(Config{Uncommitted: 64})
	events := make([]*event.Event, 4000)
	for i := range events {
		events[i] = message(kafka.Partition{Topic: "orders", Index: int32(i % 4)}, 0, fmt.Sprint(i%1000))
	}
	for i := range 4 {
		s.Assign(kafka.Partition{Topic: "orders", Index: int32(i)}, nil)
	}
	var tokens []Token
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		e := events[n%len(events)]
		e.Offset = int64(n)
		if s.Offer(e, 100) != Queued {
			b.Fatal("not queued")
		}
		if started, ok := s.Next(epoch); ok {
			tokens = append(tokens, started.Token)
		}
		if len(tokens) >= 60 {
			s.Done(tokens[0], pipeline.Success)
			tokens = append(tokens[:0], tokens[1:]...)
		}
		if n%500 == 0 {
			s.Positions(nil)
			s.Committed(true)
		}
	}
}
