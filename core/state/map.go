package state

import (
	"context"

	"prosody/core/event"
)

// keys is what maps and sets share.
type keys struct{ *base }

// Map holds items by key, in the byte order of the keys.
type Map struct{ keys }

// Set holds members, in their byte order.
type Set struct{ keys }

// Get gives the item of a key, if there is one.
func (h *Map) Get(ctx context.Context, key string) (Item, bool, error) {
	if err := event.CheckKey(key); err != nil {
		return Item{}, false, err
	}
	return h.get(ctx, key)
}

// GetMany gives the items of keys in their order, nil where there is none.
func (h *Map) GetMany(ctx context.Context, names []string) ([]*Item, error) {
	cells, err := h.look(ctx, names, true)
	if err != nil {
		return nil, err
	}
	items := make([]*Item, len(cells))
	there := make([]cell, 0, len(cells))
	for _, c := range cells {
		if c.form != absent {
			there = append(there, c)
		}
	}
	found, err := h.items(ctx, there)
	if err != nil {
		return nil, err
	}
	for i, c := range cells {
		if c.form != absent {
			items[i], found = &found[0], found[1:]
		}
	}
	return items, nil
}

// look finds the cells of keys.
func (h *keys) look(ctx context.Context, names []string, data bool) ([]cell, error) {
	for _, name := range names {
		if err := event.CheckKey(name); err != nil {
			return nil, err
		}
	}
	return act(ctx, h.base, false, func(v *view) ([]cell, error) {
		cells := make([]cell, len(names))
		for i, name := range names {
			var known bool
			if cells[i], known = v.find(name, data); !known {
				v.lack(name)
			}
		}
		return cells, nil
	})
}

// Contains tells whether there is a key. It reads no messages.
func (h *keys) Contains(ctx context.Context, key string) (bool, error) {
	found, err := h.ContainsMany(ctx, []string{key})
	return err == nil && found[0], err
}

// ContainsMany tells which keys there are, in their order.
func (h *keys) ContainsMany(ctx context.Context, names []string) ([]bool, error) {
	cells, err := h.look(ctx, names, false)
	if err != nil {
		return nil, err
	}
	found := make([]bool, len(cells))
	for i, c := range cells {
		found[i] = c.form != absent
	}
	return found, nil
}

// IsEmpty tells whether there is no key.
func (h *keys) IsEmpty(ctx context.Context) (bool, error) {
	scan, err := h.Scan(Query{Keys: true, Limit: 1})
	if err != nil {
		return false, err
	}
	entries, err := scan.Next(ctx, 1)
	return len(entries) == 0, err
}

// Set writes an item.
func (h *Map) Set(ctx context.Context, key string, item Item) error {
	if err := event.CheckKey(key); err != nil {
		return err
	}
	return h.set(ctx, key, item)
}

// Remove removes a key, if there is such a one.
func (h *Map) Remove(ctx context.Context, key string) error { return h.remove(ctx, key) }

// Clear removes all keys.
func (h *keys) Clear(ctx context.Context) error { return h.clear(ctx) }

// Add adds a member.
func (h *Set) Add(ctx context.Context, member string) error {
	if err := event.CheckKey(member); err != nil {
		return err
	}
	return h.change(ctx, nil, func(v *view, _ []byte) error {
		return v.put(entry{member, cell{data: []byte{}, until: v.until(), form: present}})
	})
}

// Discard removes a member, if there is such a one.
func (h *Set) Discard(ctx context.Context, member string) error { return h.remove(ctx, member) }

func (h *keys) remove(ctx context.Context, key string) error {
	if err := event.CheckKey(key); err != nil {
		return err
	}
	return h.change(ctx, nil, func(v *view, _ []byte) error {
		v.pending.touched = true
		known, sure := v.book.find(key)
		if v.pending.cleared || sure && known.form == absent {
			v.unput(key)
			return nil
		}
		return v.put(entry{coordinate: key})
	})
}
