package entity

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"prosody/core/store"
)

// maxIDs is the most ids of a key that are known in memory. While no more are alive, an
// id that is not among them was never done.
const maxIDs = 2048

type id [16]byte

// identify makes the id of a payload's id: another version makes another one.
func identify(version, text string) id {
	packed := make([]byte, 0, len(version)+len(text)+8)
	packed = binary.LittleEndian.AppendUint32(packed, uint32(len(version)))
	packed = append(packed, version...)
	packed = binary.LittleEndian.AppendUint32(packed, uint32(len(text)))
	packed = append(packed, text...)
	return xxh3.Hash128(packed).Bytes()
}

func (i id) slot() store.Slot { return store.Slot{Kind: store.Done, Coordinate: string(i[:])} }

// put makes the row of an id: when it is forgotten, and the stamp of the batch.
func (i id) put(until, stamp int64, ttl time.Duration) store.Put {
	data := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(until))
	data = binary.BigEndian.AppendUint64(data, uint64(stamp))
	return store.Put{Row: store.Row{Slot: i.slot(), Data: data}, TTL: ttl}
}

// dated reads the row of an id. A row whose stamp is above that of the root belongs to a
// batch of which the root as it was read knows nothing.
func dated(data []byte) (until, stamp int64, ok bool) {
	if len(data) != 16 {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(data)), int64(binary.BigEndian.Uint64(data[8:])), true
}

// remembered is an id and when it is forgotten, in seconds.
type remembered struct {
	id    id
	until int64
}

// idset holds the ids that were remembered last.
type idset struct {
	more  bool // others may be alive in the store
	until map[id]int64
	order []id // by age; its start is dead
	dead  int
}

func (s *idset) has(i id, now int64) bool {
	until, found := s.until[i]
	return found && until > now
}

func (s *idset) add(i id, until, now int64) {
	if s.until == nil {
		s.until = map[id]int64{}
	}
	if old, found := s.until[i]; found {
		s.until[i] = max(old, until)
		return
	}
	s.until[i] = until
	s.order = append(s.order, i)
	for len(s.until) > maxIDs {
		oldest := s.order[s.dead]
		s.dead++
		s.more = s.more || s.until[oldest] > now
		delete(s.until, oldest)
	}
	if s.dead > maxIDs {
		s.order, s.dead = slices.Clone(s.order[s.dead:]), 0
	}
}

// fill takes what a scan has found, and gives the highest stamp.
func (s *idset) fill(rows []store.Row, now int64) (last int64) {
	list := make([]remembered, 0, len(rows))
	for _, row := range rows {
		if until, stamp, ok := dated(row.Data); ok && len(row.Coordinate) == len(id{}) {
			list, last = append(list, remembered{id([]byte(row.Coordinate)), until}), max(last, stamp)
		}
	}
	slices.SortFunc(list, func(a, b remembered) int { return int(a.until - b.until) })
	for _, one := range list {
		s.add(one.id, one.until, now)
	}
	return last
}

func (s *idset) size() int { return 64*len(s.until) + 16*cap(s.order) }
