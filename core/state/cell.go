package state

import (
	"encoding/binary"
	"math"

	"prosody/core/fault"
	"prosody/core/store"
)

// cell is the content of a coordinate.
type cell struct {
	data  []byte
	until int64 // ms; 0: for ever
	size  int   // of data, also where they are not known
	form  form
}

type form uint8

const (
	absent  form = iota
	listed       // it is there; its data are not known
	present      // with data
)

// at is the cell as it is at a time, in ms.
func (c cell) at(now int64) cell {
	if c.until > 0 && c.until <= now {
		return cell{}
	}
	return c
}

// entry is a cell with its coordinate: the key of a map, or the index of a deque.
type entry struct {
	coordinate string
	cell
}

func before(a, b entry) bool { return a.coordinate < b.coordinate }

// The sections of a collection's coordinates.
const (
	single = "\x00" // of a value
	many   = "\x01" // of maps, sets and deques
	beyond = "\x02"
)

func slot(name, section, coordinate string) store.Slot {
	return store.Slot{Kind: store.Cell, Name: name, Coordinate: section + coordinate}
}

// overhead is the most that a cell's row has besides its data.
const overhead = binary.MaxVarintLen64

// encode makes a row's data: when it ends, and the content.
func (c cell) encode() []byte {
	b := make([]byte, 0, overhead+len(c.data))
	return append(binary.AppendUvarint(b, uint64(c.until)), c.data...)
}

func decodeCell(row []byte) (cell, error) {
	until, size := binary.Uvarint(row)
	if size <= 0 || until > math.MaxInt64 {
		return cell{}, errDamaged()
	}
	return cell{data: row[size:], until: int64(until), size: len(row) - size, form: present}, nil
}

func errDamaged() error {
	return fault.New(fault.Store, "a cell of a collection is damaged or of a newer version")
}

// index makes a coordinate whose byte order is that of the numbers.
func index(at int64) string {
	return string(binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(at)^1<<63))
}

func number(coordinate string) int64 {
	if len(coordinate) != 8 {
		return math.MinInt64
	}
	return int64(binary.BigEndian.Uint64([]byte(coordinate)) ^ 1<<63)
}

// encode makes the content of a cell that refers to a record.
func (p Place) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(uint32(p.Partition)))
	b = binary.AppendUvarint(b, uint64(p.Offset))
	return append(b, p.Topic...)
}

func decodePlace(b []byte) (Place, error) {
	partition, size := binary.Uvarint(b)
	if size <= 0 || partition > math.MaxInt32 {
		return Place{}, errDamaged()
	}
	b = b[size:]
	offset, size := binary.Uvarint(b)
	if size <= 0 || offset > math.MaxInt64 {
		return Place{}, errDamaged()
	}
	return Place{Topic: string(b[size:]), Partition: int32(partition), Offset: int64(offset)}, nil
}
