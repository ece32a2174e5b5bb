package memory

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

func TestOffsetsOutsideTheLog(t *testing.T) {
	b := broker(t, Settings{Partitions: 1, Retention: 10 * (overhead + 1)})
	c := member(t, b, "g", "t")
	settle(c)
	require.NoError(t, c.Commit(background, []kafka.Position{at("t", 0, 2)}))
	for range 50 {
		produce(t, b, &kafka.Record{Topic: "t", Value: []byte("v")})
	}
	events := poll(c)
	require.Len(t, events.Records, 10)
	assert.EqualValues(t, 40, events.Records[0].Offset)
	require.Len(t, events.Errors, 1)
	assert.ErrorContains(t, events.Errors[0], "offset 0 of t:0 is not in the log; reading goes on from 40")
	end, known := c.End(kafka.Partition{Topic: "t"})
	assert.True(t, known)
	assert.EqualValues(t, 50, end)
	for _, committed := range []int64{2, 51} {
		require.NoError(t, c.Commit(background, []kafka.Position{at("t", 0, committed)}))
		c.Expel()
		assert.Len(t, poll(c).Lost, 1)
		events = poll(c)
		require.Len(t, events.Errors, 1, "one warning")
		events = poll(c)
		assert.Empty(t, events.Errors)
		assert.EqualValues(t, 40, events.Records[0].Offset)
	}
}

func TestCompactionLeavesHoles(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	require.NoError(t, admin(t, b).Create(background, kafka.Topic{Name: "t", Config: map[string]string{"cleanup.policy": "compact"}}))
	put := func(key, value string) {
		record := &kafka.Record{Topic: "t", Key: []byte(key)}
		if value != "" {
			record.Value = []byte(value)
		}
		produce(t, b, record)
	}
	read := func() (offsets []int64) {
		c := member(t, b, "g", "t")
		defer c.Close()
		settle(c)
		for _, record := range c.Poll(0, 10000).Records {
			offsets = append(offsets, record.Offset)
		}
		return offsets
	}
	put("a", "1")
	put("b", "1")
	put("a", "2")
	put("b", "")
	put("c", "1")
	b.Compact("t")
	assert.Equal(t, []int64{2, 3, 4}, read(), "a tombstone outlives the first compaction")
	b.Compact("t")
	assert.Equal(t, []int64{2, 4}, read())
	for range 2 * dirty {
		put("a", "3")
	}
	assert.Less(t, len(read()), dirty+2, "a compact topic is compacted by itself")
}

func TestDeletedLogTakesNoRecord(t *testing.T) {
	b := broker(t, Settings{Partitions: 1})
	old, err := b.log("t", 0)
	require.NoError(t, err)
	require.NoError(t, admin(t, b).Delete(background, "t"))
	assert.False(t, old.add(&kafka.Record{}))
	fill(t, b, "t", 1)
}
