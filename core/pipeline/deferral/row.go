package deferral

import (
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"prosody/core/event"
	"prosody/core/kafka"
)

// inline is the most bytes of payload and headers that a row holds. What is larger is
// read from the log again.
const inline = 64 << 10

// The fields of a row. Unknown ones are skipped.
const (
	fieldKind      protowire.Number = 1
	fieldPartition protowire.Number = 2
	fieldOffset    protowire.Number = 3
	fieldTimestamp protowire.Number = 4
	fieldValue     protowire.Number = 5
	fieldAbsent    protowire.Number = 6 // the value and the headers are in the log only
	fieldHeader    protowire.Number = 7
	fieldSecond    protowire.Number = 8

	fieldHeaderName  protowire.Number = 1
	fieldHeaderValue protowire.Number = 2
)

// row is a deferred event.
type row struct {
	kind   event.Kind
	record kafka.Record
	absent bool
	second int64 // of a timer
}

// encode makes the row of an event.
func encode(e *event.Event) []byte {
	data := varint(nil, fieldKind, uint64(e.Kind))
	if e.Kind == event.Timer {
		return headers(varint(data, fieldSecond, uint64(e.Timestamp/1000)), e)
	}
	data = varint(data, fieldPartition, uint64(e.Partition))
	data = varint(data, fieldOffset, uint64(e.Offset))
	data = varint(data, fieldTimestamp, protowire.EncodeZigZag(e.Timestamp))
	size := len(e.Payload)
	for _, header := range e.Headers {
		size += len(header.Name) + len(header.Value) + 16
	}
	if size > inline {
		return varint(data, fieldAbsent, 1)
	}
	if e.Kind == event.Message {
		data = protowire.AppendTag(data, fieldValue, protowire.BytesType)
		data = protowire.AppendBytes(data, e.Payload)
	}
	return headers(data, e)
}

// headers adds the headers of an event; those of a timer carry its trace context.
func headers(data []byte, e *event.Event) []byte {
	for _, header := range e.Headers {
		made := protowire.AppendTag(nil, fieldHeaderName, protowire.BytesType)
		made = protowire.AppendString(made, header.Name)
		if header.Value != nil {
			made = protowire.AppendTag(made, fieldHeaderValue, protowire.BytesType)
			made = protowire.AppendBytes(made, header.Value)
		}
		data = protowire.AppendTag(data, fieldHeader, protowire.BytesType)
		data = protowire.AppendBytes(data, made)
	}
	return data
}

func varint(data []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(data, field, protowire.VarintType), value)
}

var errRow = errors.New("a row of the deferred queue cannot be read")

// decode reads a row.
func decode(data []byte) (row, error) {
	var r row
	for len(data) > 0 {
		field, number, bytes, rest, err := consume(data)
		if err != nil {
			return r, err
		}
		data = rest
		switch field {
		case fieldKind:
			r.kind = event.Kind(number)
		case fieldPartition:
			r.record.Partition = int32(number)
		case fieldOffset:
			r.record.Offset = int64(number)
		case fieldTimestamp:
			r.record.Timestamp = protowire.DecodeZigZag(number)
		case fieldValue:
			r.record.Value = bytes
		case fieldAbsent:
			r.absent = number != 0
		case fieldSecond:
			r.second = int64(number)
		case fieldHeader:
			header, err := decodeHeader(bytes)
			if err != nil {
				return r, err
			}
			r.record.Headers = append(r.record.Headers, header)
		}
	}
	switch r.kind {
	case event.Message, event.Excise, event.Timer:
		return r, nil
	}
	return r, errRow
}

func decodeHeader(data []byte) (header kafka.Header, err error) {
	for len(data) > 0 {
		field, _, bytes, rest, err := consume(data)
		if err != nil {
			return header, err
		}
		data = rest
		switch field {
		case fieldHeaderName:
			header.Name = string(bytes)
		case fieldHeaderValue:
			header.Value = bytes
		}
	}
	return header, nil
}

// consume reads one field. Bytes are not nil where there are any, or none.
func consume(data []byte) (field protowire.Number, number uint64, bytes, rest []byte, err error) {
	field, kind, size := protowire.ConsumeTag(data)
	if size < 0 {
		return 0, 0, nil, nil, errRow
	}
	data = data[size:]
	switch kind {
	case protowire.VarintType:
		number, size = protowire.ConsumeVarint(data)
	case protowire.BytesType:
		var view []byte
		view, size = protowire.ConsumeBytes(data)
		bytes = append([]byte{}, view...)
	default:
		size = protowire.ConsumeFieldValue(field, kind, data)
	}
	if size < 0 {
		return 0, 0, nil, nil, errRow
	}
	return field, number, bytes, data[size:], nil
}

// event makes the event of a row whose record is complete.
func (r *row) event(topic, key string, partition int32) (*event.Event, error) {
	if r.kind == event.Timer {
		return &event.Event{
			Kind: event.Timer, Topic: topic, Partition: partition, Offset: -1, Timestamp: r.second * 1000, Key: key,
			Headers: r.record.Headers,
		}, nil
	}
	r.record.Topic, r.record.Key = topic, []byte(key)
	made, invalid := event.Decode(&r.record, time.UnixMilli(r.record.Timestamp))
	if invalid != nil {
		return nil, errors.New(invalid.Reason)
	}
	return made, nil
}
