// Package kafkatest owns the contract suite of the port core/kafka: what every
// adapter has to do, written once and run by each.
package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// Harness is one adapter under test.
type Harness struct {
	Cluster kafka.Cluster
	Servers []string
	// Topic gives a name that is unique and not in use; groups take names from it too.
	Topic func() string
	// Grow raises the number of partitions of a topic to total.
	Grow func(t testing.TB, topic string, total int)
	// Settle bounds how long a group may need to agree; 30 s when zero.
	Settle time.Duration
}

// Run holds an adapter to the contract. It calls setup once for each test.
func Run(t *testing.T, setup func(testing.TB) Harness) {
	tests := []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"Fields", fields},
		{"Placement", placement},
		{"Order", order},
		{"Limit", limit},
		{"Resume", resume},
		{"End", end},
		{"Handover", handover},
		{"Release", release},
		{"Pause", pause},
		{"Unpaused", unpaused},
		{"Regex", regex},
		{"Grow", grow},
		{"Later", later},
		{"Group", group},
		{"Leave", leave},
		{"Churn", churn},
		{"Outstanding", outstanding},
		{"Closed", closed},
		{"Refused", refused},
		{"Flush", flush},
		{"Admin", admin},
		{"Reread", reread},
		{"Count", count},
	}
	for _, one := range tests {
		t.Run(one.name, func(t *testing.T) {
			harness := setup(t)
			if harness.Settle == 0 {
				harness.Settle = 2 * time.Minute
			}
			one.test(t, &bench{Harness: harness, t: t})
		})
	}
}

// bench is the tools of one test.
type bench struct {
	Harness
	t       *testing.T
	members []*member
}

// topic makes a topic of so many partitions and removes it afterwards.
func (b *bench) topic(partitions int) string {
	b.t.Helper()
	name := b.Topic()
	b.create(name, partitions)
	return name
}

func (b *bench) create(name string, partitions int) {
	b.t.Helper()
	admin := b.admin()
	require.NoError(b.t, admin.Create(b.t.Context(), kafka.Topic{Name: name, Partitions: partitions, Replication: 1}))
	b.t.Cleanup(func() {
		admin, err := b.Cluster.Admin(b.Servers, nil)
		if err != nil {
			b.t.Error(err)
			return
		}
		defer func() { _ = admin.Close() }()
		if err := admin.Delete(context.Background(), name); err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) admin() kafka.Admin {
	b.t.Helper()
	admin, err := b.Cluster.Admin(b.Servers, nil)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = admin.Close() })
	return admin
}

func (b *bench) producer() kafka.Producer {
	b.t.Helper()
	producer, err := b.Cluster.Producer(kafka.ProducerConfig{Servers: b.Servers, SendTimeout: 2 * time.Minute})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = producer.Close(b.t.Context()) })
	return producer
}

// send writes records and waits for all of them.
func (b *bench) send(producer kafka.Producer, records ...*kafka.Record) []kafka.Delivery {
	b.t.Helper()
	type answer struct {
		at       int
		delivery kafka.Delivery
	}
	answers := make(chan answer, len(records))
	for i, record := range records {
		require.NoError(b.t, producer.Produce(record, func(d kafka.Delivery) { answers <- answer{i, d} }))
	}
	deliveries := make([]kafka.Delivery, len(records))
	limit := time.After(b.Settle)
	for range records {
		select {
		case got := <-answers:
			require.NoError(b.t, got.delivery.Err)
			deliveries[got.at] = got.delivery
		case <-limit:
			b.t.Fatal("a record was not acknowledged in time")
		}
	}
	return deliveries
}

// series makes records of topic with keys k0, k1, … and values from first on.
func series(topic string, keys, first, count int) []*kafka.Record {
	records := make([]*kafka.Record, count)
	for i := range records {
		records[i] = &kafka.Record{
			Topic:     topic,
			Timestamp: -1,
			Key:       fmt.Appendf(nil, "k%d", (first+i)%keys),
			Value:     fmt.Appendf(nil, "%d", first+i),
		}
	}
	return records
}

// member is a consumer that keeps what it was told.
type member struct {
	kafka.Consumer
	bench   *bench
	name    string
	owned   map[kafka.Partition]bool
	revoked map[kafka.Partition]bool
	hold    bool // revoked partitions wait for the test
	gone    bool // closed
	records []*kafka.Record
	last    map[kafka.Partition]int64
	errors  []error
}

func (b *bench) member(group string, topics ...string) *member {
	b.t.Helper()
	consumer, err := b.Cluster.Consumer(kafka.ConsumerConfig{Servers: b.Servers, Group: group})
	require.NoError(b.t, err)
	m := &member{
		Consumer: consumer, bench: b, name: group,
		owned: map[kafka.Partition]bool{}, revoked: map[kafka.Partition]bool{}, last: map[kafka.Partition]int64{},
	}
	b.t.Cleanup(func() { _ = consumer.Close() })
	require.NoError(b.t, consumer.Subscribe(topics))
	b.members = append(b.members, m)
	return m
}

