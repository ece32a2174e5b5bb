package kafkatest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// resume: a group goes on at what it committed, and no later.
func resume(t *testing.T, b *bench) {
	topic, name := b.topic(3), b.Topic()
	producer := b.producer()
	b.send(producer, series(topic, 20, 0, 200)...)
	first := b.member(name, topic)
	b.until("all records", has(first, 200), first)
	first.commit()
	b.send(producer, series(topic, 20, 200, 100)...)
	b.until("all later records", has(first, 300), first) // read, but not committed
	require.NoError(t, first.Close())

	second := b.member(name, topic)
	b.until("what was not committed", has(second, 100), second)
	b.quiet(100*time.Millisecond, second)
	require.Len(t, second.records, 100)
	for _, value := range second.values() {
		number, err := strconv.Atoi(value)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, number, 200)
	}

	// Another group has positions of its own.
	other := b.member(b.Topic(), topic)
	b.until("all records in another group", has(other, 300), other)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	err := second.Commit(ended, []kafka.Position{{Partition: kafka.Partition{Topic: topic}, Offset: 1}})
	assert.Less(t, time.Since(start), 20*time.Second)
	if err != nil {
		assert.False(t, failure(t, err).Permanent())
	}
	require.NoError(t, second.Commit(t.Context(), nil))
}

// handover: members share the partitions and every record is read.
func handover(t *testing.T, b *bench) {
	topic, name := b.topic(4), b.Topic()
	producer := b.producer()
	b.send(producer, series(topic, 40, 0, 400)...)
	first := b.member(name, topic)
	b.until("all partitions and records", func() bool { return len(first.owned) == 4 && len(first.records) == 400 }, first)
	first.commit()
	second := b.member(name, topic)
	b.until("two partitions each", func() bool { return len(first.owned) == 2 && len(second.owned) == 2 }, first, second)
	for partition := range first.owned {
		assert.False(t, second.owned[partition], "two owners of %v", partition)
	}
	assert.True(t, first.Joined())
	assert.True(t, second.Joined())

	b.send(producer, series(topic, 40, 400, 400)...)
	b.until("the new records", func() bool { return len(first.records)+len(second.records) == 800 }, first, second)
	first.commit()
	second.commit()
	require.NoError(t, second.Close())
	b.until("all partitions again", func() bool { return len(first.owned) == 4 }, first)
	b.send(producer, series(topic, 40, 800, 40)...)
	b.until("all records", func() bool { return len(first.records)+len(second.records) == 840 }, first)
	b.quiet(100*time.Millisecond, first)
	assert.Len(t, first.records, 840-len(second.records))
}

// release: revoked partitions stay with their owner until Release; meanwhile the
// partitions that it keeps deliver, and it can commit.
func release(t *testing.T, b *bench) {
	topic, name := b.topic(4), b.Topic()
	producer := b.producer()
	b.send(producer, series(topic, 40, 0, 400)...)
	first := b.member(name, topic)
	first.hold = true
	b.until("all partitions and records", func() bool { return len(first.owned) == 4 && len(first.records) == 400 }, first)

	second := b.member(name, topic)
	b.until("a revocation", func() bool { return len(first.revoked) == 2 }, first, second)
	b.send(producer, series(topic, 40, 400, 400)...)
	b.until("records of the partitions that stay", func() bool {
		seen := map[int32]bool{}
		for _, record := range first.records[400:] {
			seen[record.Partition] = true
		}
		return len(seen) == 2
	}, first, second)
	b.quiet(500*time.Millisecond, first, second)
	require.Empty(t, second.owned, "partitions moved before their release")
	require.Empty(t, second.records)

	// The revoked partitions' work is finished and committed before they are given up.
	var held []kafka.Partition
	var positions []kafka.Position
	for partition := range first.revoked {
		held = append(held, partition)
		positions = append(positions, kafka.Position{Partition: partition, Offset: first.last[partition] + 1})
	}
	require.NoError(t, first.Commit(t.Context(), positions))

	// Half a release is none.
	delete(first.revoked, held[0])
	require.NoError(t, first.Release(held[:1]))
	b.quiet(3*time.Second, first, second)
	require.False(t, second.owned[held[1]], "a partition moved before its release")
	first.release()
	b.until("the handover", func() bool { return len(second.owned) == 2 }, first, second)
	b.until("all records", func() bool { return len(first.records)+len(second.records) == 800 }, first, second)
	for _, partition := range held {
		assert.True(t, second.owned[partition])
	}
	for _, record := range second.records {
		number, err := strconv.Atoi(string(record.Value))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, number, 400, "a committed record came again")
	}
}

