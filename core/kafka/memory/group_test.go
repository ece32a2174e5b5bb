package memory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"prosody/core/kafka"
)

// host is a member with what its program knows.
type host struct {
	consumer *Consumer
	topics   []string
	next     map[kafka.Partition]int64 // assigned: offset after the last record, -1 at first
	owed     map[kafka.Partition]int64 // revoked, not released
}

// world is a group in a test. committed and handled hold for the partitions' present logs.
type world struct {
	broker    *Broker
	producer  kafka.Producer
	admin     *Admin
	hosts     []*host
	committed map[kafka.Partition]int64
	handled   map[kafka.Partition]map[int64]int
	sent      map[kafka.Partition]int64
	rough     bool // members may be expelled, or leave with work not committed: then records repeat
}

var stock = []string{"a", "b", "c"}

func (w *world) open(t require.TestingT, topics []string) {
	made, err := w.broker.Consumer(kafka.ConsumerConfig{Group: "g"})
	require.NoError(t, err)
	h := &host{consumer: made.(*Consumer), topics: topics, next: map[kafka.Partition]int64{}, owed: map[kafka.Partition]int64{}}
	require.NoError(t, made.Subscribe(topics))
	w.hosts = append(w.hosts, h)
}

// owner is the host that may deliver a partition, by what the hosts were told.
func (w *world) owner(partition kafka.Partition) *host {
	for _, h := range w.hosts {
		if _, has := h.next[partition]; has {
			return h
		}
		if _, has := h.owed[partition]; has {
			return h
		}
	}
	return nil
}

func (w *world) poll(t require.TestingT, h *host, limit int) bool {
	events := h.consumer.Poll(0, limit)
	for _, partition := range events.Lost {
		_, held := h.next[partition]
		_, owed := h.owed[partition]
		require.True(t, held || owed, "%v was lost and not had", partition)
		delete(h.next, partition)
		delete(h.owed, partition)
	}
	for _, record := range events.Records {
		partition := kafka.Partition{Topic: record.Topic, Index: record.Partition}
		next, held := h.next[partition]
		require.True(t, held, "%v is delivered and not assigned", partition)
		if next < 0 {
			require.Equal(t, w.committed[partition], record.Offset, "%v begins at the committed offset", partition)
		} else {
			require.Equal(t, next, record.Offset, "%v goes on without gap or repeat", partition)
		}
		h.next[partition] = record.Offset + 1
		if w.handled[partition] == nil {
			w.handled[partition] = map[int64]int{}
		}
		w.handled[partition][record.Offset]++
	}
	for _, partition := range events.Revoked {
		next, held := h.next[partition]
		require.True(t, held, "%v is revoked and not held", partition)
		delete(h.next, partition)
		h.owed[partition] = next
	}
	for _, partition := range events.Assigned {
		if other := w.owner(partition); other != nil {
			require.Contains(t, other.consumer.lost, partition, "%v is assigned while another has it", partition)
		}
		h.next[partition] = -1
	}
	return len(events.Records)+len(events.Lost)+len(events.Revoked)+len(events.Assigned)+len(events.Errors) > 0
}

func (w *world) commit(t require.TestingT, h *host, partition kafka.Partition, next int64) {
	if next < 0 {
		return
	}
	err := h.consumer.Commit(background, []kafka.Position{{Partition: partition, Offset: next}})
	claim := w.broker.groups["g"].owners[partition]
	if claim == nil || claim.owner != h.consumer {
		require.Error(t, err, "%v is committed by a member that lost it", partition)
		return
	}
	if err == nil {
		w.committed[partition] = next
	}
}

func (w *world) release(t require.TestingT, h *host) {
	for partition, next := range h.owed {
		w.commit(t, h, partition, next)
		require.NoError(t, h.consumer.Release([]kafka.Partition{partition}))
		delete(h.owed, partition)
	}
}

