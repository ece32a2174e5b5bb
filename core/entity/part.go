package entity

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"prosody/core/fault"
	"prosody/core/store"
)

// Header is a small thing that the root keeps under a name. Nil Data: there is none.
type Header struct {
	Name  string
	Data  []byte
	Until int64 // ms; what is over may be forgotten; 0: never
}

// Part is a change of rows and headers. Rows are erased and removed before they are put.
type Part struct {
	Headers []Header
	Puts    []store.Put
	Deletes []store.Slot
	Ranges  []store.Range
	// Done hears that the change is durable, before anybody reads the record anew. It must
	// not call back into the record.
	Done func()
}

func (p *Part) size() int {
	size := 0
	for _, put := range p.Puts {
		size += len(put.Data) + len(put.Name) + len(put.Coordinate)
	}
	for _, header := range p.Headers {
		size += len(header.Name) + len(header.Data)
	}
	return size
}

// Shelf is what a user of the record keeps in memory beside it. It goes when the record is
// forgotten or read anew.
type Shelf interface{ Size() int64 }

// Shelf gives the record's shelf. fill makes one from the headers where there is none. It
// is nil when the record has to be loaded first.
func (t *Txn) Shelf(fill func(headers []Header) Shelf) Shelf {
	r := t.entity.record
	if !r.fresh() {
		return nil
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.shelf == nil {
		r.shelf = fill(r.root.headers)
	}
	return r.shelf
}

// Headers lists the durable headers by name. The record has to be loaded.
func (t *Txn) Headers() []Header {
	r := t.entity.record
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.root.headers
}

// Load reads the record, unless memory can answer.
func (t *Txn) Load(ctx context.Context) error {
	return t.entity.record.ensure(ctx, t.entity.lease)
}

// Get reads rows from the store; nil where there is none.
func (t *Txn) Get(ctx context.Context, slots ...store.Slot) ([][]byte, error) {
	return t.entity.Get(ctx, slots...)
}

// Scan reads rows from the store, as Store.Scan does.
func (t *Txn) Scan(ctx context.Context, span store.Range, backward bool, limit int) ([]store.Row, bool, error) {
	r := t.entity.record
	ctx, cancel := context.WithTimeout(ctx, r.keeper.options.Timeout)
	defer cancel()
	return r.rows().Scan(ctx, span, backward, limit, func(ctx context.Context) ([]store.Row, bool, error) {
		return r.keeper.options.Store.Scan(ctx, r.key, span, backward, limit)
	})
}

// Kept gives rows of one collection where none of them has to be read from the store.
func (t *Txn) Kept(slots ...store.Slot) ([][]byte, bool) {
	return t.entity.record.rows().Kept(slots)
}

// Limits are those of the store.
func (t *Txn) Limits() store.Limits { return t.entity.record.keeper.options.Store.Limits() }

// Grown counts the bytes of the record anew, and tells whether all records together are
// within their bound.
func (t *Txn) Grown() bool {
	r := t.entity.record
	size := r.weigh()
	k := r.keeper
	k.mutex.Lock()
	if r.gone {
		k.mutex.Unlock()
		return false
	}
	k.bytes += size - r.size
	r.size = size
	k.mutex.Unlock()
	k.shrink()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.bytes <= k.options.Bytes
}

// Join buffers a change; it becomes durable with Commit.
func (t *Txn) Join(part Part) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.changes.join(part)
}

// Save makes a change durable at once.
func (t *Txn) Save(ctx context.Context, part Part) error {
	t.mutex.Lock()
	sealed := t.sealed
	t.mutex.Unlock()
	if sealed {
		return errSealed()
	}
	c := changes{agenda: agenda{firing: never}}
	if err := c.join(part); err != nil {
		return err
	}
	return t.entity.record.now(ctx, t.entity.lease, &c)
}

func (c *changes) join(part Part) error {
	if size := part.size(); c.bytes+size > MaxCommit {
		return fault.New(fault.TooLarge, "an event changes more than %d bytes", MaxCommit)
	}
	for _, span := range part.Ranges {
		c.erase(span)
	}
	for _, slot := range part.Deletes {
		c.remove(slot)
	}
	for _, put := range part.Puts {
		c.put(put)
	}
	for _, header := range part.Headers {
		if c.headers == nil {
			c.headers = map[string]Header{}
		}
		c.headers[header.Name] = header
	}
	if part.Done != nil {
		c.done = append(c.done, part.Done)
	}
	return nil
}

// label sets the headers after a change. What is over is left out.
func (d *draft) label(old []Header, changed map[string]Header, now time.Time) {
	over := func(h Header) bool { return h.Until > 0 && h.Until <= now.UnixMilli() }
	if len(changed) == 0 && !slices.ContainsFunc(old, over) {
		return
	}
	merged := make([]Header, 0, len(old)+len(changed))
	for _, header := range old {
		if _, replaced := changed[header.Name]; !replaced && !over(header) {
			merged = append(merged, header)
		}
	}
	for _, header := range changed {
		if header.Data != nil {
			merged = append(merged, header)
		}
	}
	slices.SortFunc(merged, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	d.root.headers = merged
}

// Headers reads the headers of a root as the store has it. Moving: a large change is
// decided, and its rows are on their way.
func Headers(encoded []byte) (headers []Header, moving bool, err error) {
	if encoded == nil {
		return nil, false, nil
	}
	r, err := decodeRoot(encoded)
	if err != nil {
		return nil, false, fault.Wrap(fault.Store, err, "read the root of a key")
	}
	return r.headers, r.stage.decided, nil
}

const (
	fieldLabel protowire.Number = iota + 1
	fieldContent
	fieldUntil
)

func (h Header) encode() []byte {
	b := protowire.AppendTag(nil, fieldLabel, protowire.BytesType)
	b = protowire.AppendString(b, h.Name)
	b = protowire.AppendTag(b, fieldContent, protowire.BytesType)
	b = protowire.AppendBytes(b, h.Data)
	if h.Until != 0 {
		b = protowire.AppendTag(b, fieldUntil, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(h.Until))
	}
	return b
}

func decodeHeader(b []byte) (Header, bool) {
	h := Header{Data: []byte{}}
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return h, false
		}
		length := protowire.ConsumeFieldValue(field, kind, b[size:])
		if length < 0 {
			return h, false
		}
		text, _ := protowire.ConsumeBytes(b[size:])
		switch field {
		case fieldLabel:
			h.Name = string(text)
		case fieldContent:
			h.Data = append([]byte{}, text...)
		case fieldUntil:
			number, _ := protowire.ConsumeVarint(b[size:])
			h.Until = int64(number)
		}
		b = b[size+length:]
	}
	return h, true
}
