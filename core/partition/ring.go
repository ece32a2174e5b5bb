package partition

// ring holds the offsets that were delivered and are not behind the watermark, in
// order. Each entry is offset<<1, plus 1 once it is done. Delivered offsets may have
// holes: only what was delivered counts.
type ring struct {
	entries []uint64 // the length is a power of two
	head    uint64   // sequence number of the oldest entry
	tail    uint64   // sequence number of the next entry
}

const (
	smallest = 64
	keep     = 4096 // an empty ring that grew beyond this is dropped
)

func (r *ring) size() int { return int(r.tail - r.head) }

// push adds an offset and returns its sequence number.
func (r *ring) push(offset int64) uint64 {
	if r.size() == len(r.entries) {
		r.grow()
	}
	sequence := r.tail
	r.entries[sequence&uint64(len(r.entries)-1)] = uint64(offset) << 1
	r.tail++
	return sequence
}

func (r *ring) grow() {
	entries := make([]uint64, max(smallest, 2*len(r.entries)))
	for s := r.head; s != r.tail; s++ {
		entries[s&uint64(len(entries)-1)] = r.entries[s&uint64(len(r.entries)-1)]
	}
	r.entries = entries
}

// done marks an entry. It returns the offset after the last one that the watermark
// passed by this, or false when it stays where it is.
func (r *ring) done(sequence uint64) (int64, bool) {
	mask := uint64(len(r.entries) - 1)
	r.entries[sequence&mask] |= 1
	position, moved := int64(0), false
	for r.head != r.tail {
		entry := r.entries[r.head&mask]
		if entry&1 == 0 {
			break
		}
		position, moved = int64(entry>>1)+1, true
		r.head++
	}
	if r.head == r.tail && len(r.entries) > keep {
		r.entries = nil
	}
	return position, moved
}
