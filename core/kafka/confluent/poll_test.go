package confluent

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// A record below the offset that is due is a copy of the last batch or the start of
// a new log; a log with holes goes on.
func TestJudge(t *testing.T) {
	first := anchor{offset: 100, timestamp: 5, key: 1, value: 10}
	s := &slot{next: 120, anchor: first}
	for _, one := range []struct {
		here anchor
		want int
	}{
		{anchor{offset: 120}, due},
		{anchor{offset: 500}, due},
		{first, copied},
		{anchor{offset: 119}, copied},
		{anchor{offset: 100, timestamp: 6, key: 1, value: 10}, restarted},
		{anchor{offset: 99}, restarted},
		{anchor{offset: 0}, restarted},
	} {
		assert.Equalf(t, one.want, s.judge(one.here), "%+v", one.here)
	}
	assert.Equal(t, due, (&slot{next: -1, anchor: anchor{offset: -1}}).judge(anchor{offset: 0}))
}

// Copies are equal, apart from each other and from C, and take no more than they need.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 6000)).Draw(t, "parts")
		a := arena{}
		for _, part := range parts {
			a.left += len(part)
		}
		var made [][]byte
		for _, part := range parts {
			made = append(made, a.copy(pointer(part), len(part)))
		}
		for i, part := range parts {
			assert.Equal(t, part, append([]byte{}, made[i]...))
			assert.Equal(t, len(made[i]), cap(made[i]), "an append must not reach the neighbour")
			assert.NotNil(t, made[i])
		}
		assert.Zero(t, a.left)
		assert.Nil(t, a.copy(nil, 0))
	})
}

func pointer(part []byte) unsafe.Pointer {
	if len(part) == 0 {
		return unsafe.Pointer(&empty)
	}
	return unsafe.Pointer(&part[0])
}

var empty byte
