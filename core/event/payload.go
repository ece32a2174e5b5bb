package event

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"prosody/core/fault"
)

// Identity is what Prosody reads of a payload: the text members id and type of a
// top-level object. Other values have none. The last of equal names counts, escapes
// are decoded, and a text with half a surrogate pair counts as none.
type Identity struct {
	ID      string
	HasID   bool
	Type    string
	HasType bool
}

// CheckPayload accepts one JSON value in UTF-8, nested at most MaxDepth deep, and finds
// its identity. Half surrogate pairs in escapes are valid: payloads are not changed.
func CheckPayload(payload []byte) (Identity, error) {
	if len(payload) == 0 {
		return Identity{}, fault.New(fault.Invalid, "payload: is empty")
	}
	if !utf8.Valid(payload) {
		return Identity{}, fault.New(fault.Invalid, "payload: is not valid UTF-8")
	}
	var decoder jx.Decoder
	decoder.ResetBytes(payload)
	// With so few brackets no nesting is too deep, and the library may skip values.
	walk := walk{decoder: &decoder, flat: bytes.Count(payload, []byte("["))+bytes.Count(payload, []byte("{")) <= MaxDepth}
	if err := walk.document(); err != nil {
		return Identity{}, refuse(err)
	}
	return walk.identity(), nil
}

var errDeep = errors.New("nested too deep")

func refuse(err error) error {
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	switch {
	case errors.Is(err, errDeep):
		return fault.New(fault.Invalid, "payload: is nested more than %d deep", MaxDepth)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Invalid, "payload: is not valid JSON: it ends too early")
	}
	return fault.New(fault.Invalid, "payload: is not valid JSON: %s", err)
}

// walk reads a payload once.
type walk struct {
	decoder  *jx.Decoder
	flat     bool
	id, kind []byte // of the identity; nil: none
}

func (w *walk) document() error {
	var err error
	if w.decoder.Next() == jx.Object {
		err = w.object(0)
	} else {
		err = w.value(0)
	}
	if err != nil {
		return err
	}
	switch err := w.decoder.Skip(); err {
	case io.EOF: //nolint:errorlint // a wrapped io.EOF is a second value that ends too early
		return nil
	case nil:
		return errors.New("something follows the value")
	default:
		return err
	}
}

// value checks any value inside depth arrays and objects.
func (w *walk) value(depth int) error {
	if w.flat {
		return w.decoder.Skip()
	}
	switch w.decoder.Next() {
	case jx.Object:
		return w.object(depth)
	case jx.Array:
		return w.array(depth)
	}
	return w.decoder.Skip()
}

func (w *walk) array(depth int) error {
	if depth == MaxDepth {
		return errDeep
	}
	items, err := w.decoder.ArrIter()
	if err != nil {
		return err
	}
	for items.Next() {
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	return items.Err()
}

func (w *walk) object(depth int) error {
	if depth == MaxDepth {
		return errDeep
	}
	members, err := w.decoder.ObjIter()
	if err != nil {
		return err
	}
	for members.Next() {
		switch {
		case depth == 0 && string(members.Key()) == "id":
			w.id, err = w.text()
		case depth == 0 && string(members.Key()) == "type":
			w.kind, err = w.text()
		default:
			err = w.value(depth + 1)
		}
		if err != nil {
			return err
		}
	}
	return members.Err()
}

// text decodes a string; nil stands for any other value.
func (w *walk) text() ([]byte, error) {
	if w.decoder.Next() != jx.String {
		return nil, w.value(1)
	}
	raw, err := w.decoder.Raw()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	text, err := jx.DecodeBytes(raw).StrBytes()
	if err != nil {
		return nil, err
	}
	// The library puts U+FFFD for half a pair. Two such texts must not seem equal.
	if bytes.Contains(text, []byte("\uFFFD")) && bytes.Contains(raw, []byte(`\u`)) {
		return nil, nil
	}
	return text, nil
}

// identity keeps both texts in one block.
func (w *walk) identity() Identity {
	var scratch [128]byte
	block := string(append(append(scratch[:0], w.id...), w.kind...))
	return Identity{
		ID: block[:len(w.id)], HasID: w.id != nil,
		Type: block[len(w.id):], HasType: w.kind != nil,
	}
}