func (w *world) close(t require.TestingT, at int, clean bool) {
	h := w.hosts[at]
	if clean {
		for partition, next := range h.next {
			w.commit(t, h, partition, next)
		}
		w.release(t, h)
	}
	require.NoError(t, h.consumer.Close())
	w.hosts = append(w.hosts[:at], w.hosts[at+1:]...)
}

// single checks that no partition is in the hands of two.
func (w *world) single(t require.TestingT) {
	w.broker.mutex.Lock()
	defer w.broker.mutex.Unlock()
	group := w.broker.groups["g"]
	for _, h := range w.hosts {
		for _, claim := range h.consumer.claims {
			require.Same(t, claim, group.owners[claim.Partition], "%v has two owners", claim.Partition)
		}
	}
}

func (w *world) settled(t require.TestingT) {
	for quiet := 0; quiet < 2; quiet++ {
		for _, h := range w.hosts {
			if w.poll(t, h, 100) {
				quiet = -1
			}
			w.release(t, h)
		}
	}
	share := map[*host]int{}
	for topic, found := range w.broker.topics {
		for _, log := range found.logs {
			wanted, owners := false, 0
			for _, h := range w.hosts {
				wanted = wanted || slices.Contains(h.topics, topic)
				if _, has := h.next[log.partition()]; has {
					owners++
					share[h]++
					require.Contains(t, h.topics, topic)
				}
			}
			if wanted {
				require.Equal(t, 1, owners, "%v after settling", log.partition())
			} else {
				require.Zero(t, owners)
			}
		}
	}
	for _, h := range w.hosts {
		for _, other := range w.hosts {
			if fmt.Sprint(h.topics) == fmt.Sprint(other.topics) {
				require.LessOrEqual(t, share[h]-share[other], 1)
			}
		}
	}
}

func TestGroupModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{broker: NewRegistry(Settings{Partitions: 2}).Broker("test"),
			committed: map[kafka.Partition]int64{}, handled: map[kafka.Partition]map[int64]int{}, sent: map[kafka.Partition]int64{}}
		w.rough = rapid.Bool().Draw(t, "rough")
		w.producer, _ = w.broker.Producer(kafka.ProducerConfig{})
		w.admin = &Admin{broker: w.broker}
		wish := rapid.SliceOfNDistinct(rapid.SampledFrom(stock), 1, 3, rapid.ID[string])
		pick := func(t *rapid.T) *host {
			if len(w.hosts) == 0 {
				t.Skip("nobody")
			}
			return rapid.SampledFrom(w.hosts).Draw(t, "host")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.single(t) },
			"open": func(t *rapid.T) {
				if len(w.hosts) < 4 {
					w.open(t, wish.Draw(t, "topics"))
				}
			},
			"subscribe": func(t *rapid.T) {
				h := pick(t)
				h.topics = wish.Draw(t, "topics")
				require.NoError(t, h.consumer.Subscribe(h.topics))
			},
			"send": func(t *rapid.T) {
				record := &kafka.Record{Topic: rapid.SampledFrom(stock).Draw(t, "topic"), Key: []byte{rapid.Byte().Draw(t, "key")}}
				require.NoError(t, w.producer.Produce(record, func(d kafka.Delivery) {
					partition := kafka.Partition{Topic: record.Topic, Index: d.Partition}
					require.Equal(t, w.sent[partition], d.Offset)
					w.sent[partition]++
				}))
			},
			"poll":    func(t *rapid.T) { w.poll(t, pick(t), rapid.IntRange(0, 5).Draw(t, "limit")) },
			"release": func(t *rapid.T) { w.release(t, pick(t)) },
			"commit": func(t *rapid.T) {
				h := pick(t)
				for partition, next := range h.next {
					w.commit(t, h, partition, next)
				}
			},
			"leave": func(t *rapid.T) {
				if pick(t); len(w.hosts) > 1 {
					w.close(t, rapid.IntRange(0, len(w.hosts)-1).Draw(t, "at"), !w.rough || rapid.Bool().Draw(t, "clean"))
				}
			},
			"expel": func(t *rapid.T) {
				if h := pick(t); w.rough {
					h.consumer.Expel()
				}
			},
			"grow": func(t *rapid.T) {
				topic := rapid.SampledFrom(stock).Draw(t, "topic")
				if found := w.broker.topics[topic]; found != nil && len(found.logs) < 6 {
					require.NoError(t, w.admin.AddPartitions(background, topic, len(found.logs)+1))
				}
			},
			"delete": func(t *rapid.T) {
				topic := rapid.SampledFrom(stock).Draw(t, "topic")
				require.NoError(t, w.admin.Delete(background, topic))
				for index := range int32(6) {
					partition := kafka.Partition{Topic: topic, Index: index}
					delete(w.sent, partition)
					delete(w.committed, partition)
					delete(w.handled, partition)
				}
				for _, h := range w.hosts { // what is polled next is told as lost first
					w.poll(t, h, 0)
				}
			},
			"settle": func(t *rapid.T) { w.settled(t) },
		})
		w.open(t, stock)
		w.settled(t)
		for partition, sent := range w.sent {
			for offset := range sent {
				times := w.handled[partition][offset]
				require.NotZero(t, times, "%v offset %d is never delivered", partition, offset)
				if !w.rough {
					require.Equal(t, 1, times, "%v offset %d is delivered again", partition, offset)
				}
			}
		}
		for len(w.hosts) > 0 {
			w.close(t, 0, false)
		}
	})
}

