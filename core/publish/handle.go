package publish

import (
	"context"

	"prosody/core/config"
	"prosody/core/state"
)

// Bind gives what is published of a key: a *Value, *Map, *Set or *Deque. Their operations
// are those of core/state, read only; with state.Memory they answer from what is kept.
// Each operation without a window reads anew; a scan sees the bounds that it began with.
func (r *Reader) Bind(key string) any {
	b := bound{r, key}
	switch r.identity.Kind {
	case config.KindValue:
		return &Value{b}
	case config.KindMap:
		return &Map{keys{b}}
	case config.KindSet:
		return &Set{keys{b}}
	}
	return &Deque{b}
}

type bound struct {
	reader *Reader
	key    string
}

// open gives a handle over what is known now.
func open[H state.Handle](b bound) (H, error) {
	var none H
	handle, err := b.reader.registry.Over(b.reader.record(b.key)).Bind(b.reader.identity)
	if err != nil {
		return none, err
	}
	return handle.(H), nil
}

// with calls an operation of a handle.
func with[H state.Handle, T any](b bound, call func(H) (T, error)) (T, error) {
	var none T
	handle, err := open[H](b)
	if err != nil {
		return none, err
	}
	return call(handle)
}

type found struct {
	item state.Item
	has  bool
}

// one calls an operation that gives an item.
func one[H state.Handle](b bound, call func(H) (state.Item, bool, error)) (state.Item, bool, error) {
	f, err := with(b, func(h H) (found, error) {
		item, has, err := call(h)
		return found{item, has}, err
	})
	return f.item, f.has, err
}

// Value is a published value.
type Value struct{ bound }

// Get gives the item, if there is one.
func (h *Value) Get(ctx context.Context) (state.Item, bool, error) {
	return one(h.bound, func(v *state.Value) (state.Item, bool, error) { return v.Get(ctx) })
}

// names are the operations that maps and sets share.
type names interface {
	state.Handle
	Contains(ctx context.Context, key string) (bool, error)
	ContainsMany(ctx context.Context, names []string) ([]bool, error)
	IsEmpty(ctx context.Context) (bool, error)
	Scan(query state.Query) (*state.Scan, error)
}

type keys struct{ bound }

// Contains tells whether there is a key.
func (h *keys) Contains(ctx context.Context, key string) (bool, error) {
	return with(h.bound, func(n names) (bool, error) { return n.Contains(ctx, key) })
}

// ContainsMany tells which keys there are, in their order.
func (h *keys) ContainsMany(ctx context.Context, list []string) ([]bool, error) {
	return with(h.bound, func(n names) ([]bool, error) { return n.ContainsMany(ctx, list) })
}

// IsEmpty tells whether there is no key.
func (h *keys) IsEmpty(ctx context.Context) (bool, error) {
	return with(h.bound, func(n names) (bool, error) { return n.IsEmpty(ctx) })
}

// Scan begins a scan of the keys.
func (h *keys) Scan(query state.Query) (*state.Scan, error) {
	return with(h.bound, func(n names) (*state.Scan, error) { return n.Scan(query) })
}

// Map is a published map.
type Map struct{ keys }

// Get gives the item of a key, if there is one.
func (h *Map) Get(ctx context.Context, key string) (state.Item, bool, error) {
	return one(h.bound, func(m *state.Map) (state.Item, bool, error) { return m.Get(ctx, key) })
}

// GetMany gives the items of keys in their order, nil where there is none.
func (h *Map) GetMany(ctx context.Context, list []string) ([]*state.Item, error) {
	return with(h.bound, func(m *state.Map) ([]*state.Item, error) { return m.GetMany(ctx, list) })
}

// Set is a published set.
type Set struct{ keys }

// Deque is a published deque.
type Deque struct{ bound }

// Get gives the item at a position, if there is one.
func (h *Deque) Get(ctx context.Context, position int64) (state.Item, bool, error) {
	return one(h.bound, func(d *state.Deque) (state.Item, bool, error) { return d.Get(ctx, position) })
}

// Peek gives the item at the back, if there is one.
func (h *Deque) Peek(ctx context.Context) (state.Item, bool, error) {
	return one(h.bound, func(d *state.Deque) (state.Item, bool, error) { return d.Peek(ctx) })
}

// PeekLeft gives the item at the front, if there is one.
func (h *Deque) PeekLeft(ctx context.Context) (state.Item, bool, error) {
	return one(h.bound, func(d *state.Deque) (state.Item, bool, error) { return d.PeekLeft(ctx) })
}

// Size counts the positions.
func (h *Deque) Size(ctx context.Context) (int64, error) {
	return with(h.bound, func(d *state.Deque) (int64, error) { return d.Size(ctx) })
}

// IsEmpty tells whether there is no position.
func (h *Deque) IsEmpty(ctx context.Context) (bool, error) {
	return with(h.bound, func(d *state.Deque) (bool, error) { return d.IsEmpty(ctx) })
}

// Scan begins a scan of the items.
func (h *Deque) Scan(span state.Span) (*state.Scan, error) {
	return with(h.bound, func(d *state.Deque) (*state.Scan, error) { return d.Scan(span) })
}
