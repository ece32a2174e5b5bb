// Package fault owns the kinds of error that leave the core, so that each language
// can name them and decide by kind, never by text.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what an error means to the caller.
type Kind int

// The kinds of error. They match the status codes of the C ABI.
const (
	Internal     Kind = iota // a fault of Prosody itself
	Argument                 // an argument or option value is malformed
	Config                   // the options do not make a working whole
	State                    // not now: already subscribed, not subscribed
	Settled                  // the invocation is over
	Closed                   // the client is shut down
	Revoked                  // the partition went to another member
	Timeout                  // transient
	Kafka                    // transient
	Store                    // transient
	Cancelled                // transient
	TooLarge                 // permanent
	Invalid                  // permanent: a key, topic name or payload is not allowed
	Exists                   // permanent
	Unpublished              // transient: nobody publishes the collection yet
	Identity                 // permanent: a collection is of another kind
	Unregistered             // permanent: a collection is not registered
)

// String is the kind in one word.
func (k Kind) String() string {
	names := [...]string{
		"internal", "argument", "config", "state", "settled", "closed", "revoked", "timeout", "kafka", "store",
		"cancelled", "too_large", "invalid", "exists", "unpublished", "identity", "unregistered",
	}
	if k < 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Error is an error with its kind.
type Error struct {
	Kind  Kind
	Text  string
	Cause error
}

func (e *Error) Error() string { return e.Text }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes an error of a kind.
func New(kind Kind, format string, arguments ...any) *Error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, arguments...)}
}

// Wrap makes an error of a kind from a cause; its text is what, a colon and the
// cause's text.
func Wrap(kind Kind, cause error, what string) *Error {
	return &Error{Kind: kind, Text: what + ": " + cause.Error(), Cause: cause}
}

// Of tells the kind of an error: Internal for one that has none.
func Of(err error) Kind {
	var fault *Error
	if errors.As(err, &fault) {
		return fault.Kind
	}
	return Internal
}
