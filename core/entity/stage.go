package entity

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"prosody/core/fault"
	"prosody/core/store"
)

// A change that is too large for one batch is written in chunks first. One write to the
// root decides it; then its rows are put in place and the chunks removed. Each step can
// be repeated. The writer reads the root again before it puts rows in place: another owner
// may have ended the change meanwhile. Who loads the record after a crash goes on, or removes the chunks of a
// change that was not decided. A hint makes sure that somebody loads it.

// plan is the steps of a large change.
type plan struct {
	slab  store.Slab // when somebody is to look at the record, should this writer end
	steps []store.Batch
	shown bool
	done  int
	vote  int  // the step that decides
	sure  bool // its decision holds
}

// deed is a row to write or remove, or a range to remove.
type deed struct {
	put     *store.Put
	expires int64 // in seconds; 0: never
	remove  *store.Slot
	span    *store.Range
}

const mostChunk = 1 << 20

// stage makes the plan of a draft whose batch is too large.
func (r *record) stage(d *draft, limits store.Limits, now time.Time) (*plan, error) {
	deeds := deedsOf(d.batch, now)
	packed := encodeDeeds(deeds)
	if len(packed) > MaxCommit {
		return nil, fault.New(fault.TooLarge, "an event changes %d bytes; at most %d are allowed", len(packed), MaxCommit)
	}
	p := &plan{slab: r.keeper.cover(now.Add(r.keeper.options.Recovery).Unix())}
	name := fmt.Sprintf("%016x", d.batch.Stamp)
	room := store.Batch{Puts: []store.Put{{Row: store.Row{Slot: store.Slot{Name: name, Coordinate: "1234"}}}}}.Size(r.key)
	most := min(mostChunk, limits.MaxValue, limits.MaxBatch-room)
	if most <= 0 {
		return nil, fault.New(fault.TooLarge, "a key of %d bytes leaves no room for values", len(r.key.Key))
	}
	var chunks []deed
	for rest := packed; len(rest) > 0; {
		size := min(most, len(rest))
		coordinate := string(binary.BigEndian.AppendUint32(nil, uint32(len(chunks))))
		chunks = append(chunks, deed{put: &store.Put{Row: store.Row{
			Slot: store.Slot{Kind: store.Staged, Name: name, Coordinate: coordinate}, Data: rest[:size],
		}}})
		rest = rest[size:]
	}
	// The root as it was, as decided, and as it is in the end.
	intent, decided := r.root, d.root
	intent.stamp, intent.stage = d.batch.Stamp, stage{id: d.batch.Stamp, chunks: int64(len(chunks))}
	p.steps = append(p.steps, store.Batch{Stamp: intent.stamp, Root: intent.encode()})
	p.steps = append(p.steps, split(r.key, intent.stamp, limits, now, chunks)...)
	decided.stamp, decided.stage = intent.stamp+2, intent.stage
	decided.stage.decided = true
	p.vote = len(p.steps)
	p.steps = append(p.steps, store.Batch{Stamp: decided.stamp, Root: decided.encode()})
	p.steps = append(p.steps, split(r.key, decided.stamp, limits, now, deeds)...)
	d.root.stamp = decided.stamp + 2
	last := d.batch
	last.Stamp, last.Root, last.Puts, last.Deletes = d.root.stamp, d.root.encode(), nil, nil
	last.Ranges = []store.Range{{Kind: store.Staged, Name: name}}
	p.steps = append(p.steps, last)
	r.last = d.root.stamp
	return p, nil
}

// carry does what is left of a plan.
func (r *record) carry(ctx context.Context, d *draft, stamp int64) error {
	p := d.plan
	if !p.shown {
		if err := r.hint(ctx, d.lease, p.slab, stamp); err != nil {
			return err
		}
		p.shown = true
	}
	for ; p.done < len(p.steps); p.done++ {
		if p.done == p.vote+1 && !p.sure {
			if err := r.upheld(ctx, d.lease, p.steps[p.vote].Stamp); err != nil {
				return err
			}
			p.sure = true
		}
		if err := r.apply(ctx, d.lease, p.steps[p.done]); err != nil {
			return err
		}
	}
	return nil
}

