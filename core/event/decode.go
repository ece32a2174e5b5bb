package event

import (
	"time"
	"unicode/utf8"

	"prosody/core/fault"
	"prosody/core/kafka"
)

// SourceHeader names the header that tells which system sent a record.
const SourceHeader = "source-system"

// The bounds of a timestamp: what every host's calendar can show.
const (
	earliest = -62135596800000 // 0001-01-01T00:00:00.000Z
	latest   = 253402300799999 // 9999-12-31T23:59:59.999Z
)

// Invalid says why a record is no event.
type Invalid struct {
	Reason string
}

// Decode makes an event of a record, whose bytes and headers it shares. The key and the
// texts of the identity are copies.
//
// A null value is an excise record; zero bytes are an invalid payload. A missing
// timestamp (-1) becomes now; others are exact within the years 1 to 9999, and are set
// to the nearest of these otherwise. Of several source-system headers the first counts;
// when it is null or not UTF-8 there is none.
func Decode(record *kafka.Record, now time.Time) (*Event, *Invalid) {
	if record.Key == nil {
		return nil, &Invalid{Reason: "key: is null"}
	}
	key := string(record.Key)
	if err := CheckKey(key); err != nil {
		return nil, &Invalid{Reason: err.Error()}
	}
	made := &Event{
		Kind:      Excise,
		Topic:     record.Topic,
		Partition: record.Partition,
		Offset:    record.Offset,
		Timestamp: Instant(record.Timestamp, now),
		Payload:   record.Value,
		Key:       key,
		Headers:   record.Headers,
	}
	if record.Value != nil {
		identity, err := CheckPayload(record.Value)
		if err != nil {
			return nil, &Invalid{Reason: err.Error()}
		}
		made.Kind = Message
		made.ID, made.HasID = identity.ID, identity.HasID
		made.Type, made.HasType = identity.Type, identity.HasType
	}
	for _, header := range record.Headers {
		if header.Name == SourceHeader {
			if made.HasSource = header.Value != nil && utf8.Valid(header.Value); made.HasSource {
				made.Source = string(header.Value)
			}
			break
		}
	}
	made.Reply = replyOf(record.Headers)
	return made, nil
}

// Instant is the time of an event whose record has a timestamp.
func Instant(timestamp int64, now time.Time) int64 {
	if timestamp == -1 {
		timestamp = now.UnixMilli()
	}
	return min(max(timestamp, earliest), latest)
}

// CheckKey accepts keys of UTF-8, of 0 to MaxKey bytes. NUL is data.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fault.New(fault.Invalid, "key: has %d bytes; at most %d are allowed", len(key), MaxKey)
	}
	if !utf8.ValidString(key) {
		return fault.New(fault.Invalid, "key: is not valid UTF-8")
	}
	return nil
}
