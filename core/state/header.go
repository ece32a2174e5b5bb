package state

import (
	"encoding/binary"
	"math"

	"prosody/core/config"
)

// The forms of a collection's header, its first byte. A collection that has none is empty.
const (
	inline    = 'v' // a value: its content follows
	apart     = 'r' // a value in a row: the size follows
	tracked   = 't' // a map or set: its keys follow, with ends and sizes
	untracked = 'u' // a map or set with keys that are not listed
	line      = 'd' // a deque: the index of its front and its length follow
)

// Bounds of what is in the headers of a key.
const (
	mostInline  = 1 << 10 // bytes of a value
	mostTracked = 2 << 10 // bytes of a list of keys
	mostHeaders = 8 << 10 // bytes of all
)

// outline is what a header tells.
type outline struct {
	form       byte // 0: there is no header
	until      int64
	value      cell    // of a value
	keys       []entry // ascending
	head, tail int64
}

func decodeOutline(kind string, data []byte, until int64) (outline, error) {
	o := outline{until: until}
	if len(data) == 0 {
		return o, errDamaged()
	}
	o.form = data[0]
	data = data[1:]
	fits := false
	switch o.form {
	case inline:
		fits = kind == config.KindValue
		o.value = cell{data: data, until: until, size: len(data), form: present}
	case apart:
		fits = kind == config.KindValue
		size, _ := binary.Uvarint(data)
		o.value = cell{until: until, size: int(size), form: listed}
	case tracked, untracked:
		fits = kind == config.KindMap || kind == config.KindSet
		for len(data) > 0 && fits {
			var one entry
			if one, data, fits = nextKey(data); fits {
				o.keys = append(o.keys, one)
			}
		}
	case line:
		head, size := binary.Varint(data)
		if size <= 0 {
			return o, errDamaged()
		}
		length, rest := binary.Uvarint(data[size:])
		fits = kind == config.KindDeque && rest > 0 && length <= math.MaxInt64
		o.head, o.tail = head, head+int64(length)
	}
	if !fits {
		return o, errDamaged()
	}
	return o, nil
}

func nextKey(data []byte) (entry, []byte, bool) {
	var one entry
	length, size := binary.Uvarint(data)
	if size <= 0 || length > uint64(len(data)-size) {
		return one, nil, false
	}
	one.coordinate = string(data[size : size+int(length)])
	data = data[size+int(length):]
	until, size := binary.Uvarint(data)
	if size <= 0 {
		return one, nil, false
	}
	data = data[size:]
	bytes, size := binary.Uvarint(data)
	if size <= 0 {
		return one, nil, false
	}
	one.until, one.size, one.form = int64(until), int(bytes), listed
	return one, data[size:], true
}

func appendKey(b []byte, one entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(one.coordinate)))
	b = append(b, one.coordinate...)
	b = binary.AppendUvarint(b, uint64(one.until))
	return binary.AppendUvarint(b, uint64(one.size))
}

func encodeLine(head, tail int64) []byte {
	b := binary.AppendVarint([]byte{line}, head)
	return binary.AppendUvarint(b, uint64(tail-head))
}

// later is the end of a collection of which one cell has ends at a and another at b.
func later(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

func appendSize(b []byte, size int) []byte { return binary.AppendUvarint(b, uint64(size)) }
