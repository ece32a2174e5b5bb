package kafkatest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

// fields: what was written is what arrives, null and empty kept apart.
func fields(t *testing.T, b *bench) {
	topic := b.topic(1)
	now := time.Now().UnixMilli()
	sent := []*kafka.Record{
		{Key: []byte("k"), Value: []byte(`{"a":1}`), Timestamp: now},
		{Key: []byte("k"), Value: nil, Timestamp: 1},
		{Key: []byte("k"), Value: []byte{}, Timestamp: 946684800000},
		{Key: nil, Value: []byte("null key"), Timestamp: now},
		{Key: []byte{}, Value: []byte("empty key"), Timestamp: now},
		{Key: []byte("a\x00b"), Value: []byte("\x00\xff\xfe"), Timestamp: now},
		{Key: []byte(strings.Repeat("k", 32768)), Value: bytes.Repeat([]byte("v"), 900_000), Timestamp: now},
		{Key: []byte("k"), Value: []byte("headers"), Timestamp: now, Headers: []kafka.Header{
			{Name: "b", Value: []byte("1")},
			{Name: "a", Value: nil},
			{Name: "b", Value: []byte{}},
			{Name: "b", Value: []byte("\xff\x00")},
			{Name: "", Value: []byte("no name")},
			{Name: "日本", Value: []byte("x")},
		}},
	}
	many := &kafka.Record{Key: []byte("k"), Value: []byte("many"), Timestamp: now}
	for i := range 1000 {
		many.Headers = append(many.Headers, kafka.Header{Name: fmt.Sprint(i % 7), Value: fmt.Append(nil, i)})
	}
	sent = append(sent, many)
	for _, record := range sent {
		record.Topic = topic
	}
	deliveries := b.send(b.producer(), sent...)
	m := b.member(b.Topic(), topic)
	b.until("all records", has(m, len(sent)), m)
	require.Len(t, m.records, len(sent))
	for i, got := range m.records {
		want := *sent[i]
		want.Offset = deliveries[i].Offset
		assert.Equal(t, int64(i), got.Offset)
		assert.Equalf(t, want.Key == nil, got.Key == nil, "null key of record %d", i)
		assert.Equalf(t, want.Value == nil, got.Value == nil, "null value of record %d", i)
		require.Lenf(t, got.Headers, len(want.Headers), "headers of record %d", i)
		for j, header := range got.Headers {
			assert.Equalf(t, want.Headers[j].Value == nil, header.Value == nil, "null header %d of record %d", j, i)
		}
		assert.Truef(t, same(&want, got), "record %d at %d of %d bytes: want %d at %d of %d bytes",
			got.Offset, got.Timestamp, len(got.Value), want.Offset, want.Timestamp, len(want.Value))
	}
	assert.Empty(t, m.errors)
}

