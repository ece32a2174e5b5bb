// Package keyed owns the collections of keyed state that the host has in hand: their names,
// the calls on them, and the packed form of what they answer.
//
// A call with state.Memory answers at once or gives state.ErrPending; with any other context
// it waits for the store. What a call with a limited buffer cannot hand over stays where it
// is.
package keyed

import (
	"context"
	"errors"
	"sync"

	"prosody/capi/internal/token"
	"prosody/core/event"
	"prosody/core/state"
)

// Texts of calls that come too late; they are part of the API.
const (
	Over    = "state access attempted on a terminated context"
	Settled = "state mutation attempted on a settled session"
)

// ErrKind is the error of a call that the collection does not have.
var ErrKind = errors.New("keyed: the collection is of another kind, or of a reader")

// Binder gives the collections of an attempt: a *state.Session.
type Binder interface {
	Bind(state.Identity) (state.Handle, error)
}

// Table names collections and scans.
type Table struct {
	collections *token.Table[Collection]
	scans       *token.Table[Scan]
}

// New makes an empty table.
func New() *Table {
	return &Table{token.New[Collection](token.Collection), token.New[Scan](token.Scan)}
}

// Used counts what is named.
func (t *Table) Used() int64 { return t.collections.Used() + t.scans.Used() }

// Find gives a collection; nil when the name has none any more, which stale tells, or never
// had one.
func (t *Table) Find(name uint64) (c *Collection, stale bool) { return t.collections.Find(name) }

// Scan is Find for scans.
func (t *Table) Scan(name uint64) (s *Scan, stale bool) { return t.scans.Find(name) }

// Close ends a scan.
func (t *Table) Close(name uint64) {
	if s := t.scans.Drop(name); s != nil {
		s.of.forget(name)
		s.end()
	}
}

// Release ends a collection of a reader.
func (t *Table) Release(name uint64) {
	c, _ := t.collections.Find(name)
	if c == nil || c.Invocation != 0 || t.collections.Drop(name) == nil {
		return
	}
	c.release(t)
	if c.ended != nil {
		c.ended()
	}
}

// Attempt is the collections of an invocation.
type Attempt struct {
	table      *Table
	invocation uint64
	binder     Binder
	own        *event.Event

	mutex sync.Mutex
	bound []*Collection
}

// Begin makes the collections of an invocation.
func (t *Table) Begin(invocation uint64, binder Binder, own *event.Event) *Attempt {
	return &Attempt{table: t, invocation: invocation, binder: binder, own: own}
}

// Bind names a collection: the same one has the same name.
func (a *Attempt) Bind(identity state.Identity) (uint64, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, c := range a.bound {
		if c.identity == identity {
			return c.name, nil
		}
	}
	handle, err := a.binder.Bind(identity)
	if err != nil {
		return 0, err
	}
	c := &Collection{Invocation: a.invocation, handle: handle, identity: identity, own: a.own}
	a.bound = append(a.bound, c)
	c.name = a.table.collections.Issue(c)
	return c.name, nil
}

// Release ends all of them: the attempt is over.
func (a *Attempt) Release() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, c := range a.bound {
		a.table.collections.Drop(c.name)
		c.release(a.table)
	}
	a.bound = nil
}

// Open names a collection of a reader. ended, which may be nil, is called at its release.
func (t *Table) Open(handle any, identity state.Identity, ended func()) uint64 {
	c := &Collection{handle: handle, identity: identity, ended: ended}
	c.name = t.collections.Issue(c)
	return c.name
}

// Collection is a collection of a key. It is safe for use by many goroutines.
type Collection struct {
	Invocation uint64 // 0: of a reader

	handle   any
	identity state.Identity
	own      *event.Event
	name     uint64
	ended    func()

	mutex sync.Mutex
	over  bool
	scans []uint64

	pops sync.Mutex // what a pop looked at is what it takes
}

// Kind is its kind, as definitions name it.
func (c *Collection) Kind() string { return c.identity.Kind }

// Name is the name of its definition.
func (c *Collection) Name() string { return c.identity.Name }

// release ends its scans.
func (c *Collection) release(t *Table) {
	c.mutex.Lock()
	c.over = true
	scans := c.scans
	c.scans = nil
	c.mutex.Unlock()
	for _, name := range scans {
		if s := t.scans.Drop(name); s != nil {
			s.end()
		}
	}
}

func (c *Collection) forget(scan uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i, name := range c.scans {
		if name == scan {
			last := len(c.scans) - 1
			c.scans[i] = c.scans[last]
			c.scans = c.scans[:last]
			return
		}
	}
}

// Item makes what is to be stored: JSON, or for nil the message at a place.
func (c *Collection) Item(json []byte, place state.Place) state.Item {
	if json != nil {
		return state.Item{JSON: json}
	}
	item := state.Item{Place: place}
	if own := c.own; own != nil && own.Kind == event.Message && own.Topic == place.Topic &&
		own.Partition == place.Partition && own.Offset == place.Offset {
		item.Message = own
	}
	return item
}

// Answer is what a call came to.
type Answer struct {
	Absent bool
	End    bool
	Short  int // the need, when the buffer is too small
	Value  int64
	Data   []byte
}

func item(found state.Item, known bool, err error) (Answer, error) {
	if err != nil || !known {
		return Answer{Absent: !known}, err
	}
	return Answer{Data: bytes(&found)}, nil
}

func yes(is bool, err error) (Answer, error) { return Answer{Absent: !is}, err }

func outcome(outcome state.Outcome, err error) (Answer, error) {
	return Answer{Absent: outcome == state.NoOp}, err
}

// call gives a handle as what the call needs.
func call[T any](c *Collection) (T, error) {
	handle, fits := c.handle.(T)
	if !fits {
		return handle, ErrKind
	}
	return handle, nil
}

// Commit makes the changes durable.
func (c *Collection) Commit(ctx context.Context) (Answer, error) {
	handle, err := call[state.Handle](c)
	if err != nil {
		return Answer{}, err
	}
	return outcome(handle.Commit(ctx))
}

// Rollback drops the changes.
func (c *Collection) Rollback(ctx context.Context) (Answer, error) {
	handle, err := call[state.Handle](c)
	if err != nil {
		return Answer{}, err
	}
	return outcome(handle.Rollback(ctx))
}

// Clear removes all.
func (c *Collection) Clear(ctx context.Context) (Answer, error) {
	handle, err := call[interface{ Clear(context.Context) error }](c)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, handle.Clear(ctx)
}

// Empty is Absent for an empty map, set or deque.
func (c *Collection) Empty(ctx context.Context) (Answer, error) {
	handle, err := call[interface {
		IsEmpty(context.Context) (bool, error)
	}](c)
	if err != nil {
		return Answer{}, err
	}
	empty, err := handle.IsEmpty(ctx)
	return yes(!empty, err)
}