// Close gives up all that the member has.
func (m *member) Close() error {
	clear(m.owned)
	clear(m.revoked)
	m.gone = true
	return m.Consumer.Close()
}

// step polls once. It checks what holds for every Poll: no record of a partition
// that the member does not own, offsets that rise within one assignment, no
// assignment of what this or another member of the group still has.
func (m *member) step(wait time.Duration, limit int) {
	t := m.bench.t
	t.Helper()
	events := m.Poll(wait, limit)
	m.errors = append(m.errors, events.Errors...)
	for _, partition := range events.Lost {
		require.Truef(t, m.owned[partition] || m.revoked[partition], "lost %v without having it", partition)
		delete(m.owned, partition)
		delete(m.revoked, partition)
		delete(m.last, partition)
	}
	for _, partition := range events.Revoked {
		require.Truef(t, m.owned[partition], "revoked %v without having it", partition)
		delete(m.owned, partition)
		m.revoked[partition] = true
	}
	for _, partition := range events.Assigned {
		require.Falsef(t, m.owned[partition], "assigned %v twice", partition)
		require.Falsef(t, m.revoked[partition], "assigned %v before its release", partition)
		for _, other := range m.bench.members {
			if other != m && other.name == m.name {
				require.Falsef(t, other.owned[partition] || other.revoked[partition], "two members have %v", partition)
			}
		}
		m.owned[partition] = true
		delete(m.last, partition)
	}
	for _, record := range events.Records {
		at := kafka.Partition{Topic: record.Topic, Index: record.Partition}
		require.Truef(t, m.owned[at], "a record of %v, which is not assigned", at)
		if last, seen := m.last[at]; seen {
			require.Greaterf(t, record.Offset, last, "offsets of %v go back within one assignment", at)
		}
		m.last[at] = record.Offset
	}
	m.records = append(m.records, events.Records...)
	if !m.hold {
		m.release()
	}
}

// release gives up what was revoked.
func (m *member) release() {
	if len(m.revoked) == 0 {
		return
	}
	var partitions []kafka.Partition
	for partition := range m.revoked {
		partitions = append(partitions, partition)
	}
	clear(m.revoked)
	require.NoError(m.bench.t, m.Release(partitions))
}

func (m *member) values() []string {
	values := make([]string, len(m.records))
	for i, record := range m.records {
		values[i] = string(record.Value)
	}
	return values
}

// commit writes the position after the last record of every owned partition. In the
// middle of a rebalance it may have to try again.
func (m *member) commit() {
	m.bench.t.Helper()
	for deadline := time.Now().Add(m.bench.Settle); ; m.step(20*time.Millisecond, 500) {
		var positions []kafka.Position
		for partition, last := range m.last {
			if m.owned[partition] || m.revoked[partition] {
				positions = append(positions, kafka.Position{Partition: partition, Offset: last + 1})
			}
		}
		err := m.committed(positions)
		var problem *kafka.Error
		if errors.As(err, &problem) && problem.Code == kafka.Rebalancing && time.Now().Before(deadline) {
			continue
		}
		require.NoError(m.bench.t, err)
		return
	}
}

// committed waits for a commit. A broker may answer it only after the group has joined
// anew, so that the other members, too, have to go on if it takes long.
func (m *member) committed(positions []kafka.Position) error {
	m.bench.t.Helper()
	done := make(chan error, 1)
	go func() { done <- m.Commit(m.bench.t.Context(), positions) }()
	alone := time.After(time.Second)
	for {
		select {
		case err := <-done:
			return err
		case <-alone:
		}
		for _, other := range m.bench.members {
			if other.name == m.name && !other.gone {
				other.step(10*time.Millisecond, 500)
				other.release()
			}
		}
		alone = time.After(0)
	}
}

// until polls all members in turn until done holds.
func (b *bench) until(what string, done func() bool, members ...*member) {
	b.t.Helper()
	deadline := time.Now().Add(b.Settle)
	for !done() {
		if time.Now().After(deadline) {
			for i, m := range members {
				b.t.Logf("member %d owns %v, holds %v, has %d records, errors %v", i, m.owned, m.revoked, len(m.records), m.errors)
			}
			b.t.Fatalf("not within %v: %s", b.Settle, what)
		}
		for _, m := range members {
			m.step(20*time.Millisecond, 500)
		}
	}
}

// quiet polls for a while to see that nothing more comes.
func (b *bench) quiet(span time.Duration, members ...*member) {
	b.t.Helper()
	for deadline := time.Now().Add(span); time.Now().Before(deadline); {
		for _, m := range members {
			m.step(10*time.Millisecond, 500)
		}
	}
}

func has(m *member, count int) func() bool { return func() bool { return len(m.records) >= count } }
