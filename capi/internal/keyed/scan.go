package keyed

import (
	"context"
	"errors"
	"sync/atomic"

	"prosody/core/fault"
	"prosody/core/state"
)

const (
	mostEntries = 256
	mostBytes   = 1 << 20 // of an answer that is pending, but for one entry
)

// Cursor is what a scan reads from.
type Cursor interface {
	Next(ctx context.Context, most int) ([]state.Entry, error)
	Close()
}

// Scan is a scan in the host's hands: one call at a time.
type Scan struct {
	of     *Collection
	cursor Cursor
	keys   bool
	ended  func(error) // tells of its end, perhaps more than once
	busy   atomic.Bool
	ahead  []state.Entry // read and not handed over
}

// Of gives the scanned collection.
func (s *Scan) Of() *Collection { return s.of }

// Positions tells whether the bounds of a scan are those of a deque.
func (c *Collection) Positions() bool {
	_, is := c.handle.(line)
	return is
}

// Walk begins a scan of keys. ended hears of its end, perhaps more than once.
func (t *Table) Walk(c *Collection, query state.Query, ended func(error)) (uint64, error) {
	cursor, err := open(c, query)
	return t.scan(c, cursor, query.Keys, ended, err)
}

// Stride begins a scan of a deque.
func (t *Table) Stride(c *Collection, span state.Span, ended func(error)) (uint64, error) {
	cursor, err := open(c, span)
	return t.scan(c, cursor, false, ended, err)
}

func (t *Table) scan(c *Collection, cursor Cursor, keys bool, ended func(error), err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	s := &Scan{of: c, cursor: cursor, keys: keys, ended: ended}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.over {
		cursor.Close()
		return 0, fault.New(fault.Settled, Over)
	}
	name := t.scans.Issue(s)
	c.scans = append(c.scans, name)
	return name, nil
}

// end gives up what is left of it.
func (s *Scan) end() {
	s.cursor.Close()
	s.ended(nil)
}

// Enter begins a call: false while another one is under way.
func (s *Scan) Enter() bool { return s.busy.CompareAndSwap(false, true) }

// Leave ends a call.
func (s *Scan) Leave() { s.busy.Store(false) }

// Next hands over the next entries, packed, that fit; capacity below 0 is the library's own
// bound. Value is their number. It is called between Enter and Leave.
func (s *Scan) Next(ctx context.Context, capacity int) (Answer, error) {
	if len(s.ahead) == 0 {
		entries, err := s.cursor.Next(ctx, mostEntries)
		if err != nil {
			if !errors.Is(err, state.ErrPending) {
				s.ended(err)
			}
			return Answer{}, err
		}
		if len(entries) == 0 {
			s.ended(nil)
			return Answer{End: true}, nil
		}
		s.ahead = entries
	}
	count, total := s.fit(capacity)
	if count == 0 {
		return Answer{Short: total}, nil
	}
	data := make([]byte, 0, total)
	for i := range s.ahead[:count] {
		data = s.entry(i).pack(data)
		s.ahead[i] = state.Entry{}
	}
	s.ahead = s.ahead[count:]
	return Answer{Value: int64(count), Data: data}, nil
}

// fit counts the entries that fit and their bytes; for none, the need of the first.
func (s *Scan) fit(capacity int) (count, total int) {
	for i := range s.ahead {
		size := s.entry(i).size()
		limit := capacity
		if capacity < 0 {
			limit = max(mostBytes, size)
		}
		if total+size > limit {
			if i == 0 {
				return 0, size
			}
			return i, total
		}
		total += size
	}
	return len(s.ahead), total
}

func (s *Scan) entry(i int) entry {
	from := &s.ahead[i]
	made := entry{key: from.Key, index: from.Index}
	if !s.keys && (from.Item.JSON != nil || from.Item.Message != nil) {
		made.item = &from.Item
	}
	return made
}

// scanner begins a scan: with a state.Query of keys, with a state.Span of positions.
type scanner[How any] interface {
	Scan(how How) (*state.Scan, error)
}

func open[How any](c *Collection, how How) (Cursor, error) {
	handle, err := call[scanner[How]](c)
	if err != nil {
		return nil, err
	}
	cursor, err := handle.Scan(how)
	if err != nil {
		return nil, err // a nil *state.Scan would be a Cursor
	}
	return cursor, nil
}