// upheld looks whether the decision holds. It does not when another owner has ended the
// change before; then its rows must not be put in place.
func (r *record) upheld(ctx context.Context, lease *Lease, stamp int64) error {
	ctx, cancel := r.keeper.bound(ctx)
	defer cancel()
	data, err := r.keeper.options.Store.Root(ctx, r.key)
	if err != nil {
		return err
	}
	is, err := decodeRoot(data)
	if err != nil {
		return fault.Wrap(fault.Store, err, "read the root of a key")
	}
	if !is.stage.decided || is.stamp != stamp {
		return revoked(lease)
	}
	return nil
}

// settle ends a change that somebody has left under way, and makes the root follow.
func (r *record) settle(ctx context.Context, lease *Lease, root *root, last int64) error {
	k := r.keeper
	now := k.options.Clock.Now()
	name := fmt.Sprintf("%016x", root.stage.id)
	k.options.Log.Warn("a large change was left under way", "topic", r.key.Topic, "decided", root.stage.decided)
	if root.stage.decided {
		packed, err := r.chunks(ctx, name, root.stage.chunks)
		if err != nil {
			return err
		}
		deeds, err := decodeDeeds(packed)
		if err != nil {
			return err
		}
		for _, step := range split(r.key, root.stamp, k.options.Store.Limits(), now, deeds) {
			if err := r.apply(ctx, lease, step); err != nil {
				return err
			}
		}
	}
	ended := *root
	ended.stage = stage{}
	ended.stamp = max(now.UnixMicro(), root.stamp+6, last+2)
	err := r.apply(ctx, lease, store.Batch{
		Stamp: ended.stamp, Root: ended.encode(), Ranges: []store.Range{{Kind: store.Staged, Name: name}},
	})
	if err == nil {
		*root = ended
	}
	return err
}

func (r *record) chunks(ctx context.Context, name string, count int64) ([]byte, error) {
	var packed []byte
	span := store.Range{Kind: store.Staged, Name: name}
	for {
		rows, more, err := r.keeper.options.Store.Scan(ctx, r.key, span, false, 4)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			packed = append(packed, row.Data...)
		}
		count -= int64(len(rows))
		if !more || len(rows) == 0 {
			break
		}
		span.From = rows[len(rows)-1].Coordinate + "\x00"
	}
	if count != 0 {
		return nil, fault.New(fault.Store, "a large change lacks %d of its chunks", count)
	}
	return packed, nil
}

// split makes batches that a store accepts.
func split(key store.Key, stamp int64, limits store.Limits, now time.Time, deeds []deed) []store.Batch {
	var batches []store.Batch
	batch, size := store.Batch{Stamp: stamp}, 0
	for _, one := range deeds {
		if one.put != nil && one.expires > 0 && one.expires <= now.Unix() {
			continue
		}
		alone := store.Batch{}
		one.join(&alone, now)
		if need := alone.Size(key); size > 0 && size+need > limits.MaxBatch {
			batches = append(batches, batch)
			batch, size = store.Batch{Stamp: stamp}, 0
		}
		one.join(&batch, now)
		size += alone.Size(key)
	}
	if size > 0 {
		batches = append(batches, batch)
	}
	return batches
}

func (d deed) join(batch *store.Batch, now time.Time) {
	switch {
	case d.put != nil:
		put := *d.put
		if d.expires > 0 {
			put.TTL = time.Unix(d.expires, 0).Sub(now)
		}
		batch.Puts = append(batch.Puts, put)
	case d.remove != nil:
		batch.Deletes = append(batch.Deletes, *d.remove)
	case d.span != nil:
		batch.Ranges = append(batch.Ranges, *d.span)
	}
}

const (
	fieldPut protowire.Number = iota + 1
	fieldDelete
	fieldRange

	fieldKind
	fieldName
	fieldFrom
	fieldTo
	fieldData
	fieldExpires
)

