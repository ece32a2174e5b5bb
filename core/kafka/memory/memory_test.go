package memory

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func broker(t *testing.T, settings Settings) *Broker {
	t.Helper()
	return NewRegistry(settings).Broker("test")
}

func member(t *testing.T, b *Broker, group string, topics ...string) *Consumer {
	t.Helper()
	made, err := b.Consumer(kafka.ConsumerConfig{Group: group})
	require.NoError(t, err)
	t.Cleanup(func() { _ = made.Close() })
	require.NoError(t, made.Subscribe(topics))
	assert.False(t, made.Joined(), "before Poll")
	made.Poll(0, 0)
	return made.(*Consumer)
}

func admin(t *testing.T, b *Broker) *Admin {
	t.Helper()
	made, err := b.Admin(nil, nil)
	require.NoError(t, err)
	return made.(*Admin)
}

func produce(t *testing.T, b *Broker, record *kafka.Record) kafka.Delivery {
	t.Helper()
	delivery, err := send(b, record)
	require.NoError(t, err)
	return delivery
}

func send(b *Broker, record *kafka.Record) (delivery kafka.Delivery, err error) {
	producer, err := b.Producer(kafka.ProducerConfig{})
	if err != nil {
		return delivery, err
	}
	err = producer.Produce(record, func(d kafka.Delivery) { delivery = d })
	if err == nil {
		err = delivery.Err
	}
	return delivery, err
}

func fill(t *testing.T, b *Broker, topic string, count int) {
	t.Helper()
	for i := range count {
		produce(t, b, &kafka.Record{Topic: topic, Key: fmt.Append(nil, "key-", i), Value: fmt.Append(nil, i)})
	}
}

func poll(c *Consumer) kafka.Events { return c.Poll(0, 1000) }

// settle polls members in turn, releasing at once, until nothing happens.
func settle(members ...*Consumer) {
	for quiet := 0; quiet < 2; quiet++ {
		for _, c := range members {
			events := c.Poll(0, 0)
			if len(events.Assigned)+len(events.Revoked)+len(events.Lost)+len(events.Errors) > 0 {
				quiet = -1
			}
			_ = c.Release(events.Revoked)
		}
	}
}

func shares(members ...*Consumer) (counts []int) {
	for _, c := range members {
		counts = append(counts, len(holds(c)))
	}
	return counts
}

func holds(c *Consumer) (partitions []string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, claim := range c.claims {
		if claim.phase == held {
			partitions = append(partitions, fmt.Sprint(claim.Topic, ":", claim.Index))
		}
	}
	sort.Strings(partitions)
	return partitions
}

func at(topic string, index int32, offset int64) kafka.Position {
	return kafka.Position{Partition: kafka.Partition{Topic: topic, Index: index}, Offset: offset}
}

func code(t *testing.T, err error) kafka.Code {
	t.Helper()
	var failure *kafka.Error
	require.ErrorAs(t, err, &failure)
	return failure.Code
}

func TestRegistrySharesBrokersByName(t *testing.T) {
	registry := NewRegistry(Settings{})
	assert.Same(t, registry.Broker("a"), registry.Cluster("a"))
	assert.NotSame(t, registry.Broker("a"), registry.Broker("b"))
	assert.Same(t, registry.Broker("a:1,b:2"), registry.Broker(" b:2, a:1,,b:2"))
}

func TestResetForgetsTopicsAndOffsets(t *testing.T) {
	registry := NewRegistry(Settings{Partitions: 1})
	b := registry.Broker("test")
	fill(t, b, "t", 3)
	c := member(t, b, "g", "t")
	settle(c)
	require.NoError(t, c.Commit(background, []kafka.Position{at("t", 0, 2)}))
	registry.Reset("test")
	registry.Reset("absent")
	events := poll(c)
	assert.Equal(t, []kafka.Partition{{Topic: "t"}}, events.Lost)
	_, has := b.Committed("g", kafka.Partition{Topic: "t"})
	assert.False(t, has)
	fill(t, b, "t", 1)
	assert.Equal(t, []kafka.Partition{{Topic: "t"}}, poll(c).Assigned)
	records := poll(c).Records
	require.Len(t, records, 1)
	assert.Zero(t, records[0].Offset)
}

func TestPollWakesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewRegistry(Settings{Partitions: 1}).Broker("test")
		c := member(t, b, "g", "t")
		settle(c)
		begun := time.Now()
		time.AfterFunc(time.Second, func() { _, _ = send(b, &kafka.Record{Topic: "t"}) })
		assert.Len(t, c.Poll(time.Hour, 10).Records, 1)
		assert.Equal(t, time.Second, time.Since(begun))
		assert.Empty(t, c.Poll(time.Minute, 10))
		assert.Equal(t, time.Minute+time.Second, time.Since(begun))
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		assert.Equal(t, kafka.Closed, code(t, c.Poll(time.Hour, 10).Errors[0]))
		assert.Equal(t, time.Minute+2*time.Second, time.Since(begun))
	})
}

func TestPollIsFairAndBounded(t *testing.T) {
	b := broker(t, Settings{Partitions: 3})
	c := member(t, b, "g", "t")
	fill(t, b, "t", 3000)
	settle(c)
	got := map[int32]int{}
	for range 10 {
		events := c.Poll(0, 20)
		assert.LessOrEqual(t, len(events.Records), 20)
		for _, record := range events.Records {
			assert.EqualValues(t, got[record.Partition], record.Offset)
			got[record.Partition]++
		}
	}
	for index := range int32(3) {
		assert.InDelta(t, 67, got[index], 4)
	}
	assert.Empty(t, c.Poll(0, 0).Records)
}

func TestPauseHoldsRecordsBack(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	c := member(t, b, "g", "t")
	fill(t, b, "t", 4)
	settle(c)
	assert.Len(t, c.Poll(0, 1).Records, 1)
	require.NoError(t, c.Pause([]kafka.Partition{{Topic: "t"}, {Topic: "other"}}))
	assert.Empty(t, poll(c).Records)
	require.NoError(t, c.Resume([]kafka.Partition{{Topic: "t"}}))
	assert.EqualValues(t, 1, poll(c).Records[0].Offset)
	require.NoError(t, c.Pause([]kafka.Partition{{Topic: "t"}}))
	c.Expel()
	settle(c)
	assert.Len(t, poll(c).Records, 4, "a new assignment is not paused and starts at the committed offset")
}

func TestPartitionMovesAfterRelease(t *testing.T) {
	b := broker(t, Settings{Partitions: 4})
	first := member(t, b, "g", "t")
	settle(first)
	before := holds(first)
	second := member(t, b, "g", "t")
	assert.Empty(t, poll(second).Assigned)
	fill(t, b, "t", 400)
	events := poll(first)
	require.Len(t, events.Revoked, 2)
	for _, record := range events.Records {
		assert.NotContains(t, events.Revoked, kafka.Partition{Topic: "t", Index: record.Partition})
	}
	assert.NotEmpty(t, events.Records, "retained partitions go on")
	assert.Empty(t, poll(second).Assigned, "not before Release")
	gone := events.Revoked[0]
	require.NoError(t, first.Commit(background, []kafka.Position{{Partition: gone, Offset: 7}}), "a revoked partition can be committed")
	require.NoError(t, first.Release(events.Revoked))
	assert.Equal(t, kafka.Stale, code(t, first.Commit(background, []kafka.Position{{Partition: gone, Offset: 9}})))
	assert.ElementsMatch(t, events.Revoked, poll(second).Assigned)
	for _, record := range poll(second).Records {
		if record.Partition == gone.Index {
			assert.EqualValues(t, 7, record.Offset, "goes on at the commit")
			break
		}
	}
	assert.Subset(t, before, holds(first), "what a member keeps, it had before")
	require.NoError(t, second.Close())
	assert.ElementsMatch(t, events.Revoked, poll(first).Assigned, "Close hands over at once")
}

func TestRevocationIsTakenBackUntilItIsTold(t *testing.T) {
	b := broker(t, Settings{Partitions: 4})
	first := member(t, b, "g", "t")
	settle(first)
	second := member(t, b, "g", "t")
	require.NoError(t, second.Close())
	assert.Empty(t, poll(first))
	assert.Len(t, holds(first), 4)
}

func TestOwnerKeepsWhatItsHeirNeverGot(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	require.NoError(t, admin(t, b).Create(background, kafka.Topic{Name: "two", Partitions: 2}))
	early, owner := member(t, b, "g", "one"), member(t, b, "g", "two")
	require.NoError(t, early.Subscribe([]string{"one", "two"}))
	settle(early, owner)
	heir := member(t, b, "g", "two")
	require.NoError(t, heir.Close())
	assert.Empty(t, poll(owner), "nothing moves")
	assert.Equal(t, []int{1, 2}, shares(early, owner))
}

func TestReleaseIgnoresWhatIsNotRevoked(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	c := member(t, b, "g", "t")
	settle(c)
	require.NoError(t, c.Release([]kafka.Partition{{Topic: "t"}, {Topic: "other"}}))
	assert.Empty(t, poll(c))
	assert.Len(t, holds(c), 1)
}

