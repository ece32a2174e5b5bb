package producer

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/observe/trace"
)

// Names of headers that Prosody gives a meaning.
const (
	maxTopic = 249
)

// check refuses what must not be sent, and finds the payload's id.
func check(o *Outgoing) (id string, hasID bool, err error) {
	if refusal := checkTopic(o.Topic); refusal != nil {
		return "", false, refusal
	}
	if o.Raw {
		return "", false, nil
	}
	if err := event.CheckKey(o.Key); err != nil {
		return "", false, err
	}
	for i := range o.Headers {
		if refusal := checkHeader(o.Headers[i].Name); refusal != nil {
			return "", false, refusal
		}
	}
	if o.Payload == nil {
		return "", false, nil
	}
	identity, err := event.CheckPayload(o.Payload)
	return identity.ID, identity.HasID && o.Reply == nil, err
}

// checkTopic applies Kafka's own rules, so that a bad name fails at once and by name.
func checkTopic(name string) *fault.Error {
	var rule string
	switch {
	case name == "":
		rule = "is empty"
	case name == "." || name == "..":
		rule = "must not be . or .."
	case len(name) > maxTopic:
		rule = "has " + strconv.Itoa(len(name)) + " bytes; at most " + strconv.Itoa(maxTopic) + " are allowed"
	case strings.ContainsFunc(name, foreign):
		rule = "may have only the characters a-z, A-Z, 0-9, '.', '_' and '-'"
	default:
		return nil
	}
	return fault.New(fault.Invalid, "topic %s: %s", quote(name), rule)
}

func foreign(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		return false
	}
	return true
}

func checkHeader(name string) *fault.Error {
	switch {
	case name == event.SourceHeader:
		return fault.New(fault.Argument, "header %s: is set by the client itself (source_system)", quote(name))
	case strings.HasPrefix(name, event.ReplyPrefix):
		return fault.New(fault.Argument, "header %s: names that start with %s are reserved for requests", quote(name), event.ReplyPrefix)
	case strings.ContainsRune(name, 0):
		return fault.New(fault.Argument, "header %s: a name must not have a NUL", quote(name))
	case !utf8.ValidString(name):
		return fault.New(fault.Argument, "header %s: a name must be valid UTF-8", quote(name))
	}
	return nil
}

// copy makes the record: one block holds all bytes of the caller.
func (p *Producer) copy(o *Outgoing) *send {
	s := &send{}
	s.entry.Value = s
	given := p.begun(s, o)
	parent, state := trace.Format(given)
	size := len(o.Key) + len(o.Payload) + len(parent) + len(state)
	for i := range o.Headers {
		size += len(o.Headers[i].Value)
	}
	block := make([]byte, 0, size)
	take := func(bytes []byte) []byte {
		if bytes == nil {
			return nil
		}
		start := len(block)
		block = append(block, bytes...)
		return block[start:len(block):len(block)]
	}
	s.record = kafka.Record{Topic: strings.Clone(o.Topic), Timestamp: p.options.Dates.Now().UnixMilli()}
	if !o.Raw || !o.Keyless {
		block = append(block, o.Key...)
		s.record.Key = block[:len(block):len(block)]
	}
	s.record.Value = take(o.Payload)
	s.record.Headers = s.inline[:0]
	traced := false
	for i := range o.Headers {
		header := &o.Headers[i]
		if !o.Raw && (header.Name == trace.Parent || header.Name == trace.State) {
			if parent != "" || traced && header.Name == trace.Parent {
				continue
			}
			traced = traced || header.Name == trace.Parent
		}
		s.record.Headers = append(s.record.Headers,
			kafka.Header{Name: strings.Clone(header.Name), Value: take(header.Value)})
	}
	if o.Reply != nil {
		s.record.Headers = append(s.record.Headers, o.Reply.Headers()...)
	}
	if !o.Raw {
		s.record.Headers = append(s.record.Headers, kafka.Header{Name: event.SourceHeader, Value: p.source})
	}
	if parent != "" {
		s.record.Headers = append(s.record.Headers, kafka.Header{Name: trace.Parent, Value: take([]byte(parent))})
	}
	if state != "" {
		s.record.Headers = append(s.record.Headers, kafka.Header{Name: trace.State, Value: take([]byte(state))})
	}
	return s
}

// begun begins the span of a send and gives the context that the record is to carry; of
// a raw one none, since it goes out as it is.
func (p *Producer) begun(s *send, o *Outgoing) trace.Context {
	cause := o.Cause
	if p.options.Tracer != nil {
		s.span = p.options.Tracer.Send(trace.First(cause, trace.Of(o.Headers)), o.Topic, o.Key, o.Payload)
		cause = trace.First(s.span.Context(), cause)
	}
	if o.Raw {
		return trace.Context{}
	}
	return cause
}

// traced makes the end of a send the end of its span.
func (p *Producer) traced(s *send, done func(Sent)) func(Sent) {
	if p.options.Tracer == nil {
		return done
	}
	return func(sent Sent) {
		if sent.Err != nil {
			s.span.Fail(sent.Err)
		} else {
			s.span.Sent(sent.Partition, sent.Offset, s.record.Timestamp)
		}
		done(sent)
	}
}

// quote makes any text printable and short.
func quote(text string) string {
	if len(text) > maxTopic {
		text = text[:maxTopic] + "…"
	}
	return strconv.Quote(text)
}

// Owned copies a record, so that its caller's bytes may go.
func (o Outgoing) Owned() Outgoing {
	o.Topic, o.Key, o.Payload = strings.Clone(o.Topic), strings.Clone(o.Key), bytes.Clone(o.Payload)
	o.Headers = slices.Clone(o.Headers)
	for i, header := range o.Headers {
		o.Headers[i] = kafka.Header{Name: strings.Clone(header.Name), Value: bytes.Clone(header.Value)}
	}
	return o
}
