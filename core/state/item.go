package state

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"prosody/core/config"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
)

// Delivered is the item of a record that a handler has received.
func Delivered(of *event.Event) Item { return Item{Message: of} }

// content checks an item and makes the content of its cell.
func (b *base) content(item Item) ([]byte, error) {
	data, err := b.raw(item)
	if err != nil {
		return nil, err
	}
	if most := b.session.record.Limits().MaxValue - overhead; len(data) > most {
		return nil, fault.New(fault.TooLarge, "state collection %q: a value has %d bytes, more than the %d that one row of the store may have; keep parts of it under several keys of a map", b.definition.Name, len(data), most)
	}
	return data, nil
}

func (b *base) raw(item Item) ([]byte, error) {
	if b.definition.Payload != config.PayloadMessage {
		if item.Message != nil || item.JSON == nil {
			return nil, fault.New(fault.Argument, "value is not representable as JSON: it is a message")
		}
		return CheckJSON(item.JSON)
	}
	place := item.Place
	if of := item.Message; of != nil {
		place = Place{Topic: of.Topic, Partition: of.Partition, Offset: of.Offset}
		if of.Kind != event.Message {
			place.Offset = -1
		}
	}
	if place.Topic == "" || place.Partition < 0 || place.Offset < 0 {
		return nil, fault.New(fault.Argument, "expected a Kafka message")
	}
	return place.encode(), nil
}

// CheckJSON accepts what a collection of JSON can hold, and copies it.
func CheckJSON(value []byte) ([]byte, error) {
	if _, err := event.CheckPayload(value); err != nil {
		return nil, err
	}
	if bytes.Equal(bytes.Trim(value, " \t\r\n"), []byte("null")) {
		return nil, errNull()
	}
	return bytes.Clone(value), nil
}

// item makes an item of a cell. It reads the record that a cell refers to.
func (b *base) item(ctx context.Context, c cell) (Item, error) {
	if b.definition.Payload != config.PayloadMessage {
		return Item{JSON: c.data}, nil
	}
	place, err := decodePlace(c.data)
	if err != nil {
		return Item{}, err
	}
	item := Item{Place: place}
	item.Message, err = b.session.read(ctx, place)
	return item, err
}

// window is how many messages are read at once.
const window = 32

// items makes the items of cells in their order, up to the first one that cannot be made.
// Messages are read some at a time, so that they come in few passes over their partitions.
func (b *base) items(ctx context.Context, cells []cell) ([]Item, error) {
	items := make([]Item, len(cells))
	errs := make([]error, len(cells))
	if b.definition.Payload != config.PayloadMessage || now(ctx) || len(cells) < 2 {
		for i, c := range cells {
			if items[i], errs[i] = b.item(ctx, c); errs[i] != nil {
				return items[:i], errs[i]
			}
		}
		return items, nil
	}
	for from := 0; from < len(cells); from += window {
		var all sync.WaitGroup
		to := min(from+window, len(cells))
		for i := from; i < to; i++ {
			all.Go(func() {
				defer func() {
					if thrown := recover(); thrown != nil {
						errs[i] = fault.New(fault.Internal, "reading a message panicked: %v", thrown)
					}
				}()
				items[i], errs[i] = b.item(ctx, cells[i])
			})
		}
		all.Wait()
		for i := from; i < to; i++ {
			if errs[i] != nil {
				return items[:i], errs[i]
			}
		}
	}
	return items, nil
}

// read gives the message at a place.
func (s *Session) read(ctx context.Context, place Place) (*event.Event, error) {
	if own := s.own; own != nil && own.Kind == event.Message && own.At() == place.at() && own.Offset == place.Offset {
		return own, nil
	}
	o := &s.registry.options
	var record *kafka.Record
	if o.Kept != nil {
		record = o.Kept(place.at(), place.Offset)
	}
	if record == nil {
		if now(ctx) {
			return nil, ErrPending
		}
		if o.Read == nil {
			return nil, fault.New(fault.Internal, "there is no loader of messages")
		}
		var err error
		if record, err = o.Read(ctx, place.at(), place.Offset); err != nil {
			return nil, unreadable(place, err)
		}
	}
	made, invalid := event.Decode(record, o.Clock.Now())
	if invalid != nil || made.Kind != event.Message {
		return nil, fault.New(fault.Invalid, "message %s:%d:%d cannot be read: it is no message", place.Topic, place.Partition, place.Offset)
	}
	return made, nil
}

func unreadable(place Place, err error) error {
	kind := fault.Kafka
	if known := (*kafka.Error)(nil); errors.As(err, &known) && known.Code == kafka.Gone {
		kind = fault.Invalid
	} else if of := (*fault.Error)(nil); errors.As(err, &of) {
		kind = of.Kind
	}
	return &fault.Error{
		Kind:  kind,
		Text:  fault.New(kind, "message %s:%d:%d cannot be read: %s", place.Topic, place.Partition, place.Offset, err).Text,
		Cause: err,
	}
}
