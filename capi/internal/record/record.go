// Package record owns the packed form of what comes out of a queue: the layouts that
// include/prosody.h documents. It allocates nothing and knows nothing of queues.
package record

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"prosody/core/event"
)

// Kinds of record.
const (
	KindMessage    = 1
	KindExcise     = 2
	KindTimer      = 3
	KindCancel     = 4
	KindCompletion = 5
	KindLog        = 6
	KindFatal      = 7
)

// Flags of a message, excise or timer record.
const (
	FlagFailure  = 1
	FlagResponse = 2
)

// Sizes of the fixed parts. The package capi compares them with the header.
const (
	HeadSize       = 16
	MessageSize    = 72
	TimerSize      = 48
	CancelSize     = 24
	CompletionSize = 48
	LogSize        = 40
	FatalSize      = 24
	null           = 0xFFFFFFFF
)

var native = binary.NativeEndian

// MaxText bounds texts that come from elsewhere: what went wrong, lines of the log.
const MaxText = 32 << 10

// Clip bounds a text and repairs what is not UTF-8.
func Clip(text string) string {
	if len(text) > MaxText {
		at := MaxText
		for at > 0 && !utf8.RuneStart(text[at]) {
			at--
		}
		text = text[:at] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func padded(size int) int { return (size + 7) &^ 7 }

func head(buffer []byte, kind, flags uint16, token uint64) {
	native.PutUint32(buffer, uint32(len(buffer)))
	native.PutUint16(buffer[4:], kind)
	native.PutUint16(buffer[6:], flags)
	native.PutUint64(buffer[8:], token)
}

// fill copies the parts behind the fixed fields and clears the padding.
func fill(buffer []byte, at int, parts ...string) {
	for _, part := range parts {
		at += copy(buffer[at:], part)
	}
	clear(buffer[at:])
}

// Message is an event on its way to the host.
type Message struct {
	Event   *event.Event
	Parent  string // W3C trace context of its span; empty: none
	State   string
	Retry   uint32
	Failure bool
	Asked   bool // the sender waits for a response
}

// Size tells the bytes that Encode needs.
func (m Message) Size() int {
	e := m.Event
	if e.Kind == event.Timer {
		return padded(TimerSize + len(e.Topic) + len(e.Key) + len(m.Parent) + len(m.State))
	}
	size := MessageSize + len(e.Topic) + len(e.Key) + len(e.Payload) + len(m.Parent) + len(m.State)
	if e.HasSource {
		size += len(e.Source)
	}
	for i := range e.Headers {
		size += 8 + len(e.Headers[i].Name) + len(e.Headers[i].Value)
	}
	return padded(size)
}

// Encode fills buffer, whose length is Size.
func (m Message) Encode(buffer []byte, token uint64) {
	e := m.Event
	if e.Kind == event.Timer {
		m.timer(buffer, token)
		return
	}
	kind, flags := uint16(KindMessage), uint16(0)
	if e.Kind == event.Excise {
		kind = KindExcise
	}
	if m.Failure {
		flags |= FlagFailure
	}
	if m.Asked {
		flags |= FlagResponse
	}
	head(buffer, kind, flags, token)
	native.PutUint64(buffer[16:], uint64(e.Offset))
	native.PutUint64(buffer[24:], uint64(e.Timestamp))
	native.PutUint32(buffer[32:], uint32(e.Partition))
	native.PutUint32(buffer[36:], m.Retry)

	at := MessageSize
	put := func(field int, data []byte) {
		native.PutUint32(buffer[field:], uint32(len(data)))
		at += copy(buffer[at:], data)
	}
	text := func(field int, data string) {
		native.PutUint32(buffer[field:], uint32(len(data)))
		at += copy(buffer[at:], data)
	}
	text(40, e.Topic)
	text(44, e.Key)
	put(48, e.Payload)
	if e.Kind == event.Excise {
		native.PutUint32(buffer[48:], null)
	}
	text(52, e.Source)
	if !e.HasSource {
		native.PutUint32(buffer[52:], null)
	}
	text(56, m.Parent)
	text(60, m.State)
	native.PutUint32(buffer[56:], length(m.Parent))
	native.PutUint32(buffer[60:], length(m.State))

	start := at
	for i := range e.Headers {
		header := &e.Headers[i]
		native.PutUint32(buffer[at:], uint32(len(header.Name)))
		size := uint32(len(header.Value))
		if header.Value == nil {
			size = null
		}
		native.PutUint32(buffer[at+4:], size)
		at += 8
		at += copy(buffer[at:], header.Name)
		at += copy(buffer[at:], header.Value)
	}
	native.PutUint32(buffer[64:], uint32(at-start))
	native.PutUint32(buffer[68:], uint32(len(e.Headers)))
	clear(buffer[at:])
}

// timer is Encode for a timer.
func (m Message) timer(buffer []byte, token uint64) {
	e := m.Event
	flags := uint16(0)
	if m.Failure {
		flags |= FlagFailure
	}
	head(buffer, KindTimer, flags, token)
	native.PutUint64(buffer[16:], uint64(e.Timestamp/1000))
	native.PutUint32(buffer[24:], uint32(e.Partition))
	native.PutUint32(buffer[28:], m.Retry)
	native.PutUint32(buffer[32:], uint32(len(e.Topic)))
	native.PutUint32(buffer[36:], uint32(len(e.Key)))
	native.PutUint32(buffer[40:], length(m.Parent))
	native.PutUint32(buffer[44:], length(m.State))
	fill(buffer, TimerSize, e.Topic, e.Key, m.Parent, m.State)
}

// length is the size of a text that is null when it is empty.
func length(text string) uint32 {
	if text == "" {
		return null
	}
	return uint32(len(text))
}

// Reason says why a handler is to stop.
type Reason int32

// The reasons.
const (
	Timeout  Reason = 1
	Revoked  Reason = 2
	Shutdown Reason = 3
	Lost     Reason = 4
)

// Cancel asks the host to stop the handler of an invocation.
type Cancel struct {
	Token  uint64
	Reason Reason
}

// Size tells the bytes that Encode needs.
func (*Cancel) Size() int { return CancelSize }

// Encode fills buffer, whose length is Size.
func (c *Cancel) Encode(buffer []byte) {
	head(buffer, KindCancel, 0, c.Token)
	native.PutUint32(buffer[16:], uint32(c.Reason))
	native.PutUint32(buffer[20:], 0)
}

// Drop does nothing: the invocation ends by itself.
func (*Cancel) Drop() {}

// Completion is the end of an asynchronous call.
type Completion struct {
	Tag      uint64
	Status   int32
	Category int32
	Value    int64
	Extra    int64
	Text     string
	Data     string
}

// Size tells the bytes that Encode needs.
func (c *Completion) Size() int { return padded(CompletionSize + len(c.Text) + len(c.Data)) }

// Encode fills buffer, whose length is Size.
func (c *Completion) Encode(buffer []byte) {
	head(buffer, KindCompletion, 0, c.Tag)
	native.PutUint32(buffer[16:], uint32(c.Status))
	native.PutUint32(buffer[20:], uint32(c.Category))
	native.PutUint64(buffer[24:], uint64(c.Value))
	native.PutUint64(buffer[32:], uint64(c.Extra))
	native.PutUint32(buffer[40:], uint32(len(c.Text)))
	native.PutUint32(buffer[44:], uint32(len(c.Data)))
	fill(buffer, CompletionSize, c.Text, c.Data)
}

// Drop does nothing: nobody waits for the answer any more.
func (*Completion) Drop() {}

// Log is a line of the log.
type Log struct {
	Time   int64 // nanoseconds since the epoch
	Level  int32
	Target string
	Text   string
	Fields string // a JSON object
}

// Size tells the bytes that Encode needs.
func (l *Log) Size() int {
	return padded(LogSize + len(l.Target) + len(l.Text) + len(l.Fields))
}

// Encode fills buffer, whose length is Size.
func (l *Log) Encode(buffer []byte) {
	head(buffer, KindLog, 0, 0)
	native.PutUint64(buffer[16:], uint64(l.Time))
	native.PutUint32(buffer[24:], uint32(l.Level))
	native.PutUint32(buffer[28:], uint32(len(l.Target)))
	native.PutUint32(buffer[32:], uint32(len(l.Text)))
	native.PutUint32(buffer[36:], uint32(len(l.Fields)))
	fill(buffer, LogSize, l.Target, l.Text, l.Fields)
}

// Drop does nothing.
func (*Log) Drop() {}

// Fatal says that the library refuses work from now on.
type Fatal struct{ Text string }

// Size tells the bytes that Encode needs.
func (f *Fatal) Size() int { return padded(FatalSize + len(f.Text)) }

// Encode fills buffer, whose length is Size.
func (f *Fatal) Encode(buffer []byte) {
	head(buffer, KindFatal, 0, 0)
	native.PutUint32(buffer[16:], uint32(len(f.Text)))
	native.PutUint32(buffer[20:], 0)
	fill(buffer, FatalSize, f.Text)
}

// Drop does nothing.
func (*Fatal) Drop() {}