// unpaused: a pause ends with its assignment.
func unpaused(t *testing.T, b *bench) {
	topic, name := b.topic(2), b.Topic()
	first := b.member(name, topic)
	b.until("all partitions", func() bool { return len(first.owned) == 2 }, first)
	require.NoError(t, first.Pause([]kafka.Partition{{Topic: topic, Index: 0}, {Topic: topic, Index: 1}}))
	second := b.member(name, topic)
	b.until("one partition each", func() bool { return len(first.owned) == 1 && len(second.owned) == 1 }, first, second)
	var moved kafka.Partition
	for partition := range second.owned {
		moved = partition
	}
	require.NoError(t, second.Close())
	b.until("all partitions again", func() bool { return len(first.owned) == 2 }, first)
	b.send(b.producer(), series(topic, 20, 0, 20)...)
	b.until("records of the partition that came back", func() bool { return len(first.records) > 0 }, first)
	b.quiet(200*time.Millisecond, first)
	for _, record := range first.records {
		require.Equal(t, moved.Index, record.Partition, "the other one is still paused")
	}
	require.NoError(t, first.Resume([]kafka.Partition{{Topic: topic, Index: 1 - moved.Index}}))
	b.until("all records", has(first, 20), first)
}

// regex: a pattern takes topics that are there and those that come.
func regex(t *testing.T, b *bench) {
	prefix := b.Topic()
	b.create(prefix+".one", 1)
	consumer, err := b.Cluster.Consumer(kafka.ConsumerConfig{Servers: b.Servers, Group: b.Topic()})
	require.NoError(t, err)
	for _, pattern := range []string{"^(", "^[", "^a**("} {
		problem := failure(t, consumer.Subscribe([]string{pattern}))
		assert.Equalf(t, kafka.BadTopic, problem.Code, "%s", pattern)
		assert.Contains(t, problem.Text, pattern)
	}
	for _, name := range []string{"", ".", "a b", "日本"} {
		assert.Equalf(t, kafka.BadTopic, failure(t, consumer.Subscribe([]string{name})).Code, "%q", name)
	}
	require.NoError(t, consumer.Close())

	m := b.member(b.Topic(), "^"+prefix+"[.](one|two)$")
	b.until("the first topic", func() bool { return len(m.owned) == 1 }, m)
	b.create(prefix+".two", 1)
	b.create(prefix+".three", 1)
	producer := b.producer()
	for _, name := range []string{".one", ".two", ".three"} {
		b.send(producer, series(prefix+name, 3, 0, 10)...)
	}
	b.until("records of both topics", has(m, 20), m)
	b.quiet(100*time.Millisecond, m)
	assert.Len(t, m.records, 20)
	assert.False(t, m.owned[kafka.Partition{Topic: prefix + ".three"}])
}

// grow: partitions that are added at run time are read from their beginning.
func grow(t *testing.T, b *bench) {
	topic, name := b.topic(1), b.Topic()
	m := b.member(name, topic)
	b.until("the first partition", func() bool { return len(m.owned) == 1 }, m)
	b.Grow(t, topic, 3)
	// A producer that is new sees all partitions at once.
	b.send(b.producer(), series(topic, 30, 0, 30)...)
	b.until("records of all partitions", func() bool { return len(m.records) == 30 && len(m.owned) == 3 }, m)
}

// later: a topic that is made after Subscribe is taken up.
func later(t *testing.T, b *bench) {
	topic, name := b.Topic(), b.Topic()
	m := b.member(name, topic)
	b.quiet(300*time.Millisecond, m)
	b.create(topic, 2)
	b.send(b.producer(), series(topic, 10, 0, 20)...)
	b.until("all records", has(m, 20), m)
}

// group: members of one group may subscribe to different topics.
func group(t *testing.T, b *bench) {
	one, two, name := b.topic(2), b.topic(2), b.Topic()
	first, second := b.member(name, one), b.member(name, two)
	b.until("each its topic", func() bool { return len(first.owned) == 2 && len(second.owned) == 2 }, first, second)
	producer := b.producer()
	b.send(producer, series(one, 10, 0, 30)...)
	b.send(producer, series(two, 10, 0, 20)...)
	b.until("all records", func() bool { return len(first.records) == 30 && len(second.records) == 20 }, first, second)
	for _, record := range first.records {
		require.Equal(t, one, record.Topic)
	}
}

// leave: a member that closes leaves at once, and one without partitions is joined.
func leave(t *testing.T, b *bench) {
	topic, name := b.topic(1), b.Topic()
	first := b.member(name, topic)
	assert.False(t, first.Joined())
	b.until("the partition", func() bool { return len(first.owned) == 1 }, first)
	assert.True(t, first.Joined())
	second := b.member(name, topic)
	b.until("a member without partitions", second.Joined, first, second)
	require.Empty(t, second.owned)
	require.Len(t, first.owned, 1)

	start := time.Now()
	require.NoError(t, first.Close())
	assert.False(t, first.Joined())
	b.until("the partition to move", func() bool { return len(second.owned) == 1 }, second)
	// Below a session time-out, so the member did leave.
	assert.Less(t, time.Since(start), 40*time.Second)
}

