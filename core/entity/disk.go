package entity

import (
	"encoding/binary"
	"errors"
	"slices"

	"prosody/core/kafka"
	"prosody/core/store/disk"
)

// A record that leaves memory is saved in the disk cache, with the leases under which it was
// used. It is good while all of them last: then nobody else has changed it. Only a record
// that is made anew looks there, so that memory always comes first. One that is in doubt is
// removed from the disk when it leaves memory.

// rows is the mirror of the rows of collections.
func (r *record) rows() *disk.Mirror {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.mirror
}

// mirrored begins the mirror of a record as it is in the store.
func (r *record) mirrored(root *root) *disk.Mirror {
	if root.cells {
		return r.keeper.options.Disk.Blind() // of collections without headers nothing is known
	}
	names := make([]string, 0, len(root.headers))
	for _, header := range root.headers {
		names = append(names, header.Name)
	}
	return r.keeper.options.Disk.Mirror(names)
}

func (r *record) place() string { return r.key.Topic + "\x00" + r.key.Key }

// save writes the record to the disk cache, and tells which count of changes that was. The
// record is pinned.
func (r *record) save(leases []*Lease) (changes uint64) {
	cache := r.keeper.options.Disk
	r.mutex.Lock()
	changes = r.changes
	if r.stale.Load() || !r.loaded {
		r.mutex.Unlock()
		cache.Remove(r.place())
		return changes
	}
	note, mirror := r.pack(leases), r.mirror
	r.mutex.Unlock()
	cache.Save(r.place(), note, mirror)
	return changes
}

// recall takes the record from the disk cache; with the gate.
func (r *record) recall() (c content, found bool) {
	if r.tried {
		return c, false
	}
	r.tried = true
	note, mirror := r.keeper.options.Disk.Load(r.place())
	if note == nil {
		return c, false
	}
	c, leases, err := unpack(note)
	if err != nil {
		r.keeper.options.Log.Error("an entry of the disk cache cannot be read", "topic", r.key.Topic, "error", err)
		return c, false
	}
	if !r.adopt(leases) || c.root.version != r.keeper.version {
		return content{}, false
	}
	if c.mirror = mirror; mirror == nil {
		c.mirror = r.mirrored(&c.root)
	}
	return c, true
}

// adopt puts the record under the leases that it was saved under, if all of them last.
func (r *record) adopt(leases map[int32]uint64) bool {
	k := r.keeper
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for index, number := range leases {
		if lease := k.leases[kafka.Partition{Topic: r.key.Topic, Index: index}]; lease == nil || lease.number != number {
			return false
		}
	}
	for index := range leases {
		if lease := k.leases[kafka.Partition{Topic: r.key.Topic, Index: index}]; !slices.Contains(r.leases, lease) {
			r.leases = append(r.leases, lease)
		}
	}
	return !r.gone
}

// pack is with the mutex.
func (r *record) pack(leases []*Lease) []byte {
	b := binary.AppendUvarint(nil, uint64(len(leases)))
	for _, lease := range leases {
		b = binary.AppendUvarint(b, uint64(lease.name.Index))
		b = binary.AppendUvarint(b, lease.number)
	}
	b = binary.AppendVarint(b, r.last)
	root := r.root.encode()
	b = append(binary.AppendUvarint(b, uint64(len(root))), root...)
	b = binary.AppendUvarint(b, uint64(len(r.timers)))
	for _, t := range r.timers {
		b = binary.AppendUvarint(b, uint64(t.second))
		b = append(b, flag(t.renewed))
		b = append(binary.AppendUvarint(b, uint64(len(t.trace))), t.trace...)
	}
	b = append(b, flag(r.ids.more))
	for _, one := range r.ids.order[r.ids.dead:] {
		b = append(b, one[:]...)
		b = binary.AppendVarint(b, r.ids.until[one])
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func unpack(b []byte) (c content, leases map[int32]uint64, err error) {
	p := unpacker{rest: b}
	leases = map[int32]uint64{}
	for n := p.number(); n > 0 && !p.bad; n-- {
		index := int32(p.number())
		leases[index] = p.number()
	}
	c.last = p.signed()
	if c.root, err = decodeRoot(p.bytes(p.number())); err != nil {
		return c, nil, err
	}
	for n := p.number(); n > 0 && !p.bad; n-- {
		t := timer{second: uint32(p.number()), renewed: p.flag()}
		t.trace = string(p.bytes(p.number()))
		c.timers = append(c.timers, t)
	}
	c.ids.more = p.flag()
	for len(p.rest) > 0 && !p.bad {
		var one id
		copy(one[:], p.bytes(uint64(len(one))))
		c.ids.add(one, p.signed(), 0)
	}
	if p.bad {
		return c, nil, errEntry
	}
	return c, leases, nil
}

var errEntry = errors.New("the entry is damaged")

// unpacker takes values from the front. After bad ones it gives zeros.
type unpacker struct {
	rest []byte
	bad  bool
}

func (p *unpacker) number() uint64 {
	value, size := binary.Uvarint(p.rest)
	if p.bad = p.bad || size <= 0; p.bad {
		return 0
	}
	p.rest = p.rest[size:]
	return value
}

func (p *unpacker) signed() int64 {
	value, size := binary.Varint(p.rest)
	if p.bad = p.bad || size <= 0; p.bad {
		return 0
	}
	p.rest = p.rest[size:]
	return value
}

func (p *unpacker) flag() bool { return p.number() != 0 }

func (p *unpacker) bytes(size uint64) []byte {
	if p.bad = p.bad || size > uint64(len(p.rest)); p.bad {
		return nil
	}
	taken := p.rest[:size]
	p.rest = p.rest[size:]
	return taken
}