func deedsOf(b store.Batch, now time.Time) []deed {
	deeds := make([]deed, 0, len(b.Puts)+len(b.Deletes)+len(b.Ranges))
	for i := range b.Deletes {
		deeds = append(deeds, deed{remove: &b.Deletes[i]})
	}
	for i := range b.Ranges {
		deeds = append(deeds, deed{span: &b.Ranges[i]})
	}
	for i := range b.Puts {
		one := deed{put: &b.Puts[i]}
		if ttl := b.Puts[i].TTL; ttl > 0 && ttl <= store.MaxTTL {
			one.expires = now.Add(ttl + time.Second - 1).Unix()
		}
		deeds = append(deeds, one)
	}
	return deeds
}

func encodeDeeds(deeds []deed) []byte {
	var packed []byte
	for _, one := range deeds {
		var field protowire.Number
		var body []byte
		text := func(field protowire.Number, value string) {
			if value != "" {
				body = protowire.AppendTag(body, field, protowire.BytesType)
				body = protowire.AppendString(body, value)
			}
		}
		number := func(field protowire.Number, value int64) {
			body = protowire.AppendTag(body, field, protowire.VarintType)
			body = protowire.AppendVarint(body, uint64(value))
		}
		place := func(slot store.Slot) {
			number(fieldKind, int64(slot.Kind))
			text(fieldName, slot.Name)
			text(fieldFrom, slot.Coordinate)
		}
		switch {
		case one.put != nil:
			field = fieldPut
			place(one.put.Slot)
			number(fieldExpires, one.expires)
			body = protowire.AppendTag(body, fieldData, protowire.BytesType)
			body = protowire.AppendBytes(body, one.put.Data)
		case one.remove != nil:
			field = fieldDelete
			place(*one.remove)
		default:
			field = fieldRange
			place(store.Slot{Kind: one.span.Kind, Name: one.span.Name, Coordinate: one.span.From})
			text(fieldTo, one.span.To)
		}
		packed = protowire.AppendTag(packed, field, protowire.BytesType)
		packed = protowire.AppendBytes(packed, body)
	}
	return packed
}

func decodeDeeds(packed []byte) ([]deed, error) {
	var deeds []deed
	for len(packed) > 0 {
		field, kind, size := protowire.ConsumeTag(packed)
		if size < 0 || kind != protowire.BytesType {
			return nil, errChunks
		}
		body, length := protowire.ConsumeBytes(packed[size:])
		if length < 0 {
			return nil, errChunks
		}
		packed = packed[size+length:]
		one, err := decodeDeed(field, body)
		if err != nil {
			return nil, err
		}
		deeds = append(deeds, one)
	}
	return deeds, nil
}

var errChunks = fault.New(fault.Store, "a large change is damaged")

func decodeDeed(what protowire.Number, body []byte) (deed, error) {
	var slot store.Slot
	var to string
	data, expires := []byte{}, int64(0)
	for len(body) > 0 {
		field, kind, size := protowire.ConsumeTag(body)
		if size < 0 {
			return deed{}, errChunks
		}
		length := protowire.ConsumeFieldValue(field, kind, body[size:])
		if length < 0 {
			return deed{}, errChunks
		}
		number, _ := protowire.ConsumeVarint(body[size:])
		text, _ := protowire.ConsumeBytes(body[size:])
		switch field {
		case fieldKind:
			slot.Kind = store.Kind(number)
		case fieldName:
			slot.Name = string(text)
		case fieldFrom:
			slot.Coordinate = string(text)
		case fieldTo:
			to = string(text)
		case fieldData:
			data = text
		case fieldExpires:
			expires = int64(number)
		}
		body = body[size+length:]
	}
	switch what {
	case fieldPut:
		return deed{put: &store.Put{Row: store.Row{Slot: slot, Data: data}}, expires: expires}, nil
	case fieldDelete:
		return deed{remove: &slot}, nil
	case fieldRange:
		return deed{span: &store.Range{Kind: slot.Kind, Name: slot.Name, From: slot.Coordinate, To: to}}, nil
	}
	return deed{}, errChunks
}