// churn: members come and go, some give partitions up late. No record is missed, and
// no partition has two owners at a time; step checks that.
func churn(t *testing.T, b *bench) {
	const partitions, rounds, each = 6, 8, 60
	topic, name := b.topic(partitions), b.Topic()
	producer := b.producer()
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	var live []*member
	collect := func(m *member) {
		m.commit()
		for _, value := range m.values() {
			seen[value] = true
		}
		m.records = nil
	}
	sent := 0
	for round := range rounds {
		if len(live) < 2 || len(live) < 4 && random.IntN(2) == 0 {
			m := b.member(name, topic)
			m.hold = round%2 == 0
			live = append(live, m)
		} else {
			at := random.IntN(len(live))
			collect(live[at])
			require.NoError(t, live[at].Close())
			live = slices.Delete(live, at, at+1)
		}
		b.send(producer, series(topic, 30, sent, each)...)
		sent += each
		for deadline := time.Now().Add(min(b.Settle/60, 2*time.Second)); time.Now().Before(deadline); {
			for _, m := range live {
				m.step(10*time.Millisecond, 50)
				if m.hold && random.IntN(10) == 0 {
					collect(m)
					m.release()
				}
			}
		}
	}
	for _, m := range live {
		m.hold = false
		m.release()
	}
	b.until("all partitions to have an owner", func() bool {
		owned := 0
		for _, m := range live {
			owned += len(m.owned)
		}
		return owned == partitions
	}, live...)
	b.until("all records", func() bool {
		for _, m := range live {
			collect(m)
		}
		return len(seen) == sent
	}, live...)
}

// outstanding: Close ends although revoked partitions were never released.
func outstanding(t *testing.T, b *bench) {
	topic, name := b.topic(2), b.Topic()
	first := b.member(name, topic)
	first.hold = true
	b.until("all partitions", func() bool { return len(first.owned) == 2 }, first)
	second := b.member(name, topic)
	b.until("a revocation", func() bool { return len(first.revoked) == 1 }, first, second)
	start := time.Now()
	require.NoError(t, first.Close())
	assert.Less(t, time.Since(start), b.Settle)
	b.until("all partitions to move", func() bool { return len(second.owned) == 2 }, second)
}

// closed: a closed client answers every call, and says that it is closed.
func closed(t *testing.T, b *bench) {
	topic := b.topic(1)
	m := b.member(b.Topic(), topic)
	b.until("the partition", func() bool { return len(m.owned) == 1 }, m)
	partition := []kafka.Partition{{Topic: topic}}

	polled := make(chan struct{})
	go func() { // a Poll that waits does not hold up Close
		defer close(polled)
		m.Poll(b.Settle, 10)
	}()
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	require.NoError(t, m.Close())
	<-polled
	assert.Less(t, time.Since(start), b.Settle/2)
	require.NoError(t, m.Close())
	m.Poll(time.Second, 10)
	assert.Equal(t, kafka.Closed, failure(t, m.Subscribe([]string{topic})).Code)
	assert.Equal(t, kafka.Closed, failure(t, m.Commit(t.Context(), []kafka.Position{{Partition: partition[0], Offset: 1}})).Code)
	assert.Equal(t, kafka.Closed, failure(t, m.Pause(partition)).Code)
	assert.Equal(t, kafka.Closed, failure(t, m.Resume(partition)).Code)
	_ = m.Release(partition)
	_, known := m.End(partition[0])
	assert.False(t, known)
	assert.False(t, m.Joined())

	// Closed before it ever subscribed or polled.
	idle, err := b.Cluster.Consumer(kafka.ConsumerConfig{Servers: b.Servers, Group: b.Topic()})
	require.NoError(t, err)
	assert.Empty(t, idle.Poll(0, 10).Records)
	require.NoError(t, idle.Close())

	producer := b.producer()
	require.NoError(t, producer.Close(t.Context()))
	require.NoError(t, producer.Close(t.Context()))
	err = producer.Produce(&kafka.Record{Topic: topic, Value: []byte("1"), Timestamp: -1}, func(kafka.Delivery) { t.Error("done of a refused record") })
	assert.Equal(t, kafka.Closed, failure(t, err).Code)

	admin, err := b.Cluster.Admin(b.Servers, nil)
	require.NoError(t, err)
	require.NoError(t, admin.Close())
	require.NoError(t, admin.Close())
	_, err = admin.Topics(t.Context())
	assert.Equal(t, kafka.Closed, failure(t, err).Code)
	assert.Equal(t, kafka.Closed, failure(t, admin.Create(t.Context(), kafka.Topic{Name: b.Topic()})).Code)
	assert.Equal(t, kafka.Closed, failure(t, admin.Delete(t.Context(), topic)).Code)
}
