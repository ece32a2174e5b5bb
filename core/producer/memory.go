package producer

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// digest stands for (topic, key, id): 128 bits, so that long ids take no memory.
type digest [2]uint64

// role says what a send with an id is to do.
type role int

const (
	leader    role = iota // send it
	follower              // wait for the leader's result
	duplicate             // it was sent
	refused               // it could not be started
)

// flight is one id on its way.
type flight struct {
	digest    digest
	followers []*send
}

// memory knows which events were sent and which are on their way. Its lock may be held
// when that of the deadlines is taken, never the other way round.
type memory struct {
	seeds [2]maphash.Seed

	mutex   sync.Mutex
	sent    *simplelru.LRU[digest, struct{}] // nil: nothing is remembered
	flights map[digest]*flight               // bounded by the sends on their way
	closed  bool
}

func newMemory(size int) *memory {
	m := &memory{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, flights: map[digest]*flight{}}
	if size > 0 {
		m.sent, _ = simplelru.NewLRU[digest, struct{}](size, nil) // fails below 1 only
	}
	return m
}

// enter tells a send its role; begin starts it unless it is a duplicate. A leader has
// to end its flight by followers or promote.
func (m *memory) enter(s *send, d digest, begin func(*send) bool) role {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.closed {
		return refused
	}
	if _, found := m.sent.Get(d); found {
		return duplicate
	}
	f, found := m.flights[d]
	if !found {
		f = &flight{digest: d}
	}
	s.flight = f
	switch {
	case !begin(s):
		return refused
	case found:
		f.followers = append(f.followers, s)
		return follower
	}
	m.flights[d] = f
	return leader
}

// learn remembers a success.
func (m *memory) learn(s *send) {
	if s.flight == nil {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.sent.Add(s.flight.digest, struct{}{})
}

// followers ends a flight.
func (m *memory) followers(f *flight) []*send {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.flights, f.digest)
	followers := f.followers
	f.followers = nil
	return followers
}

// promote makes the first follower the leader; nil ends the flight.
func (m *memory) promote(f *flight) *send {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(f.followers) == 0 {
		delete(m.flights, f.digest)
		return nil
	}
	next := f.followers[0]
	f.followers = slices.Delete(f.followers, 0, 1)
	return next
}

// leave takes a follower out of its flight.
func (m *memory) leave(s *send) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	s.flight.followers = slices.DeleteFunc(s.flight.followers, func(other *send) bool { return other == s })
}

// close refuses sends with an id, also duplicates.
func (m *memory) close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.closed = true
}

func (m *memory) digest(parts ...string) digest {
	var d digest
	for i, seed := range m.seeds {
		var hash maphash.Hash
		hash.SetSeed(seed)
		for _, part := range parts {
			var length [8]byte
			binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
			_, _ = hash.Write(length[:])
			_, _ = hash.WriteString(part)
		}
		d[i] = hash.Sum64()
	}
	return d
}