func same(a, b *kafka.Record) bool {
	if a.Topic != b.Topic || a.Partition != b.Partition || a.Offset != b.Offset || a.Timestamp != b.Timestamp ||
		!bytes.Equal(a.Key, b.Key) || !bytes.Equal(a.Value, b.Value) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Name != b.Headers[i].Name || !bytes.Equal(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

// placement: CRC32 of the key modulo the partitions, null and empty included.
func placement(t *testing.T, b *bench) {
	const partitions = 7
	topic := b.topic(partitions)
	// Fixed vectors first, so that a common mistake cannot hide.
	vectors := map[string]uint32{"": 0, "a": 0xe8b7be43, "order-1": 0xe0b37fef, "日本": 0xc7b7cdcc}
	keys := [][]byte{nil, {}}
	for key, sum := range vectors {
		require.Equal(t, sum, crc32.ChecksumIEEE([]byte(key)))
		keys = append(keys, []byte(key))
	}
	for i := range 100 {
		keys = append(keys, fmt.Appendf(nil, "key-%d", i))
	}
	var sent []*kafka.Record
	for _, key := range keys {
		// A partition in the record is ignored.
		sent = append(sent, &kafka.Record{Topic: topic, Partition: 3, Offset: 99, Timestamp: -1, Key: key, Value: []byte("1")})
	}
	for i, delivery := range b.send(b.producer(), sent...) {
		assert.Equalf(t, int32(crc32.ChecksumIEEE(keys[i])%partitions), delivery.Partition, "key %q", keys[i])
	}
}

// order: records of a key keep the order of the calls.
func order(t *testing.T, b *bench) {
	topic := b.topic(3)
	const count, keys = 3000, 17
	b.send(b.producer(), series(topic, keys, 0, count)...)
	m := b.member(b.Topic(), topic)
	b.until("all records", has(m, count), m)
	b.quiet(100*time.Millisecond, m)
	require.Len(t, m.records, count)
	next := map[string]int{}
	for _, record := range m.records {
		key := string(record.Key)
		at, seen := next[key]
		if !seen {
			_, err := fmt.Sscanf(key, "k%d", &at)
			require.NoError(t, err)
		}
		require.Equalf(t, fmt.Sprint(at), string(record.Value), "key %s", key)
		next[key] = at + keys
	}
}

// limit: a Poll returns no more than asked, and does not wait for more than one record.
func limit(t *testing.T, b *bench) {
	topic := b.topic(1)
	b.send(b.producer(), series(topic, 5, 0, 100)...)
	m := b.member(b.Topic(), topic)
	for deadline := time.Now().Add(b.Settle); len(m.records) < 100 && time.Now().Before(deadline); {
		before := len(m.records)
		m.step(50*time.Millisecond, 7)
		require.LessOrEqual(t, len(m.records)-before, 7)
	}
	require.Len(t, m.records, 100)

	// Records come as soon as there are any, not when wait ends.
	producer := b.producer()
	b.send(producer, series(topic, 1, 0, 1)...)
	b.until("the first extra record", has(m, 101), m)
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(100 * time.Millisecond)
		b.send(producer, series(topic, 1, 1, 1)...)
	}()
	start := time.Now()
	m.step(b.Settle, 500)
	<-done
	require.Len(t, m.records, 102)
	assert.Less(t, time.Since(start), b.Settle/2)

	start = time.Now()
	m.step(0, 500)
	assert.Less(t, time.Since(start), 10*time.Second)
}

// end: the end of a log is known once records were read.
func end(t *testing.T, b *bench) {
	topic := b.topic(1)
	b.send(b.producer(), series(topic, 5, 0, 42)...)
	m := b.member(b.Topic(), topic)
	_, known := m.End(kafka.Partition{Topic: b.Topic(), Index: 0})
	assert.False(t, known)
	b.until("all records", has(m, 42), m)
	b.until("the end", func() bool {
		at, known := m.End(kafka.Partition{Topic: topic, Index: 0})
		return known && at == 42
	}, m)
}

// pause: nothing is lost or doubled, and other partitions flow on.
func pause(t *testing.T, b *bench) {
	topic := b.topic(2)
	const count = 4000
	producer := b.producer()
	b.send(producer, series(topic, 40, 0, count)...)
	m := b.member(b.Topic(), topic)
	b.until("the first records", has(m, 10), m)
	stopped := kafka.Partition{Topic: topic, Index: m.records[0].Partition}
	other := kafka.Partition{Topic: topic, Index: 1 - stopped.Index}

	for round := range 3 {
		require.NoError(t, m.Pause([]kafka.Partition{stopped, {Topic: topic, Index: 99}}))
		before := len(m.records)
		b.send(producer, series(topic, 40, count+round*100, 100)...)
		b.until("records of the other partition", func() bool {
			for _, record := range m.records[before:] {
				if record.Partition == other.Index {
					return true
				}
			}
			return round > 0 && m.last[other] > 0 && len(m.records) > before
		}, m)
		b.quiet(100*time.Millisecond, m)
		for _, record := range m.records[before:] {
			require.Equal(t, other.Index, record.Partition, "a record of a paused partition")
		}
		require.NoError(t, m.Resume([]kafka.Partition{stopped}))
		// A resume of what is not paused rewinds nothing; step checks that.
		require.NoError(t, m.Resume([]kafka.Partition{other}))
		m.step(20*time.Millisecond, 10)
	}
	b.until("all records", has(m, count+300), m)
	b.quiet(200*time.Millisecond, m)
	seen := map[string]int{}
	for _, value := range m.values() {
		seen[value]++
	}
	require.Len(t, seen, count+300)
	require.Len(t, m.records, count+300)
}

// refused: records that can never be written are refused as permanent.
func refused(t *testing.T, b *bench) {
	topic := b.topic(1)
	producer := b.producer()
	for _, name := range []string{"", ".", "..", "a b", "日本", "a/b", "a\x00b", strings.Repeat("a", 250), "^a"} {
		err := outcome(b, producer, &kafka.Record{Topic: name, Key: []byte("k"), Value: []byte("1"), Timestamp: -1})
		problem := failure(t, err)
		assert.Equalf(t, kafka.BadTopic, problem.Code, "%q: %v", name, err)
		assert.True(t, problem.Permanent())
		assert.Contains(t, problem.Text, "topic")
	}
	big := &kafka.Record{Topic: topic, Key: []byte("k"), Value: noise(3 << 20), Timestamp: -1}
	problem := failure(t, outcome(b, producer, big))
	assert.Equal(t, kafka.TooLarge, problem.Code)
	assert.True(t, problem.Permanent())
	// The client goes on.
	b.send(producer, series(topic, 1, 0, 1)...)
}

// outcome is the error of one Produce, whichever way it comes.
func outcome(b *bench, producer kafka.Producer, record *kafka.Record) error {
	b.t.Helper()
	answer := make(chan error, 2)
	if err := producer.Produce(record, func(d kafka.Delivery) { answer <- d.Err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(b.Settle):
		b.t.Fatal("a record was not answered in time")
		return nil
	}
}

func failure(t *testing.T, err error) *kafka.Error {
	t.Helper()
	require.Error(t, err)
	var problem *kafka.Error
	require.ErrorAs(t, err, &problem)
	require.NotEmpty(t, problem.Text)
	return problem
}

// noise is bytes that do not compress.
func noise(size int) []byte {
	value := make([]byte, size)
	state := uint64(88172645463325252)
	for i := range value {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		value[i] = byte(state)
	}
	return value
}
