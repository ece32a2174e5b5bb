package confluent

import (
	"context"
	"errors"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

func fail(code kafka.Code, text string) *kafka.Error { return &kafka.Error{Code: code, Text: text} }

// meaning is the sense of librdkafka's codes; all others are Unknown, so transient.
func meaning(code library.ErrorCode) kafka.Code {
	switch code {
	case library.ErrFatal, library.ErrFenced, library.ErrFencedInstanceID, library.ErrProducerFenced, library.ErrCritSysResource:
		return kafka.Fatal
	case library.ErrMsgSizeTooLarge, library.ErrInvalidMsgSize, library.ErrRecordListTooLarge:
		return kafka.TooLarge
	case library.ErrBadMsg, library.ErrInvalidMsg, library.ErrInvalidRecord, library.ErrInvalidTimestamp,
		library.ErrKeySerialization, library.ErrValueSerialization, library.ErrKeyDeserialization, library.ErrValueDeserialization,
		library.ErrBadCompression, library.ErrUnsupportedCompressionType, library.ErrInvalidDifferentRecord:
		return kafka.BadRecord
	case library.ErrUnknownTopic, library.ErrUnknownTopicOrPart, library.ErrUnknownPartition, library.ErrUnknownTopicID:
		return kafka.UnknownTopic
	case library.ErrTopicException:
		return kafka.BadTopic
	case library.ErrTopicAlreadyExists:
		return kafka.Exists
	case library.ErrTopicAuthorizationFailed, library.ErrGroupAuthorizationFailed, library.ErrClusterAuthorizationFailed,
		library.ErrTransactionalIDAuthorizationFailed, library.ErrAuthentication, library.ErrSaslAuthenticationFailed,
		library.ErrUnsupportedSaslMechanism, library.ErrIllegalSaslState:
		return kafka.Denied
	case library.ErrInvalidArg, library.ErrInvalidConfig, library.ErrInvalidPartitions, library.ErrInvalidReplicationFactor,
		library.ErrInvalidReplicaAssignment, library.ErrPolicyViolation, library.ErrConflict, library.ErrNotImplemented:
		return kafka.BadConfig
	case library.ErrTransport, library.ErrAllBrokersDown, library.ErrResolve, library.ErrNetworkException,
		library.ErrCoordinatorNotAvailable, library.ErrNotCoordinator, library.ErrCoordinatorLoadInProgress, library.ErrWaitCoord,
		library.ErrBrokerNotAvailable, library.ErrLeaderNotAvailable, library.ErrNotLeaderForPartition, library.ErrNodeUpdate,
		library.ErrSsl, library.ErrNotController:
		return kafka.Unavailable
	case library.ErrQueueFull:
		return kafka.Full
	case library.ErrTimedOut, library.ErrTimedOutQueue, library.ErrMsgTimedOut, library.ErrRequestTimedOut:
		return kafka.TimedOut
	case library.ErrRebalanceInProgress:
		return kafka.Rebalancing
	case library.ErrIllegalGeneration, library.ErrUnknownMemberID, library.ErrAssignmentLost,
		library.ErrFencedMemberEpoch, library.ErrStaleMemberEpoch:
		return kafka.Stale
	case library.ErrDestroy, library.ErrState:
		return kafka.Closed
	}
	return kafka.Unknown
}

// failure translates an error of librdkafka; what says what was tried.
func failure(what string, code library.ErrorCode, text string) *kafka.Error {
	if text == "" {
		text = code.String()
	}
	if what != "" {
		text = what + ": " + text
	}
	return fail(meaning(code), text)
}

// translate makes an error of the port from one of confluent-kafka-go or of a
// context.
func translate(what string, err error) *kafka.Error {
	var known library.Error
	switch {
	case errors.As(err, &known):
		problem := failure(what, known.Code(), known.Error())
		if known.IsFatal() {
			problem.Code = kafka.Fatal
		}
		return problem
	case errors.Is(err, context.DeadlineExceeded):
		return fail(kafka.TimedOut, what+": no answer in time")
	case errors.Is(err, context.Canceled):
		return fail(kafka.Unknown, what+": the caller gave up")
	}
	return fail(kafka.Unknown, what+": "+err.Error())
}
