package event

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"prosody/core/kafka"
)

// ReplyPrefix begins the names of the headers of a request.
const ReplyPrefix = "response-"

// The headers of a request. Each occurs once, but the last, which names a subsystem.
const (
	requestHeader  = ReplyPrefix + "request-id"
	peerHeader     = ReplyPrefix + "peer"
	deadlineHeader = ReplyPrefix + "deadline"
	awaitedHeader  = ReplyPrefix + "awaited"
)

// Reply is the answer that the sender of a record waits for.
type Reply struct {
	Request  [16]byte
	Peer     [16]byte // where the answer goes
	Deadline time.Time
	Awaited  []string // the subsystems that are to answer
}

// Awaits tells whether a subsystem is to answer.
func (r *Reply) Awaits(subsystem string) bool {
	if r == nil {
		return false
	}
	for _, name := range r.Awaited {
		if name == subsystem {
			return true
		}
	}
	return false
}

// Headers are those that carry it.
func (r *Reply) Headers() []kafka.Header {
	text := func(id [16]byte) []byte { return []byte(uuid.UUID(id).String()) }
	list := []kafka.Header{
		{Name: requestHeader, Value: text(r.Request)},
		{Name: peerHeader, Value: text(r.Peer)},
		{Name: deadlineHeader, Value: strconv.AppendInt(nil, r.Deadline.UnixMicro(), 10)},
	}
	for _, name := range r.Awaited {
		list = append(list, kafka.Header{Name: awaitedHeader, Value: []byte(name)})
	}
	return list
}

// replyOf reads what the headers ask for; nil when they ask for nothing, or are malformed:
// then the record is an ordinary one.
func replyOf(headers []kafka.Header) *Reply {
	var request, peer, deadline []byte
	var made Reply
	for i := range headers {
		header := &headers[i]
		if !strings.HasPrefix(header.Name, ReplyPrefix) {
			continue
		}
		var field *[]byte
		switch header.Name {
		case requestHeader:
			field = &request
		case peerHeader:
			field = &peer
		case deadlineHeader:
			field = &deadline
		case awaitedHeader:
			if len(header.Value) == 0 || !utf8.Valid(header.Value) {
				return nil
			}
			made.Awaited = append(made.Awaited, string(header.Value))
			continue
		default:
			continue
		}
		if *field != nil || len(header.Value) == 0 {
			return nil
		}
		*field = header.Value
	}
	micros, err := strconv.ParseInt(string(deadline), 10, 64)
	if err != nil || micros < 0 || len(made.Awaited) == 0 || !parse(request, &made.Request) || !parse(peer, &made.Peer) {
		return nil
	}
	made.Deadline = time.UnixMicro(micros)
	return &made
}

// parse accepts the plain form of a UUID only.
func parse(text []byte, id *[16]byte) bool {
	const plain = 36
	made, err := uuid.ParseBytes(text)
	*id = made
	return err == nil && len(text) == plain
}
