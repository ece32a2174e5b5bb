package partition

import "prosody/core/kafka"

// Gated names a key of a partition of which an event runs.
type Gated struct {
	Partition kafka.Partition
	Key       string
}

// Active lists the keys of which an event runs, whether it counts or not.
func (s *Set) Active() (list []Gated) {
	for name, found := range s.slots {
		for key := range found.stale {
			list = append(list, Gated{name, key})
		}
		if found.part == nil {
			continue
		}
		for _, i := range found.part.running {
			if !i.key.invalid {
				list = append(list, Gated{name, i.key.name})
			}
		}
	}
	return list
}

// Bar keeps a key from starting while an event of it runs elsewhere: in a set before this
// one. It counts like one of an old assignment, and ends with Done. It comes before the
// first Assign of the partition.
func (s *Set) Bar(at Gated) Token {
	found := s.slots[at.Partition]
	if found == nil {
		found = &slot{}
		s.slots[at.Partition] = found
	}
	if found.stale == nil {
		found.stale = map[string]*item{}
	}
	k, i := s.newKey(), s.newItem()
	s.turn++
	s.stale++
	k.name = at.Key
	i.offset, i.key, i.part, i.turn, i.stale = -1, k, &part{name: at.Partition}, s.turn, true
	found.stale[at.Key] = i
	return Token{i, i.turn}
}
