package confluent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// reader is a consumer that keeps what it was told.
type reader struct {
	kafka.Consumer
	t        *testing.T
	owned    map[kafka.Partition]bool
	values   []string // since the last assignment
	all      int
	lost     int
	assigned int
	errors   []error
	lines    []string
}

func newReader(t *testing.T, group string, properties map[string]string, topics ...string) *reader {
	t.Helper()
	r := &reader{t: t, owned: map[kafka.Partition]bool{}}
	consumer, err := Cluster{}.Consumer(kafka.ConsumerConfig{
		Servers: servers(t), Group: group, Properties: properties,
		OnLog: func(level int, text string) { r.lines = append(r.lines, fmt.Sprint(level, " ", text)) },
	})
	require.NoError(t, err)
	r.Consumer = consumer
	t.Cleanup(func() { _ = consumer.Close() })
	require.NoError(t, consumer.Subscribe(topics))
	return r
}

func (r *reader) step(wait time.Duration) {
	events := r.Poll(wait, 500)
	r.errors = append(r.errors, events.Errors...)
	for _, partition := range events.Lost {
		r.lost++
		delete(r.owned, partition)
	}
	for _, partition := range events.Revoked {
		delete(r.owned, partition)
	}
	require.NoError(r.t, r.Release(events.Revoked))
	for _, partition := range events.Assigned {
		r.assigned++
		r.owned[partition] = true
		r.values = nil
	}
	for _, record := range events.Records {
		r.values = append(r.values, string(record.Value))
		r.all++
	}
}

func (r *reader) until(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); r.step(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not in time: %s; owned %v, lost %d, assigned %d, %d records, last %v, errors %v, log %v",
				what, r.owned, r.lost, r.assigned, r.all, tail(r.values), r.errors, r.lines)
		}
	}
}

func (r *reader) quiet(span time.Duration) {
	for deadline := time.Now().Add(span); time.Now().Before(deadline); {
		r.step(20 * time.Millisecond)
	}
}

func tail(values []string) []string { return values[max(0, len(values)-3):] }

func (r *reader) said(text string) bool { return r.count(text) > 0 }

func (r *reader) count(text string) (count int) {
	for _, err := range r.errors {
		if strings.Contains(err.Error(), text) {
			count++
		}
	}
	return count
}

// known tells whether the identities of all that it reads are known.
func (r *reader) known() bool {
	c := r.Consumer.(*consumer)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, s := range c.slots {
		if s.high == 0 && s.low == 0 {
			return false
		}
	}
	return len(c.slots) > 0
}

// write sends records n0, n1, … and waits for them.
func write(t *testing.T, topic, name string, count int) {
	t.Helper()
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t), SendTimeout: 2 * time.Minute})
	require.NoError(t, err)
	for i := range count {
		require.NoError(t, producer.Produce(&kafka.Record{
			Topic: topic, Key: []byte("k"), Value: fmt.Appendf(nil, "%s%d", name, i), Timestamp: -1,
		}, func(d kafka.Delivery) { assert.NoError(t, d.Err) }))
	}
	require.NoError(t, producer.Close(context.Background()))
}

// A topic that is deleted and made again is read from its new beginning, as a new
// assignment, whether the new log is shorter or longer than what was read.
func TestRecreated(t *testing.T) {
	for name, count := range map[string]int{"Shorter": 10, "Longer": 300} {
		t.Run(name, func(t *testing.T) {
			topic := fresh()
			create(t, topic, 1, nil)
			t.Cleanup(func() { remove(t, topic) })
			write(t, topic, "old", 100)
			r := newReader(t, fresh(), nil, topic)
			r.until("the old records", func() bool { return len(r.values) == 100 })
			require.NoError(t, r.Commit(t.Context(), []kafka.Position{{Partition: kafka.Partition{Topic: topic}, Offset: 100}}))
			r.until("the identity of the topic", r.known)

			remove(t, topic)
			create(t, topic, 1, nil)
			write(t, topic, "new", count)
			r.until("the new records", func() bool {
				return len(r.values) == count && r.values[0] == "new0" && r.values[count-1] == fmt.Sprint("new", count-1)
			})
			assert.GreaterOrEqual(t, r.assigned, 2, "a new log is a new assignment")
			assert.NotEmpty(t, r.errors, "it is told")

			// It goes on, also after a pause, which has a position of its own inside librdkafka.
			partition := []kafka.Partition{{Topic: topic}}
			require.NoError(t, r.Pause(partition))
			require.NoError(t, r.Resume(partition))
			write(t, topic, "more", 5)
			r.until("later records", func() bool { return len(r.values) > 0 && r.values[len(r.values)-1] == "more4" })
			assert.Len(t, r.values, count+5, "nothing twice")
			require.NoError(t, r.Commit(t.Context(), []kafka.Position{{Partition: partition[0], Offset: int64(count + 5)}}))
		})
	}
}

