package entity

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	layout    = 1  // first byte of a root
	maxMarks  = 16 // partitions whose offsets are remembered
	maxInline = 64 // seconds of timers in the root
)

// root is everything small about a key. It is one cell of the store, so that reading it
// never meets what was deleted.
type root struct {
	stamp   int64
	version uint64 // of the marks
	marks   []mark // the one that was written last is the last
	homed   bool
	home    int32 // the partition under which the hints are
	slab    int64 // seconds; the size of their slabs
	timers  int64 // how many
	seconds []uint32
	queue   Queue
	ids     int64 // when the last remembered id ends, in seconds
	cells   bool
	headers []Header // by name; never changed in place
	stage   stage
	unknown []byte // fields of a newer version
}

// mark is the highest offset done of a partition. Latest is the highest timestamp of
// what is done: a record with a later one was never done, whatever its offset; the
// topic was made anew.
type mark struct {
	partition int32
	offset    int64
	latest    int64
}

// stage is a large change under way: chunks of an id are being written, or are complete
// and decided.
type stage struct {
	id      int64
	chunks  int64
	decided bool
}

const (
	fieldStamp protowire.Number = iota + 1
	fieldVersion
	fieldMark
	fieldHome
	fieldSlab
	fieldTimers
	fieldSeconds
	fieldHead
	fieldTail
	fieldDue
	fieldCount
	fieldIDs
	fieldCells
	fieldStage
	fieldChunks
	fieldDecided
	fieldHeader
)

func (r *root) encode() []byte {
	b := make([]byte, 1, 64)
	b[0] = layout
	number := func(field protowire.Number, value uint64) {
		if value != 0 {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, value)
		}
	}
	number(fieldStamp, uint64(r.stamp))
	b = protowire.AppendTag(b, fieldVersion, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, r.version)
	for _, m := range r.marks {
		packed := protowire.AppendVarint(nil, uint64(m.partition))
		packed = protowire.AppendVarint(packed, uint64(m.offset))
		packed = protowire.AppendVarint(packed, protowire.EncodeZigZag(m.latest))
		b = protowire.AppendTag(b, fieldMark, protowire.BytesType)
		b = protowire.AppendBytes(b, packed)
	}
	if r.homed {
		number(fieldHome, uint64(r.home)+1)
	}
	number(fieldSlab, uint64(r.slab))
	number(fieldTimers, uint64(r.timers))
	if len(r.seconds) > 0 {
		var packed []byte
		for _, second := range r.seconds {
			packed = protowire.AppendVarint(packed, uint64(second))
		}
		b = protowire.AppendTag(b, fieldSeconds, protowire.BytesType)
		b = protowire.AppendBytes(b, packed)
	}
	number(fieldHead, r.queue.Head)
	number(fieldTail, r.queue.Tail)
	number(fieldDue, uint64(r.queue.Due))
	number(fieldCount, uint64(r.queue.Count))
	number(fieldIDs, uint64(r.ids))
	number(fieldCells, protowire.EncodeBool(r.cells))
	number(fieldStage, uint64(r.stage.id))
	number(fieldChunks, uint64(r.stage.chunks))
	number(fieldDecided, protowire.EncodeBool(r.stage.decided))
	for _, header := range r.headers {
		b = protowire.AppendTag(b, fieldHeader, protowire.BytesType)
		b = protowire.AppendBytes(b, header.encode())
	}
	return append(b, r.unknown...)
}

var errRoot = errors.New("the record is damaged or of a newer version")

func decodeRoot(b []byte) (root, error) {
	var r root
	if len(b) == 0 || b[0] != layout {
		return r, errRoot
	}
	for b = b[1:]; len(b) > 0; {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return r, errRoot
		}
		length := protowire.ConsumeFieldValue(field, kind, b[size:])
		if length < 0 {
			return r, errRoot
		}
		value := b[size : size+length]
		known := false
		switch kind {
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(value)
			known = r.number(field, number)
		case protowire.Fixed64Type:
			if known = field == fieldVersion; known {
				r.version, _ = protowire.ConsumeFixed64(value)
			}
		case protowire.BytesType:
			packed, _ := protowire.ConsumeBytes(value)
			var ok bool
			if known, ok = r.bytes(field, packed); !ok {
				return r, errRoot
			}
		}
		if !known {
			r.unknown = append(r.unknown, b[:size+length]...)
		}
		b = b[size+length:]
	}
	return r, nil
}

func (r *root) number(field protowire.Number, value uint64) bool {
	switch field {
	case fieldStamp:
		r.stamp = int64(value)
	case fieldHome:
		r.homed, r.home = true, int32(value-1)
	case fieldSlab:
		r.slab = int64(value)
	case fieldTimers:
		r.timers = int64(value)
	case fieldHead:
		r.queue.Head = value
	case fieldTail:
		r.queue.Tail = value
	case fieldDue:
		r.queue.Due = int64(value)
	case fieldCount:
		r.queue.Count = uint32(value)
	case fieldIDs:
		r.ids = int64(value)
	case fieldCells:
		r.cells = value != 0
	case fieldStage:
		r.stage.id = int64(value)
	case fieldChunks:
		r.stage.chunks = int64(value)
	case fieldDecided:
		r.stage.decided = value != 0
	default:
		return false
	}
	return true
}

func (r *root) bytes(field protowire.Number, packed []byte) (known, ok bool) {
	var values []uint64
	for rest := packed; (field == fieldMark || field == fieldSeconds) && len(rest) > 0; {
		value, size := protowire.ConsumeVarint(rest)
		if size < 0 {
			return true, false
		}
		values, rest = append(values, value), rest[size:]
	}
	switch field {
	case fieldMark:
		if len(values) < 3 {
			return true, false
		}
		r.marks = append(r.marks, mark{int32(values[0]), int64(values[1]), protowire.DecodeZigZag(values[2])})
	case fieldSeconds:
		for _, value := range values {
			r.seconds = append(r.seconds, uint32(value))
		}
	case fieldHeader:
		header, ok := decodeHeader(packed)
		if !ok {
			return true, false
		}
		r.headers = append(r.headers, header)
	default:
		return false, true
	}
	return true, true
}

// note remembers that a mark's offset is done.
func (r *root) note(m mark) {
	at := slices.IndexFunc(r.marks, func(old mark) bool { return old.partition == m.partition })
	if at >= 0 {
		old := r.marks[at]
		r.marks = append(r.marks[:at:at], r.marks[at+1:]...)
		m = old.with(m)
	}
	r.marks = append(r.marks[:len(r.marks):len(r.marks)], m)
	if len(r.marks) > maxMarks {
		r.marks = r.marks[1:]
	}
}

// with is the mark after another event is done. A lower offset with a later timestamp
// belongs to a topic that was made anew.
func (m mark) with(next mark) mark {
	if next.offset < m.offset && next.latest <= m.latest {
		return m
	}
	next.latest = max(m.latest, next.latest)
	return next
}

// covers tells whether an event was done, as far as the mark knows.
func (m mark) covers(event mark) bool {
	return m.partition == event.partition && event.offset <= m.offset && event.latest <= m.latest
}

// lasting tells whether the root holds what must not end with a time to live.
func (r *root) lasting() bool {
	return r.timers > 0 || r.queue.Head != r.queue.Tail || r.cells || r.headed() == 0 || r.stage != stage{} || len(r.unknown) > 0
}

// headed is when the last header ends, in ms; 0: never, and -1 when there is none.
func (r *root) headed() int64 {
	last := int64(-1)
	for _, header := range r.headers {
		if header.Until == 0 {
			return 0
		}
		last = max(last, header.Until)
	}
	return last
}
