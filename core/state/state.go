// Package state owns the collections of keyed state: values, maps, sets and deques over a
// key's record. A session is what one attempt sees and changes of them.
//
// It upholds its part of I2: what an attempt changes is buffered, read back by the attempt
// alone, and handed to the record's transaction at its success. It upholds I4 for cells in
// memory: they belong to the record, are bounded by bytes, and can be dropped at any time.
//
// An operation answers from memory where it can. With Memory as its context it does so or
// returns ErrPending; with any other it reads the store where it has to.
package state

import (
	"cmp"
	"context"
	"errors"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
)

// Identity says which collection is meant. Kind and Payload are those of core/config:
// value, map, set, deque; json, message, and nothing for a set.
type Identity struct{ Name, Kind, Payload string }

// Handle is a collection in one attempt: a *Value, *Map, *Set or *Deque. It is safe for
// use by many goroutines. One attempt has one handle of a collection.
//
// After the attempt each call fails with fault.Settled, but for Rollback. The text is
// "state access attempted on a terminated context" for reads, which a host takes as
// transient, and "state mutation attempted on a settled session" for changes, which it
// takes as permanent.
type Handle interface {
	Identity() Identity
	// Commit makes the collection's changes durable at once: they stay even when the
	// attempt fails later. With Memory it does so only where there is nothing to do.
	Commit(ctx context.Context) (Outcome, error)
	// Rollback drops the changes since the last Commit, or since the attempt began.
	Rollback(ctx context.Context) (Outcome, error)
}

// Outcome tells whether there was anything to do.
type Outcome uint8

// The outcomes of Commit and Rollback.
const (
	NoOp Outcome = iota
	Applied
)

// Item is the content of a cell: one of the two.
type Item struct {
	JSON []byte
	// Message is a record that was delivered, or read again. It is nil where the
	// operation does not read messages.
	Message *event.Event
	// Place is where the record of a collection of messages is; it is set on reading. On
	// writing it stands for a message that was delivered before, where Message is nil.
	Place Place
}

// Place is the place of a record.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (p Place) at() kafka.Partition { return kafka.Partition{Topic: p.Topic, Index: p.Partition} }

// Entry is an item of a scan.
type Entry struct {
	Key   string // of a map or set
	Index int64  // of a deque, from its front as it was when the scan began
	Item  Item
}

// Edge is a bound of a scan of map keys or set members.
type Edge struct {
	Key       string
	Exclusive bool
}

// Bound is a bound of a scan of a deque: a position from the front, not negative.
type Bound struct {
	Index     int64
	Exclusive bool
}

// Query says what a scan of a map or set gives. First and Last are in the order of the
// scan: a backward one starts at the high end. Start and Stop are an ascending range,
// without Stop. All conditions hold at once.
type Query struct {
	Backward    bool
	Prefix      string
	First, Last *Edge
	Start, Stop *string
	Limit       int64 // 0: none
	Keys        bool  // without items
}

// Span says what a scan of a deque gives, as Query does.
type Span struct {
	Backward    bool
	First, Last *Bound
	Start, Stop *int64
	Limit       int64 // 0: none
}

// ErrPending is the error of an operation with Memory that has to read or write the store.
// Nothing has changed: call it again with another context.
var ErrPending = errors.New("state: the store has to be asked")

type memory struct{}

// Memory makes the context of operations that may not wait.
func Memory() context.Context { return context.WithValue(context.Background(), memory{}, true) }

func now(ctx context.Context) bool { return ctx.Value(memory{}) != nil }

// The errors that hosts meet. Texts are part of the API.
func errOver() error {
	return fault.New(fault.Settled, "state access attempted on a terminated context")
}

func errSettled() error {
	return fault.New(fault.Settled, "state mutation attempted on a settled session")
}

func errUnknown(name string) error {
	return fault.New(fault.Unregistered, "state collection %q is not registered", name)
}

func errMismatch(name string, known, wanted Identity) error {
	return fault.New(fault.Identity, "state collection identity mismatch: %q is a %s, not a %s", name, known.text(), wanted.text())
}

func errNull() error {
	return fault.New(fault.Invalid, "JSON null is not a storable value; use clear (value/deque) or remove (map) to delete an entry")
}

func (i Identity) text() string {
	if i.Payload == "" {
		return i.Kind
	}
	return i.Kind + " of " + i.Payload
}

// Format is the layout of cells and headers.
const Format = "1"

// Mark is what is recorded of an identity: kind, payload and format.
func (i Identity) Mark() string { return i.Kind + " " + cmp.Or(i.Payload, "none") + " " + Format }