// A topic that is deleted and stays away is told, and taken up when it comes back.
func TestDeleted(t *testing.T) {
	topic := fresh()
	create(t, topic, 1, nil)
	t.Cleanup(func() { remove(t, topic) })
	write(t, topic, "old", 3)
	r := newReader(t, fresh(), nil, topic)
	r.until("the old records", func() bool { return len(r.values) == 3 })
	remove(t, topic)
	r.until("an error", func() bool { return len(r.errors) > 0 })
	r.until("the partition to go", func() bool { return len(r.owned) == 0 })
	assert.True(t, r.said(topic))
	create(t, topic, 1, nil)
	write(t, topic, "new", 2)
	r.until("the new records", func() bool { return len(r.values) == 2 && r.values[0] == "new0" })
}

// A committed position that the log does not hold any more: the log's beginning.
func TestOutOfRange(t *testing.T) {
	topic, group := makeTopic(t, 1, nil), fresh()
	partition := kafka.Partition{Topic: topic}
	write(t, topic, "v", 100)
	commit := func(offset int64) {
		r := newReader(t, group, nil, topic)
		r.until("the partition", func() bool { return len(r.owned) == 1 })
		require.NoError(t, r.Commit(t.Context(), []kafka.Position{{Partition: partition, Offset: offset}}))
		require.NoError(t, r.Close())
	}

	commit(10)
	results, err := tools(t).DeleteRecords(t.Context(), []library.TopicPartition{{Topic: &topic, Partition: 0, Offset: 50}})
	require.NoError(t, err)
	require.NoError(t, results.DeleteRecordsResults[0].TopicPartition.Error)
	r := newReader(t, group, nil, topic)
	r.until("the records that are left", func() bool { return len(r.values) == 50 && r.values[0] == "v50" })
	assert.True(t, r.said("out of range"), "it is told: %v", r.errors)
	r.quiet(time.Second)
	assert.Equal(t, 1, r.count("out of range"), "once, not in a loop: %v", r.errors)
	require.NoError(t, r.Commit(t.Context(), []kafka.Position{{Partition: partition, Offset: 100}}))
	require.NoError(t, r.Close())

	commit(1000)
	r = newReader(t, group, nil, topic)
	r.until("all records", func() bool { return len(r.values) == 50 && r.values[0] == "v50" })
	assert.True(t, r.said("out of range"))
}

// A member that does not poll is expelled: its partitions are lost, it cannot commit,
// and it comes back by itself.
func TestExpelled(t *testing.T) {
	topic, group := makeTopic(t, 1, nil), fresh()
	write(t, topic, "v", 3)
	r := newReader(t, group, map[string]string{"max.poll.interval.ms": "6000", "session.timeout.ms": "6000"}, topic)
	r.until("the records", func() bool { return len(r.values) == 3 })
	require.True(t, r.Joined())
	time.Sleep(7 * time.Second)
	require.Eventually(t, func() bool {
		// Its own beginning, for it comes again from there.
		err := r.Commit(t.Context(), []kafka.Position{{Partition: kafka.Partition{Topic: topic}, Offset: 0}})
		var problem *kafka.Error
		return errors.As(err, &problem) && problem.Code == kafka.Stale
	}, time.Minute, 100*time.Millisecond)
	assert.False(t, r.Joined())
	r.until("the loss", func() bool { return r.lost > 0 })
	r.until("the partition again", func() bool { return len(r.owned) == 1 })
	r.until("the records again", func() bool { return len(r.values) == 3 })
	assert.NotEmpty(t, r.errors)
	assert.True(t, r.Joined())
}

// A member whose place another one takes is unusable, and says so once.
func TestFenced(t *testing.T) {
	topic, group := makeTopic(t, 1, nil), fresh()
	static := map[string]string{"group.instance.id": "one"}
	first := newReader(t, group, static, topic)
	first.until("the partition", func() bool { return len(first.owned) == 1 })
	second := newReader(t, group, static, topic)
	second.until("the partition in the second", func() bool { return len(second.owned) == 1 })
	fatal := func() (count int) {
		for _, err := range first.errors {
			if problemOf(t, err).Code == kafka.Fatal {
				count++
			}
		}
		return count
	}
	first.until("the fatal error and the loss", func() bool { return fatal() > 0 && first.lost == 1 })
	first.quiet(2 * time.Second)
	assert.Equal(t, 1, fatal(), "%v", first.errors)
	assert.False(t, first.Joined())
	start := time.Now()
	require.NoError(t, first.Close())
	assert.Less(t, time.Since(start), 20*time.Second)
	assert.True(t, second.Joined())
}
