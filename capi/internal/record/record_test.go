package record

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"prosody/core/event"
	"prosody/core/kafka"
)

func word(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

// part reads a field of a message; nil is null.
func part(t require.TestingT, b []byte, field int, at *int) []byte {
	size := word(b, field)
	if size == null {
		return nil
	}
	require.LessOrEqual(t, *at+int(size), len(b))
	data := b[*at : *at+int(size)]
	*at += int(size)
	return data
}

func TestAMessageComesBackWhole(t *testing.T) {
	blob := rapid.SliceOfN(rapid.Byte(), 0, 20)
	rapid.Check(t, func(t *rapid.T) {
		e := &event.Event{
			Kind:      rapid.SampledFrom([]event.Kind{event.Message, event.Excise}).Draw(t, "kind"),
			Topic:     rapid.String().Draw(t, "topic"),
			Key:       rapid.String().Draw(t, "key"),
			Source:    rapid.String().Draw(t, "source"),
			HasSource: rapid.Bool().Draw(t, "has"),
			Offset:    rapid.Int64().Draw(t, "offset"),
			Timestamp: rapid.Int64().Draw(t, "time"),
			Partition: rapid.Int32().Draw(t, "partition"),
		}
		if e.Kind == event.Message {
			e.Payload = blob.Draw(t, "payload")
		}
		if !e.HasSource {
			e.Source = ""
		}
		for range rapid.IntRange(0, 4).Draw(t, "headers") {
			header := kafka.Header{Name: rapid.SampledFrom([]string{"", "a", "traceparent"}).Draw(t, "name")}
			if rapid.Bool().Draw(t, "value") {
				header.Value = blob.Draw(t, "data")
			}
			e.Headers = append(e.Headers, header)
		}
		texts := rapid.SampledFrom([]string{"", "00-a", "b=c"})
		m := Message{Event: e, Parent: texts.Draw(t, "parent"), State: texts.Draw(t, "state"), Retry: rapid.Uint32().Draw(t, "retry"), Failure: rapid.Bool().Draw(t, "failure")}
		b := make([]byte, m.Size())
		for i := range b {
			b[i] = 0xAA
		}
		m.Encode(b, 77)
		assert.Zero(t, len(b)%8)
		assert.EqualValues(t, len(b), word(b, 0))
		assert.EqualValues(t, 77, binary.NativeEndian.Uint64(b[8:]))
		assert.Equal(t, m.Failure, b[6]&FlagFailure != 0)
		assert.Equal(t, e.Kind == event.Excise, b[4] == KindExcise)
		assert.Equal(t, e.Offset, int64(binary.NativeEndian.Uint64(b[16:])))
		assert.Equal(t, e.Timestamp, int64(binary.NativeEndian.Uint64(b[24:])))
		assert.Equal(t, e.Partition, int32(word(b, 32)))
		assert.Equal(t, m.Retry, word(b, 36))
		at := MessageSize
		assert.Equal(t, e.Topic, string(part(t, b, 40, &at)))
		assert.Equal(t, e.Key, string(part(t, b, 44, &at)))
		payload := part(t, b, 48, &at)
		assert.Equal(t, e.Kind == event.Excise, payload == nil)
		assert.Equal(t, string(e.Payload), string(payload))
		source := part(t, b, 52, &at)
		assert.Equal(t, e.HasSource, source != nil)
		assert.Equal(t, e.Source, string(source))
		for field, text := range []string{m.Parent, m.State} {
			read := part(t, b, 56+4*field, &at)
			assert.Equal(t, text, string(read))
			assert.Equal(t, text == "", read == nil)
		}
		assert.EqualValues(t, len(e.Headers), word(b, 68))
		end := at + int(word(b, 64))
		for _, header := range e.Headers {
			sizes := at
			at += 8
			assert.Equal(t, header.Name, string(part(t, b, sizes, &at)))
			value := part(t, b, sizes+4, &at)
			assert.Equal(t, header.Value == nil, value == nil)
			assert.Equal(t, string(header.Value), string(value))
		}
		assert.Equal(t, end, at)
		assert.Equal(t, strings.Repeat("\x00", len(b)-end), string(b[end:]))
	})
}

func TestOtherRecords(t *testing.T) {
	for _, r := range []interface {
		Size() int
		Encode([]byte)
	}{
		&Cancel{Token: 5, Reason: Lost},
		&Completion{Tag: 5, Status: 100, Text: "text", Data: "\x00"},
		&Log{Level: 20, Target: "a", Text: "bc", Fields: "{}"},
		&Fatal{Text: "why"},
	} {
		b := make([]byte, r.Size())
		r.Encode(b)
		assert.Zero(t, len(b)%8)
		assert.EqualValues(t, len(b), word(b, 0))
	}
}

func TestClip(t *testing.T) {
	assert.Equal(t, "a\x00b", Clip("a\x00b"))
	assert.Equal(t, "\uFFFD", Clip("\xff"))
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("€", MaxText)
		clipped := Clip(long)
		assert.True(t, utf8.ValidString(clipped))
		assert.NotContains(t, clipped, "\uFFFD")
		assert.LessOrEqual(t, len(clipped), MaxText+len("…"))
		assert.Greater(t, len(clipped), MaxText-8)
	}
}

func TestATimerComesBackWhole(t *testing.T) {
	for _, traced := range []bool{false, true} {
		e := &event.Event{
			Kind: event.Timer, Topic: "töpic", Partition: 3, Offset: -1, Key: "k\x00", Timestamp: 4294967295000,
		}
		m := Message{Event: e, Retry: 5, Failure: traced}
		if traced {
			m.Parent, m.State = "00-a", "b=c"
		}
		b := make([]byte, m.Size())
		m.Encode(b, 77)
		assert.Zero(t, len(b)%8)
		assert.Equal(t, uint32(len(b)), word(b, 0))
		assert.Equal(t, uint16(KindTimer), binary.NativeEndian.Uint16(b[4:]))
		assert.Equal(t, traced, binary.NativeEndian.Uint16(b[6:]) == FlagFailure)
		assert.Equal(t, uint64(77), binary.NativeEndian.Uint64(b[8:]))
		assert.Equal(t, uint64(1<<32-1), binary.NativeEndian.Uint64(b[16:]))
		assert.Equal(t, []uint32{3, 5}, []uint32{word(b, 24), word(b, 28)})
		at := TimerSize
		assert.Equal(t, "töpic", string(part(t, b, 32, &at)))
		assert.Equal(t, "k\x00", string(part(t, b, 36, &at)))
		trace, state := part(t, b, 40, &at), part(t, b, 44, &at)
		if traced {
			assert.Equal(t, "00-a", string(trace))
			assert.Equal(t, "b=c", string(state))
		} else {
			assert.Nil(t, trace)
			assert.Nil(t, state)
		}
	}
}
