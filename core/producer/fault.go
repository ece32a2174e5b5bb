package producer

import (
	"context"
	"errors"

	"prosody/core/fault"
	"prosody/core/kafka"
)

// Fault makes an error of the Kafka port one that leaves the core; what says what was
// tried. Unknown failures are transient.
func Fault(err error, what string) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	kind := fault.Kafka
	var failure *kafka.Error
	switch {
	case errors.As(err, &failure):
		kind = kindOf(failure.Code)
		if kind == fault.Kafka && failure.Permanent() {
			kind = fault.Invalid // a code that means nothing more to the caller
		}
	case errors.Is(err, context.DeadlineExceeded):
		kind = fault.Timeout
	case errors.Is(err, context.Canceled):
		kind = fault.Cancelled
	}
	return fault.Wrap(kind, err, what)
}

func kindOf(code kafka.Code) fault.Kind {
	switch code {
	case kafka.TimedOut:
		return fault.Timeout
	case kafka.TooLarge:
		return fault.TooLarge
	case kafka.BadTopic:
		return fault.Invalid
	case kafka.BadConfig:
		return fault.Config
	case kafka.Exists:
		return fault.Exists
	case kafka.Closed:
		return fault.Closed
	case kafka.Stale:
		return fault.Revoked
	}
	return fault.Kafka
}

// Permanent tells whether sending the same record again is pointless.
func Permanent(err *fault.Error) bool {
	return err.Kind == fault.TooLarge || err.Kind == fault.Invalid
}

func errClosed(topic string) *fault.Error {
	return fault.New(fault.Closed, "send to topic %s: the client is shut down", quote(topic))
}
