package state

import (
	"context"
	"errors"

	"prosody/core/fault"
)

// Deque holds items in the order of their positions.
type Deque struct{ *base }

// mostEvictions is how many items a push evicts at most.
const mostEvictions = 256

// Append adds an item at the back.
func (h *Deque) Append(ctx context.Context, item Item) error { return h.push(ctx, item, false) }

// AppendLeft adds an item at the front.
func (h *Deque) AppendLeft(ctx context.Context, item Item) error { return h.push(ctx, item, true) }

func (h *Deque) push(ctx context.Context, item Item, left bool) error {
	return h.change(ctx, func() ([]byte, error) { return h.content(item) }, func(v *view, data []byte) error {
		head, tail := v.bounds()
		at := tail
		if left {
			at = head - 1
		}
		if err := v.put(entry{index(at), cell{data: data, until: v.until(), size: len(data), form: present}}); err != nil {
			return err
		}
		if left {
			head--
		} else {
			tail++
		}
		most := int64(v.definition.Bound())
		for n := 0; most > 0 && tail-head > most && n < mostEvictions; n++ {
			if left {
				tail--
				v.unput(index(tail))
			} else {
				v.unput(index(head))
				head++
			}
		}
		v.move(head, tail)
		return nil
	})
}

// bounds are those that the attempt sees.
func (v *view) bounds() (head, tail int64) {
	if v.pending.moved {
		return v.pending.head, v.pending.tail
	}
	return v.book.bounds(v.now)
}

func (v *view) move(head, tail int64) {
	v.pending.touched, v.pending.moved = true, true
	v.pending.head, v.pending.tail = head, tail
}

// found is an item with its index.
type found struct {
	cell
	at int64
}

// end finds the item at an end. With skip it passes by what is over.
func (v *view) end(left, skip bool) found {
	head, tail := v.bounds()
	for head < tail {
		at := tail - 1
		if left {
			at = head
		}
		c, known := v.find(index(at), true)
		if !known {
			v.left = &need{span: &span{from: index(head), to: index(tail), backward: !left}}
			return found{}
		}
		if c.form != absent || !skip {
			return found{c, at}
		}
		if left {
			head++
		} else {
			tail--
		}
	}
	return found{}
}

// Pop removes the item at the back and gives it, if there is one.
func (h *Deque) Pop(ctx context.Context) (Item, bool, error) { return h.pop(ctx, false) }

// PopLeft removes the item at the front and gives it, if there is one.
func (h *Deque) PopLeft(ctx context.Context) (Item, bool, error) { return h.pop(ctx, true) }

// pop reads the message first: one that cannot be read now is not lost. One that never
// can be read is removed all the same.
func (h *Deque) pop(ctx context.Context, left bool) (Item, bool, error) {
	for {
		there, err := act(ctx, h.base, true, func(v *view) (found, error) { return v.end(left, true), nil })
		if err != nil {
			return Item{}, false, err
		}
		var item Item
		var unread error
		if there.form != absent {
			if item, unread = h.item(ctx, there.cell); unread != nil && (errors.Is(unread, ErrPending) || fault.Of(unread) != fault.Invalid) {
				return Item{}, false, unread
			}
		}
		removed, err := act(ctx, h.base, true, func(v *view) (bool, error) {
			again := v.end(left, true)
			if v.left != nil || again.form != there.form || again.at != there.at {
				return false, nil
			}
			head, tail := v.bounds()
			switch {
			case there.form == absent:
				if head == tail {
					return true, nil
				}
				head = tail
			case left:
				head = there.at + 1
			default:
				tail = there.at
			}
			if there.form != absent {
				v.unput(index(there.at))
			}
			v.move(head, tail)
			return true, nil
		})
		if err != nil || unread != nil && removed {
			return Item{}, false, errors.Join(err, unread)
		}
		if removed {
			return item, there.form != absent, nil
		}
	}
}

// Peek gives the item at the back, if there is one that is not over.
func (h *Deque) Peek(ctx context.Context) (Item, bool, error) { return h.peek(ctx, false) }

// PeekLeft gives the item at the front, if there is one that is not over.
func (h *Deque) PeekLeft(ctx context.Context) (Item, bool, error) { return h.peek(ctx, true) }

func (h *Deque) peek(ctx context.Context, left bool) (Item, bool, error) {
	there, err := act(ctx, h.base, false, func(v *view) (found, error) { return v.end(left, false), nil })
	return h.give(ctx, there.cell, err)
}

func (h *Deque) give(ctx context.Context, c cell, err error) (Item, bool, error) {
	if err != nil || c.form == absent {
		return Item{}, false, err
	}
	item, err := h.item(ctx, c)
	return item, err == nil, err
}

// Get gives the item at a position, if there is one. A negative one counts from the back.
func (h *Deque) Get(ctx context.Context, position int64) (Item, bool, error) {
	c, err := act(ctx, h.base, false, func(v *view) (cell, error) {
		head, tail := v.bounds()
		if position >= tail-head || position < head-tail {
			return cell{}, nil
		}
		at := head + position
		if position < 0 {
			at = tail + position
		}
		c, known := v.find(index(at), true)
		if !known {
			v.lack(index(at))
		}
		return c, nil
	})
	return h.give(ctx, c, err)
}

// Size counts the positions, also of items inside that are over.
func (h *Deque) Size(ctx context.Context) (int64, error) {
	return act(ctx, h.base, false, func(v *view) (int64, error) {
		head, tail := v.bounds()
		return tail - head, nil
	})
}

// IsEmpty tells whether there is no position.
func (h *Deque) IsEmpty(ctx context.Context) (bool, error) {
	size, err := h.Size(ctx)
	return size == 0, err
}

// Clear removes all items.
func (h *Deque) Clear(ctx context.Context) error {
	return h.change(ctx, nil, func(v *view, _ []byte) error {
		_, tail := v.bounds()
		v.empty()
		v.move(tail, tail)
		return nil
	})
}
