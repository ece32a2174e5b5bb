package partition

import (
	"slices"

	"prosody/core/kafka"
)

// Assign begins a new assignment. The tag comes back with each Start of it. One that
// is there already ends as if it were lost.
func (s *Set) Assign(name kafka.Partition, tag any) {
	s.Lose(name)
	found := s.slots[name]
	if found == nil {
		found = &slot{}
		s.slots[name] = found
	}
	s.epoch++
	found.part = &part{
		name: name, epoch: s.epoch, tag: tag, keys: map[string]*key{},
		highest: -1, position: -1, sending: -1, committed: -1,
	}
	s.parts = append(s.parts, found.part)
	s.share()
}

// Restart is Assign for a partition that may be there: its log was made anew. Whether
// the client library delivers stays as it is.
func (s *Set) Restart(name kafka.Partition, tag any) {
	p := s.part(name)
	paused := p != nil && p.paused
	s.Assign(name, tag)
	s.part(name).paused = paused
}

// Revoke begins to give a partition up: what waits is dropped, nothing starts any
// more, and what runs goes on. Positions still tells what may be committed.
func (s *Set) Revoke(name kafka.Partition) {
	p := s.part(name)
	if p == nil || p.leaving {
		return
	}
	p.leaving = true
	s.drop(p)
}

// Drained appends the leaving partitions of which nothing runs any more: their last
// position can be committed, and then they can be released.
func (s *Set) Drained(list []kafka.Partition) []kafka.Partition {
	for _, p := range s.parts {
		if p.leaving && len(p.running) == 0 {
			list = append(list, p.name)
		}
	}
	return list
}

// Abandon makes what still runs of a leaving partition count no more.
func (s *Set) Abandon(name kafka.Partition) {
	if p := s.part(name); p != nil && p.leaving {
		s.abandon(p)
	}
}

// Lose ends an assignment at once: nothing of it can be committed any more, and what
// runs does not count any more. It is also the end of a partition that was given up.
func (s *Set) Lose(name kafka.Partition) {
	p := s.part(name)
	if p == nil {
		return
	}
	p.leaving = true
	s.drop(p)
	s.abandon(p)
	s.blocked -= p.blocked
	s.parts = slices.DeleteFunc(s.parts, func(other *part) bool { return other == p })
	p.ring = ring{} // an event that still runs keeps the rest of it
	found := s.slots[name]
	found.part = nil
	s.prune(name, found)
	s.share()
}

// drop forgets what waits. The offsets stay, so that the watermark cannot pass them.
func (s *Set) drop(p *part) {
	if p.rotating {
		p.rotating = false
		s.rotation.remove(p)
	}
	for k := p.ready.pop(); k != nil; k = p.ready.pop() {
		k.ready = false
		if k.invalid {
			s.freeItem(k.waiting.pop())
			s.freeKey(k)
		}
	}
	for name, k := range p.keys {
		for i := k.waiting.pop(); i != nil; i = k.waiting.pop() {
			s.freeItem(i)
		}
		if k.running == nil {
			delete(p.keys, name)
			s.freeKey(k)
		}
	}
	p.waiting, p.bytes = 0, 0
}

// abandon moves what runs behind the gates of the partition.
func (s *Set) abandon(p *part) {
	found := s.slots[p.name]
	for _, i := range p.running {
		i.stale = true
		s.count(i, -1)
		s.stale++
		if i.key.invalid {
			continue
		}
		if found.stale == nil {
			found.stale = map[string]*item{}
		}
		found.stale[i.key.name] = i
	}
	p.running = nil
	clear(p.keys)
}

// Positions appends what is to be committed: the positions that moved. Committed has
// to follow before the next call.
func (s *Set) Positions(list []kafka.Position) []kafka.Position {
	for _, p := range s.parts {
		p.sending = -1
		if p.position > p.committed {
			p.sending = p.position
			list = append(list, kafka.Position{Partition: p.name, Offset: p.position})
		}
	}
	return list
}

// Sending tells whether a position is still that of the assignment that Positions gave it for.
func (s *Set) Sending(position kafka.Position) bool {
	p := s.part(position.Partition)
	return p != nil && p.sending >= 0 && p.sending == position.Offset
}

// Withhold takes back a position that Positions gave: it is not to be committed yet.
func (s *Set) Withhold(name kafka.Partition) {
	if p := s.part(name); p != nil {
		p.sending = -1
	}
}

// Committed says how the commit of what Positions gave has ended.
func (s *Set) Committed(ok bool) {
	for _, p := range s.parts {
		if ok && p.sending >= 0 {
			p.committed = p.sending
		}
		p.sending = -1
	}
	s.counters.commit(ok)
}

// Highest tells the highest offset that was delivered in this assignment; -1: none.
func (s *Set) Highest(name kafka.Partition) int64 {
	if p := s.part(name); p != nil {
		return p.highest
	}
	return -1
}

// Len counts the partitions that are assigned and not leaving.
func (s *Set) Len() int {
	count := 0
	for _, p := range s.parts {
		if !p.leaving {
			count++
		}
	}
	return count
}

// share sets the windows anew after the number of partitions has changed.
func (s *Set) share() {
	for _, p := range s.parts {
		s.weigh(p)
	}
}

// weigh decides whether a partition is to be paused. It pauses at a bound and goes on
// at half of it, so that a pause, which makes the client library fetch anew, is rare.
func (s *Set) weigh(p *part) {
	share := max(1, len(s.parts))
	records := max(1, min(s.config.Records, s.config.TotalRecords/share))
	bytes := max(1, min(s.config.Bytes, s.config.TotalBytes/int64(share)))
	beyond := p.ring.size()
	switch {
	case p.waiting >= records || p.bytes >= bytes || beyond >= s.config.Span:
		p.want = true
	case p.waiting <= records/2 && p.bytes <= bytes/2 && beyond <= s.config.Span/2:
		p.want = false
	}
}

// Flow appends the partitions that are to be paused and to be resumed. The caller
// tells by Flowed what it has done.
func (s *Set) Flow(pause, resume []kafka.Partition) (toPause, toResume []kafka.Partition) {
	for _, p := range s.parts {
		switch {
		case p.leaving:
		case p.want && !p.paused:
			pause = append(pause, p.name)
		case !p.want && p.paused:
			resume = append(resume, p.name)
		}
	}
	return pause, resume
}

// Flowed notes that partitions are paused now, or are not any more.
func (s *Set) Flowed(names []kafka.Partition, paused bool) {
	for _, name := range names {
		if p := s.part(name); p != nil {
			p.paused = paused
		}
	}
}

// Paused tells whether any partition that stays is paused.
func (s *Set) Paused() bool {
	return slices.ContainsFunc(s.parts, func(p *part) bool { return p.paused && !p.leaving })
}
