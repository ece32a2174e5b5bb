package keyed

import (
	"encoding/binary"

	"prosody/capi/internal/record"
	"prosody/core/state"
)

// EntrySize is that of the fixed part of a packed entry. The package capi compares it with
// the header.
const EntrySize = 24

const null = 0xFFFFFFFF

var native = binary.NativeEndian

func padded(size int) int { return (size + 7) &^ 7 }

// size tells the bytes of an item for the host.
func size(item *state.Item) int {
	if item.Message != nil {
		return record.Message{Event: item.Message}.Size()
	}
	return len(item.JSON)
}

// bytes gives an item for the host.
func bytes(item *state.Item) []byte {
	if item.Message == nil {
		return item.JSON
	}
	b := make([]byte, size(item))
	record.Message{Event: item.Message}.Encode(b, 0)
	return b
}

// entry is one of several items: without a value where item is nil.
type entry struct {
	key   string
	index int64
	item  *state.Item
}

func (e entry) size() int {
	total := EntrySize + len(e.key)
	if e.item != nil {
		total += size(e.item)
	}
	return padded(total)
}

// pack appends an entry. It keeps the alignment of what is there.
func (e entry) pack(b []byte) []byte {
	start, whole := len(b), e.size()
	b = append(b, make([]byte, whole)...)
	made := b[start:]
	native.PutUint32(made, uint32(whole))
	native.PutUint64(made[8:], uint64(e.index))
	native.PutUint32(made[16:], uint32(len(e.key)))
	at := EntrySize
	switch {
	case e.item == nil:
		native.PutUint32(made[4:], null)
	case e.item.Message != nil:
		length := size(e.item)
		record.Message{Event: e.item.Message}.Encode(made[at:at+length:at+length], 0)
		native.PutUint32(made[4:], uint32(length))
		at += length
	default:
		at += copy(made[at:], e.item.JSON)
		native.PutUint32(made[4:], uint32(len(e.item.JSON)))
	}
	copy(made[at:], e.key)
	return b
}
