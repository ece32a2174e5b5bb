package state

import "context"

// Value holds at most one item.
type Value struct{ *base }

// Get gives the item, if there is one.
func (h *Value) Get(ctx context.Context) (Item, bool, error) { return h.get(ctx, "") }

// Set replaces the item.
func (h *Value) Set(ctx context.Context, item Item) error { return h.set(ctx, "", item) }

// Clear removes the item.
func (h *Value) Clear(ctx context.Context) error { return h.clear(ctx) }

// get reads a cell.
func (b *base) get(ctx context.Context, coordinate string) (Item, bool, error) {
	found, err := act(ctx, b, false, func(v *view) (cell, error) {
		c, known := v.find(coordinate, true)
		if !known {
			v.lack(coordinate)
		}
		return c, nil
	})
	if err != nil || found.form == absent {
		return Item{}, false, err
	}
	item, err := b.item(ctx, found)
	return item, err == nil, err
}

// set writes a cell.
func (b *base) set(ctx context.Context, coordinate string, item Item) error {
	return b.change(ctx, func() ([]byte, error) { return b.content(item) }, func(v *view, data []byte) error {
		return v.put(entry{coordinate, cell{data: data, until: v.until(), size: len(data), form: present}})
	})
}

func (b *base) clear(ctx context.Context) error {
	return b.change(ctx, nil, func(v *view, _ []byte) error {
		v.empty()
		return nil
	})
}

// change does a mutation. What it needs is checked outside of the mutexes.
func (b *base) change(ctx context.Context, check func() ([]byte, error), work func(v *view, data []byte) error) error {
	var data []byte
	if check != nil {
		if err := b.open(); err != nil {
			return err
		}
		var err error
		if data, err = check(); err != nil {
			return err
		}
	}
	_, err := act(ctx, b, true, func(v *view) (struct{}, error) { return struct{}{}, work(v, data) })
	return err
}

// open tells that changes are not possible any more.
func (b *base) open() error {
	b.session.mutex.Lock()
	defer b.session.mutex.Unlock()
	if b.session.over {
		return errSettled()
	}
	return nil
}
