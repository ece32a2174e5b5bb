package confluent

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// More partitions than keep what was fetched for them stop and go on, again and again:
// each record comes once and in order, and none while its partition stands.
func TestStops(t *testing.T) {
	const partitions, keys, each = 20, 100, 40
	topic := makeTopic(t, partitions, nil)
	r := newReader(t, fresh(), nil, topic)
	r.until("the partitions", func() bool { return len(r.owned) == partitions })
	all := slices.Collect(maps.Keys(r.owned))
	require.NoError(t, r.Pause(all))
	producer, err := Cluster{}.Producer(kafka.ProducerConfig{Servers: servers(t), SendTimeout: 2 * time.Minute})
	require.NoError(t, err)
	for i := range each {
		for key := range keys {
			require.NoError(t, producer.Produce(&kafka.Record{
				Topic: topic, Key: fmt.Appendf(nil, "key-%d", key), Value: fmt.Append(nil, i), Timestamp: -1,
			}, func(d kafka.Delivery) { assert.NoError(t, d.Err) }))
		}
	}
	require.NoError(t, producer.Close(t.Context()))
	r.quiet(time.Second)
	require.Zero(t, r.all, "records of partitions that stand")

	next, standing, total := map[string]int{}, map[kafka.Partition]bool{}, 0
	for _, at := range all {
		standing[at] = true
	}
	deadline := time.Now().Add(3 * time.Minute)
	for turn := 0; total < keys*each; turn++ {
		require.True(t, time.Now().Before(deadline), "%d records of %d", total, keys*each)
		// One partition in five moves, others each time, also when nothing came.
		for i, at := range all {
			if i%5 != turn%5 {
				continue
			}
			if standing[at] {
				require.NoError(t, r.Resume([]kafka.Partition{at}))
			} else {
				require.NoError(t, r.Pause([]kafka.Partition{at}))
			}
			standing[at] = !standing[at]
		}
		events := r.Poll(20*time.Millisecond, 7)
		require.Empty(t, events.Errors)
		for _, record := range events.Records {
			require.False(t, standing[kafka.Partition{Topic: record.Topic, Index: record.Partition}])
			require.Equal(t, fmt.Sprint(next[string(record.Key)]), string(record.Value), "key %s", record.Key)
			next[string(record.Key)]++
			total++
		}
	}
	require.NoError(t, r.Resume(all))
	before := r.all
	r.quiet(300 * time.Millisecond)
	require.Equal(t, before, r.all, "a record came twice")
}

// A resumed partition ends a wait at once, also when nothing new is fetched for it.
func TestResumeWakes(t *testing.T) {
	const rounds = 20
	topic := makeTopic(t, 1, nil)
	r := newReader(t, fresh(), nil, topic)
	at := kafka.Partition{Topic: topic}
	r.until("the partition", func() bool { return r.owned[at] })
	write(t, topic, "n", rounds+1)
	r.until("the first record", func() bool { return len(r.Poll(20*time.Millisecond, 1).Records) > 0 })
	for range rounds {
		require.NoError(t, r.Pause([]kafka.Partition{at}))
		found := make(chan int, 1)
		go func() { found <- len(r.Poll(10*time.Minute, 1).Records) }()
		time.Sleep(10 * time.Millisecond) // so that it waits
		require.NoError(t, r.Resume([]kafka.Partition{at}))
		select {
		case count := <-found:
			require.Equal(t, 1, count)
		case <-time.After(time.Minute):
			require.Fail(t, "it waits on")
		}
	}
}