func TestMembersWithDifferentTopics(t *testing.T) {
	b := broker(t, Settings{})
	first, second := member(t, b, "g", "a"), member(t, b, "g", "b")
	settle(first, second)
	assert.Equal(t, []string{"a:0", "a:1", "a:2"}, holds(first))
	assert.Equal(t, []string{"b:0", "b:1", "b:2"}, holds(second))
	require.NoError(t, second.Subscribe([]string{"a", "b"}))
	settle(first, second)
	assert.Equal(t, []int{3, 3}, shares(first, second))
	require.NoError(t, first.Subscribe([]string{"c"}))
	settle(first, second)
	assert.Equal(t, []int{3, 6}, shares(first, second))
}

func TestPatternsFindLaterTopics(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	fill(t, b, "event.a", 1)
	fill(t, b, "__event", 1)
	c := member(t, b, "g", "^event", "^__")
	settle(c)
	assert.Equal(t, []string{"event.a:0"}, holds(c))
	fill(t, b, "event.b", 1)
	fill(t, b, "other", 1)
	settle(c)
	assert.Equal(t, []string{"event.a:0", "event.b:0"}, holds(c))
	for topic, want := range map[string]kafka.Code{"^(": kafka.BadTopic, "a b": kafka.BadTopic, "": kafka.BadTopic} {
		assert.Equal(t, want, code(t, c.Subscribe([]string{topic})))
	}
	assert.Equal(t, kafka.BadConfig, code(t, c.Subscribe(nil)))
}

func TestPartitionsAddedAreReadFromTheirBeginning(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	c := member(t, b, "g", "t")
	settle(c)
	a := admin(t, b)
	require.NoError(t, a.AddPartitions(background, "t", 3))
	assert.Equal(t, kafka.BadConfig, code(t, a.AddPartitions(background, "t", 3)))
	assert.Equal(t, kafka.UnknownTopic, code(t, a.AddPartitions(background, "absent", 3)))
	fill(t, b, "t", 30)
	assert.Len(t, c.Poll(0, 0).Assigned, 2)
	assert.Len(t, poll(c).Records, 30)
}

func TestSubscribedTopicGivesWayToOneThatIsMade(t *testing.T) {
	b := broker(t, Settings{})
	c := member(t, b, "g", "t")
	settle(c)
	require.NoError(t, admin(t, b).Create(background, kafka.Topic{Name: "t", Partitions: 2}))
	events := poll(c)
	assert.Len(t, events.Lost, 3)
	assert.Empty(t, events.Errors, "it was nobody's")
	settle(c)
	assert.Equal(t, []string{"t:0", "t:1"}, holds(c))
	assert.Equal(t, kafka.Exists, code(t, admin(t, b).Create(background, kafka.Topic{Name: "t"})))
	other := member(t, b, "g", "used")
	settle(other)
	fill(t, b, "used", 1)
	assert.Equal(t, kafka.Exists, code(t, admin(t, b).Create(background, kafka.Topic{Name: "used"})))
}

func TestRecreatedTopicIsReadFromItsBeginning(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	c := member(t, b, "g", "t")
	fill(t, b, "t", 10)
	settle(c)
	require.Len(t, poll(c).Records, 10)
	require.NoError(t, c.Commit(background, []kafka.Position{at("t", 0, 10)}))
	a := admin(t, b)
	require.NoError(t, a.Delete(background, "t"))
	require.NoError(t, a.Delete(background, "t"))
	fill(t, b, "t", 3)
	assert.Equal(t, kafka.Stale, code(t, c.Commit(background, []kafka.Position{at("t", 0, 10)})), "the old topic's commit")
	events := poll(c)
	assert.Equal(t, []kafka.Partition{{Topic: "t"}}, events.Lost)
	assert.Empty(t, events.Assigned)
	require.Len(t, events.Errors, 1)
	assert.Equal(t, kafka.UnknownTopic, code(t, events.Errors[0]))
	assert.Equal(t, []kafka.Partition{{Topic: "t"}}, poll(c).Assigned)
	records := poll(c).Records
	require.Len(t, records, 3)
	assert.Zero(t, records[0].Offset)
}

