package memory

import (
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/kafka"
)

func TestRecordsKeepWhatWasSent(t *testing.T) {
	b := broker(t, Settings{Partitions: 1, Clock: clock.NewManual(time.UnixMilli(77))})
	c := member(t, b, "g", "t")
	key, value := []byte("k\x00"), []byte("v")
	sent := []*kafka.Record{
		{Topic: "t", Key: key, Value: value, Timestamp: 5, Headers: []kafka.Header{{Name: "a", Value: []byte("1")}, {Name: "a"}, {Name: "", Value: []byte{}}}},
		{Topic: "t", Timestamp: -1},
		{Topic: "t", Key: []byte{}, Value: []byte{}},
	}
	for _, record := range sent {
		produce(t, b, record)
	}
	key[0], value[0], sent[0].Headers[0].Name = 'x', 'x', "x"
	settle(c)
	records := poll(c).Records
	require.Len(t, records, 3)
	assert.Equal(t, &kafka.Record{Topic: "t", Key: []byte("k\x00"), Value: []byte("v"), Timestamp: 5,
		Headers: []kafka.Header{{Name: "a", Value: []byte("1")}, {Name: "a"}, {Name: "", Value: []byte{}}}}, records[0])
	assert.Equal(t, &kafka.Record{Topic: "t", Offset: 1, Timestamp: 77}, records[1])
	assert.Equal(t, &kafka.Record{Topic: "t", Offset: 2, Timestamp: 77, Key: []byte{}, Value: []byte{}}, records[2])
}

func TestPlacementFollowsTheKey(t *testing.T) {
	b := broker(t, Settings{Partitions: 5})
	for _, key := range []string{"", "a", "ключ", "user-1"} {
		delivery := produce(t, b, &kafka.Record{Topic: "t", Key: []byte(key)})
		assert.EqualValues(t, crc32.ChecksumIEEE([]byte(key))%5, delivery.Partition, key)
	}
	assert.Zero(t, produce(t, b, &kafka.Record{Topic: "t"}).Partition)
}

func TestProduceRefuses(t *testing.T) {
	b := broker(t, Settings{})
	require.NoError(t, admin(t, b).Create(background, kafka.Topic{Name: "small", Config: map[string]string{"max.message.bytes": "1000"}}))
	for name, test := range map[string]struct {
		topic string
		value int
		code  kafka.Code
	}{
		"empty": {"", 0, kafka.BadTopic}, "dot": {".", 0, kafka.BadTopic}, "dots": {"..", 0, kafka.BadTopic},
		"space": {"a b", 0, kafka.BadTopic}, "script": {"日本", 0, kafka.BadTopic}, "nul": {"a\x00", 0, kafka.BadTopic},
		"pattern": {"^a", 0, kafka.BadTopic}, "long": {strings.Repeat("a", 250), 0, kafka.BadTopic},
		"large": {"t", 1 << 20, kafka.TooLarge}, "topic's limit": {"small", 1000, kafka.TooLarge},
	} {
		_, err := send(b, &kafka.Record{Topic: test.topic, Value: make([]byte, test.value)})
		assert.Equal(t, test.code, code(t, err), name)
	}
	for _, topic := range []string{"a.b_c", strings.Repeat("a", 249)} {
		produce(t, b, &kafka.Record{Topic: topic, Value: make([]byte, 1<<20-overhead)})
	}
	producer, _ := b.Producer(kafka.ProducerConfig{})
	require.NoError(t, producer.Close(background))
	assert.Equal(t, kafka.Closed, code(t, producer.Produce(&kafka.Record{Topic: "t"}, nil)))
}
