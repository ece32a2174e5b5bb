// Package event owns the view that the core has of a record: an Event, and the
// rules by which a Kafka record becomes one or is invalid.
package event

import (
	"prosody/core/kafka"
)

// Kind says which handler an event is for.
type Kind uint8

// The kinds of event.
const (
	Message Kind = iota + 1
	Excise
	Timer
	Retry // of the head of a key's deferred queue; it never reaches a host
)

func (k Kind) String() string {
	switch k {
	case Message:
		return "message"
	case Excise:
		return "excise"
	case Timer:
		return "timer"
	case Retry:
		return "retry"
	}
	return "unknown"
}

// Limits of what a record may carry. Records beyond them are refused by send and
// invalid on receipt.
const (
	MaxKey   = 32768 // bytes of a key
	MaxDepth = 500   // nested arrays and objects of a payload
)

// Event is one thing that happened to a key. It is read-only once made.
type Event struct {
	Kind      Kind
	Topic     string
	Partition int32
	Offset    int64 // of a message or excise record; -1 for a timer or retry
	Timestamp int64 // milliseconds since the epoch; for a timer its second * 1000, for a retry 0
	Key       string
	Payload   []byte // JSON; nil for excise records and timers
	Source    string // source-system header
	HasSource bool   // false: no such header, or not UTF-8
	Headers   []kafka.Header
	Reply     *Reply // the answer that the sender waits for; nil: none
	ID        string // payload's text id
	HasID     bool
	Type      string // payload's text type
	HasType   bool
}

// Partition names the event's partition.
func (e *Event) At() kafka.Partition { return kafka.Partition{Topic: e.Topic, Index: e.Partition} }