func TestSilentMemberLosesItsPartitions(t *testing.T) {
	hands := clock.NewManual(time.Now())
	b := broker(t, Settings{Clock: hands, Session: time.Minute})
	quiet, lively := member(t, b, "g", "t"), member(t, b, "g", "t")
	settle(quiet, lively)
	require.NotEmpty(t, holds(quiet))
	for range 5 {
		hands.Advance(30 * time.Second)
		poll(lively)
	}
	require.Eventually(t, func() bool {
		poll(lively)
		return len(holds(lively)) == 3
	}, 2*time.Minute, time.Millisecond)
	assert.False(t, quiet.Joined())
	assert.True(t, lively.Joined())
	assert.Equal(t, kafka.Stale, code(t, quiet.Commit(background, []kafka.Position{at("t", 0, 1)})))
	events := poll(quiet)
	assert.NotEmpty(t, events.Lost)
	assert.Empty(t, events.Revoked)
	assert.False(t, quiet.Joined())
	settle(quiet, lively)
	assert.True(t, quiet.Joined(), "it joins again")
	assert.Len(t, append(holds(quiet), holds(lively)...), 3)
}

func TestLongPollKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewRegistry(Settings{Session: time.Minute}).Broker("test")
		c := member(t, b, "g", "t")
		settle(c)
		assert.Empty(t, c.Poll(time.Hour, 10))
		assert.True(t, c.Joined())
		time.Sleep(59 * time.Second)
		assert.True(t, c.Joined())
		time.Sleep(2 * time.Minute)
		assert.False(t, c.Joined())
		require.NoError(t, c.Close())
	})
}

func TestExpelTellsLossOfRevokedPartitionsToo(t *testing.T) {
	b := broker(t, Settings{Partitions: 2})
	first := member(t, b, "g", "t")
	settle(first)
	second := member(t, b, "g", "t")
	events := poll(first)
	require.Len(t, events.Revoked, 1)
	b.Expel("g")
	b.Expel("absent")
	assert.Len(t, poll(first).Lost, 2)
	require.NoError(t, first.Release(events.Revoked))
	assert.Empty(t, poll(second).Lost, "it never had any")
	settle(first, second)
	assert.Equal(t, []int{1, 1}, shares(first, second))
}

func TestAdmin(t *testing.T) {
	b := broker(t, Settings{})
	a := admin(t, b)
	require.NoError(t, a.Create(background, kafka.Topic{Name: "t", Partitions: 7, Config: map[string]string{"retention.ms": "1", "retention.bytes": "-1"}}))
	require.NoError(t, a.Create(background, kafka.Topic{Name: "__hidden"}))
	assert.Equal(t, kafka.Exists, code(t, a.Create(background, kafka.Topic{Name: "t"})))
	assert.Equal(t, kafka.BadTopic, code(t, a.Create(background, kafka.Topic{Name: "a/b"})))
	for name, value := range map[string]string{"cleanup.policy": "keep", "max.message.bytes": "many", "retention.bytes": "-2"} {
		assert.Equal(t, kafka.BadConfig, code(t, a.Create(background, kafka.Topic{Name: "u", Config: map[string]string{name: value}})), name)
	}
	assert.Equal(t, kafka.BadConfig, code(t, a.Create(background, kafka.Topic{Name: "u", Partitions: -1})))
	topics, err := a.Topics(background)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"t": 7}, topics)
	over, cancel := context.WithCancel(background)
	cancel()
	assert.Equal(t, kafka.TimedOut, code(t, a.Create(over, kafka.Topic{Name: "u"})))
	require.NoError(t, a.Close())
	assert.Equal(t, kafka.Closed, code(t, a.Delete(background, "t")))
}

func TestFaults(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	c := member(t, b, "g", "t")
	settle(c)
	broken := errors.New("broken")
	b.Fail(func(op, name string) error {
		if op == "commit" && name == "g" || op == "produce" && name == "t" {
			return broken
		}
		return nil
	})
	_, err := send(b, &kafka.Record{Topic: "t"})
	assert.ErrorIs(t, err, broken)
	assert.ErrorIs(t, c.Commit(background, []kafka.Position{at("t", 0, 0)}), broken)
	b.Fail(nil)
	fill(t, b, "t", 1)
	assert.NoError(t, c.Commit(background, []kafka.Position{at("t", 0, 0)}))
}

func TestClosedConsumerSaysSo(t *testing.T) {
	b := broker(t, Settings{})
	_, err := b.Consumer(kafka.ConsumerConfig{})
	assert.Equal(t, kafka.BadConfig, code(t, err))
	c := member(t, b, "g", "t")
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	for _, err := range []error{
		c.Subscribe([]string{"t"}), c.Pause(nil), c.Resume(nil), c.Commit(background, nil), c.Release(nil), poll(c).Errors[0],
	} {
		assert.Equal(t, kafka.Closed, code(t, err))
	}
	assert.False(t, c.Joined())
}
