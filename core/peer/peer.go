// Package peer owns the way of an answer from the client that handled a record to the
// client that asked: who can be reached where, and the delivery itself.
//
// It upholds I8 (a delivery ends by its context) and I4: connections, known addresses,
// frames and calls at work are bounded. Only what is addressed to this client gets in.
package peer

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"prosody/core/fault"
)

// ID names a client for as long as it lives: a UUID of version 4.
type ID [16]byte

func (id ID) String() string { return uuid.UUID(id).String() }

// JSON is the format of payloads.
const JSON = "json"

// MaxFrame is the most bytes of an answer with all that belongs to it.
const MaxFrame = 4 << 20

// MaxPayload is the most bytes of a payload: the frame has names and ids, too.
const MaxPayload = MaxFrame - 16<<10

// Category says of what kind a failure is.
type Category uint8

// The categories.
const (
	Transient Category = iota + 1
	Permanent
)

// Error is how a handler failed.
type Error struct {
	Category Category
	Text     string
}

// Answer is what a subsystem says to a request: a payload, or an error.
type Answer struct {
	Target    ID // who asked
	Request   [16]byte
	Subsystem string
	Format    string // of Payload
	Payload   []byte
	Error     *Error
}

// Verdict is what the client that asked made of an answer.
type Verdict uint8

// The verdicts.
const (
	Accepted  Verdict = iota + 1
	Duplicate         // it was there already
	Refused           // nobody waits for it
)

// Failure is a delivery that did not succeed.
type Failure struct {
	Kind FailureKind
	Text string
}

func (f *Failure) Error() string { return f.Text }

// FailureKind says whether another attempt may help.
type FailureKind uint8

// The kinds of failure.
const (
	Unreachable FailureKind = iota // another attempt may help
	Unwanted                       // nobody waits for the answer, there or at all
	TooLarge                       // a shorter answer may get through
)

// Exchange is the way between clients of one process, in mock mode: no sockets, no
// leases. A client that is gone takes its place here with it.
type Exchange struct {
	mutex   sync.Mutex
	members map[ID]func(Answer) Verdict
}

// NewExchange makes one without members.
func NewExchange() *Exchange { return &Exchange{members: map[ID]func(Answer) Verdict{}} }

// Join adds a client; receive takes its answers.
func (x *Exchange) Join(receive func(Answer) Verdict) *Member {
	made := &Member{exchange: x, id: ID(uuid.New())}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.members[made.id] = receive
	return made
}

// Member is a client of an exchange.
type Member struct {
	exchange *Exchange
	id       ID
}

// ID names the client.
func (m *Member) ID() ID { return m.id }

// Ready is always true.
func (m *Member) Ready() bool { return true }

// Reach does nothing: a member can be reached.
func (m *Member) Reach(context.Context) error { return nil }

// Deliver hands an answer over. Its error is a *Failure.
func (m *Member) Deliver(_ context.Context, answer Answer) error {
	if size := len(answer.Payload); size > MaxPayload {
		return &Failure{TooLarge, tooLarge(size)}
	}
	m.exchange.mutex.Lock()
	receive := m.exchange.members[answer.Target]
	m.exchange.mutex.Unlock()
	if receive == nil {
		return &Failure{Unwanted, "the client that asked is not there any more"}
	}
	if receive(answer) == Refused {
		return &Failure{Unwanted, "nobody waits for the answer"}
	}
	return nil
}

// Close leaves the exchange.
func (m *Member) Close(context.Context) error {
	m.exchange.mutex.Lock()
	defer m.exchange.mutex.Unlock()
	delete(m.exchange.members, m.id)
	return nil
}

// Stats tells nothing: there are no connections.
func (m *Member) Stats() Stats { return Stats{} }

func closed() error { return fault.New(fault.Closed, "client is shut down") }

// TooLong is the answer instead of one whose payload is too large: it names the size.
func TooLong(answer Answer) Answer {
	answer.Error = &Error{Category: Permanent, Text: tooLarge(len(answer.Payload))}
	answer.Format, answer.Payload = "", nil
	return answer
}

func tooLarge(size int) string {
	return fmt.Sprintf("the response has %d bytes; at most %d can be delivered", size, MaxPayload)
}

// Stats is what a link can tell about itself. All but Connections only grow.
type Stats struct {
	Reachable   bool  `json:"reachable"`
	Connections int   `json:"connections"`
	Misdirected int64 `json:"misdirected"` // answers to another client
	Malformed   int64 `json:"malformed"`   // frames that are no answer
	Overload    int64 `json:"overload"`    // calls turned away: too many at once
	Renewals    int64 `json:"renewals"`    // of the lease
	Lapses      int64 `json:"lapses"`      // renewals that failed
}
