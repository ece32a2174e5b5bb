package event

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

func TestARequestIsReadAsItWasWritten(t *testing.T) {
	reply := &Reply{Request: [16]byte{1, 2}, Peer: [16]byte{3}, Deadline: time.UnixMicro(1796119470909235), Awaited: []string{"billing", "ü"}}
	headers := append([]kafka.Header{{Name: "a"}, {Name: "response-version", Value: []byte("2")}}, reply.Headers()...)
	assert.Equal(t, "01020000-0000-0000-0000-000000000000", string(headers[2].Value))
	assert.Equal(t, "1796119470909235", string(headers[4].Value))
	made, invalid := Decode(&kafka.Record{Key: []byte("k"), Value: []byte("1"), Headers: headers}, time.Now())
	require.Nil(t, invalid)
	assert.Equal(t, reply, made.Reply)
	assert.True(t, made.Reply.Awaits("billing"))
	assert.False(t, made.Reply.Awaits("bill"))
	assert.False(t, (*Reply)(nil).Awaits("billing"))
}

// Malformed headers ask for nothing; the event is there all the same.
func TestMalformedRequestsAreNone(t *testing.T) {
	good := (&Reply{Request: [16]byte{1}, Peer: [16]byte{2}, Deadline: time.UnixMicro(5), Awaited: []string{"a"}}).Headers()
	change := func(at int, value string) []kafka.Header {
		list := append([]kafka.Header{}, good...)
		list[at].Value = []byte(value)
		return list
	}
	const urn = "urn:uuid:01020000-0000-0000-0000-000000000000"
	for name, headers := range map[string][]kafka.Header{
		"none": nil, "no id": good[1:], "no peer": append(append([]kafka.Header{}, good[0]), good[2:]...), "nobody": good[:3],
		"two ids": append([]kafka.Header{good[0]}, good...), "two deadlines": append([]kafka.Header{good[2]}, good...),
		"id": change(0, "x"), "long id": change(0, urn), "peer": change(1, ""), "deadline": change(2, "1.5"), "no time": change(2, "-1"),
		"far": change(2, "99999999999999999999"), "no name": change(3, ""), "name": change(3, "\xff"),
	} {
		made, invalid := Decode(&kafka.Record{Key: []byte("k"), Headers: headers}, time.Now())
		require.Nil(t, invalid)
		assert.Nil(t, made.Reply, name)
	}
}
