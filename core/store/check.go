package store

import (
	"bytes"
	"unicode/utf8"

	"prosody/core/fault"
)

// CheckKey says why a store cannot hold a key; nil when it can.
func CheckKey(key Key) error {
	if size := len(key.Group) + len(key.Topic) + len(key.Key); size > MaxKey {
		return fault.New(fault.TooLarge, "group, topic and key have %d bytes, more than %d", size, MaxKey)
	}
	if !utf8.ValidString(key.Group) || !utf8.ValidString(key.Topic) {
		return fault.New(fault.Invalid, "group %q or topic %q is not UTF-8", key.Group, key.Topic)
	}
	return nil
}

// CheckSlots says why slots cannot be; nil when they can.
func CheckSlots(slots ...Slot) error {
	for i := range slots {
		if err := checkPlace(slots[i].Kind, slots[i].Name, slots[i].Coordinate); err != nil {
			return err
		}
	}
	return nil
}

// CheckRange says why a range cannot be; nil when it can.
func CheckRange(span Range) error {
	if err := checkPlace(span.Kind, span.Name, span.From); err != nil {
		return err
	}
	return checkPlace(span.Kind, span.Name, span.To)
}

func checkPlace(kind Kind, name, coordinate string) error {
	if kind <= 0 {
		return fault.New(fault.Invalid, "kind %d is not one of a row", kind)
	}
	if len(name) > MaxCoordinate || len(coordinate) > MaxCoordinate {
		return fault.New(fault.TooLarge, "a name of %d bytes with a coordinate of %d, more than %d", len(name), len(coordinate), MaxCoordinate)
	}
	if !utf8.ValidString(name) {
		return fault.New(fault.Invalid, "name %q is not UTF-8", name)
	}
	return nil
}

// CheckBatch says why a batch can never be applied; nil when it can.
func CheckBatch(key Key, batch Batch, limits Limits) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if batch.Stamp <= 0 {
		return fault.New(fault.Invalid, "stamp %d is not positive", batch.Stamp)
	}
	if batch.Root != nil && len(batch.Root) == 0 {
		return fault.New(fault.Invalid, "the root is empty")
	}
	for i := range batch.Puts {
		put := &batch.Puts[i]
		if err := CheckSlots(put.Slot); err != nil {
			return err
		}
		if len(put.Data) > limits.MaxValue {
			return fault.New(fault.TooLarge, "a value has %d bytes, more than %d", len(put.Data), limits.MaxValue)
		}
	}
	if err := CheckSlots(batch.Deletes...); err != nil {
		return err
	}
	for i := range batch.Ranges {
		if err := CheckRange(batch.Ranges[i]); err != nil {
			return err
		}
	}
	if size := batch.Size(key); size > limits.MaxBatch {
		return fault.New(fault.TooLarge, "a batch has %d bytes, more than %d", size, limits.MaxBatch)
	}
	return nil
}

// Empty says whether a batch changes nothing.
func (b Batch) Empty() bool {
	return b.Root == nil && len(b.Puts)+len(b.Deletes)+len(b.Ranges) == 0
}

// Before says whether a slot precedes another in the order of rows.
func (s Slot) Before(other Slot) bool {
	if s.Kind != other.Kind {
		return s.Kind < other.Kind
	}
	if s.Name != other.Name {
		return s.Name < other.Name
	}
	return s.Coordinate < other.Coordinate
}

// Has says whether a slot is in the range.
func (r Range) Has(s Slot) bool {
	return s.Kind == r.Kind && s.Name == r.Name && s.Coordinate >= r.From && (r.To == "" || s.Coordinate < r.To)
}

// Later says whether of two writes to one slot the second stays: the one with the higher
// stamp, or with the greater data at equal stamps.
func Later(stamp int64, data []byte, than int64, other []byte) bool {
	return stamp > than || stamp == than && bytes.Compare(data, other) >= 0
}