// Members come and go while a producer runs; each record is handled once.
func TestChurn(t *testing.T) {
	const total, partitions = 20000, 8
	b := broker(t, Settings{Partitions: partitions})
	handled := make(chan string, total)
	work := func(stop <-chan struct{}) error {
		made, err := b.Consumer(kafka.ConsumerConfig{Group: "g"})
		if err != nil {
			return err
		}
		defer func() { _ = made.Close() }()
		if err := made.Subscribe([]string{"t"}); err != nil {
			return err
		}
		next := map[kafka.Partition]int64{}
		give := func(partitions []kafka.Partition) error {
			var positions []kafka.Position
			for _, partition := range partitions {
				if offset, has := next[partition]; has {
					positions = append(positions, kafka.Position{Partition: partition, Offset: offset})
					delete(next, partition)
				}
			}
			if err := made.Commit(background, positions); err != nil {
				return err
			}
			return made.Release(partitions)
		}
		for {
			events := made.Poll(5*time.Millisecond, 50)
			for _, record := range events.Records {
				handled <- string(record.Key)
				next[kafka.Partition{Topic: record.Topic, Index: record.Partition}] = record.Offset + 1
			}
			if err := give(events.Revoked); err != nil {
				return err
			}
			select {
			case <-stop:
				var rest []kafka.Partition
				for partition := range next {
					rest = append(rest, partition)
				}
				return give(rest)
			default:
			}
		}
	}
	failures := make(chan error)
	member := func() chan struct{} {
		stop := make(chan struct{})
		go func() { failures <- work(stop) }()
		return stop
	}
	members := []chan struct{}{member()}
	leave := func() {
		close(members[0])
		members = members[1:]
		require.NoError(t, <-failures)
	}
	for i := range total {
		_, err := send(b, &kafka.Record{Topic: "t", Key: fmt.Append(nil, i)})
		require.NoError(t, err)
		switch {
		case i%500 == 0 && len(members) < 4:
			members = append(members, member())
		case i%700 == 0 && len(members) > 1:
			leave()
		}
	}
	seen := map[string]int{}
	for len(seen) < total {
		select {
		case key := <-handled:
			seen[key]++
		case <-time.After(2 * time.Minute):
			require.FailNow(t, "records are missing", "%d of %d", len(seen), total)
		}
	}
	for len(members) > 0 {
		leave()
	}
	assert.Empty(t, handled)
	for key, times := range seen {
		assert.Equal(t, 1, times, key)
	}
}
