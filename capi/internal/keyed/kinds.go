package keyed

import (
	"context"

	"prosody/core/state"
)

type getter interface {
	Get(ctx context.Context) (state.Item, bool, error)
}

type mapping interface {
	Get(ctx context.Context, key string) (state.Item, bool, error)
	GetMany(ctx context.Context, keys []string) ([]*state.Item, error)
}

type keys interface {
	Contains(ctx context.Context, key string) (bool, error)
	ContainsMany(ctx context.Context, keys []string) ([]bool, error)
}

type line interface {
	Peek(ctx context.Context) (state.Item, bool, error)
	PeekLeft(ctx context.Context) (state.Item, bool, error)
	Get(ctx context.Context, index int64) (state.Item, bool, error)
	Size(ctx context.Context) (int64, error)
}

type stack interface {
	line
	Append(ctx context.Context, item state.Item) error
	AppendLeft(ctx context.Context, item state.Item) error
	Pop(ctx context.Context) (state.Item, bool, error)
	PopLeft(ctx context.Context) (state.Item, bool, error)
}

// Get reads a value.
func (c *Collection) Get(ctx context.Context) (Answer, error) {
	handle, err := call[getter](c)
	if err != nil {
		return Answer{}, err
	}
	return item(handle.Get(ctx))
}

// Set sets a value.
func (c *Collection) Set(ctx context.Context, to state.Item) (Answer, error) {
	handle, err := call[interface {
		Set(context.Context, state.Item) error
	}](c)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, handle.Set(ctx, to)
}

// At reads the value of a key.
func (c *Collection) At(ctx context.Context, key string) (Answer, error) {
	handle, err := call[mapping](c)
	if err != nil {
		return Answer{}, err
	}
	return item(handle.Get(ctx, key))
}

// Many reads the values of keys, packed.
func (c *Collection) Many(ctx context.Context, keys []string) (Answer, error) {
	handle, err := call[mapping](c)
	if err != nil {
		return Answer{}, err
	}
	items, err := handle.GetMany(ctx, keys)
	if err != nil {
		return Answer{}, err
	}
	total := 0
	for _, item := range items {
		total += entry{item: item}.size()
	}
	data := make([]byte, 0, total)
	for _, item := range items {
		data = entry{item: item}.pack(data)
	}
	return Answer{Data: data}, nil
}

// Put sets the value of a key.
func (c *Collection) Put(ctx context.Context, key string, to state.Item) (Answer, error) {
	handle, err := call[interface {
		Set(context.Context, string, state.Item) error
	}](c)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, handle.Set(ctx, key, to)
}

// Remove removes a key of a map.
func (c *Collection) Remove(ctx context.Context, key string) (Answer, error) {
	handle, err := call[interface {
		Remove(context.Context, string) error
	}](c)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, handle.Remove(ctx, key)
}

// Add adds a member.
func (c *Collection) Add(ctx context.Context, member string) (Answer, error) {
	handle, err := call[interface {
		Add(context.Context, string) error
	}](c)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, handle.Add(ctx, member)
}

// Discard removes a member.
func (c *Collection) Discard(ctx context.Context, member string) (Answer, error) {
	handle, err := call[interface {
		Discard(context.Context, string) error
	}](c)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, handle.Discard(ctx, member)
}

// Contains is Absent when a map or set lacks a key.
func (c *Collection) Contains(ctx context.Context, key string) (Answer, error) {
	handle, err := call[keys](c)
	if err != nil {
		return Answer{}, err
	}
	return yes(handle.Contains(ctx, key))
}

// ContainsMany has a byte for each key, 1 or 0.
func (c *Collection) ContainsMany(ctx context.Context, list []string) (Answer, error) {
	handle, err := call[keys](c)
	if err != nil {
		return Answer{}, err
	}
	found, err := handle.ContainsMany(ctx, list)
	if err != nil {
		return Answer{}, err
	}
	data := make([]byte, len(found))
	for i, is := range found {
		if is {
			data[i] = 1
		}
	}
	return Answer{Data: data}, nil
}

// Push adds an item at an end.
func (c *Collection) Push(ctx context.Context, front bool, added state.Item) (Answer, error) {
	handle, err := call[stack](c)
	if err != nil {
		return Answer{}, err
	}
	if front {
		return Answer{}, handle.AppendLeft(ctx, added)
	}
	return Answer{}, handle.Append(ctx, added)
}

// Peek reads the item at an end.
func (c *Collection) Peek(ctx context.Context, front bool) (Answer, error) {
	handle, err := call[line](c)
	if err != nil {
		return Answer{}, err
	}
	return peek(ctx, handle, front)
}

func peek(ctx context.Context, handle line, front bool) (Answer, error) {
	if front {
		return item(handle.PeekLeft(ctx))
	}
	return item(handle.Peek(ctx))
}

// Pop takes the item at an end, when it fits.
func (c *Collection) Pop(ctx context.Context, front bool, capacity int) (Answer, error) {
	handle, err := call[stack](c)
	if err != nil {
		return Answer{}, err
	}
	c.pops.Lock()
	defer c.pops.Unlock()
	if capacity >= 0 {
		answer, err := peek(ctx, handle, front)
		if err != nil || len(answer.Data) > capacity {
			return Answer{Short: len(answer.Data)}, err
		}
	}
	if front {
		return item(handle.PopLeft(ctx))
	}
	return item(handle.Pop(ctx))
}

// Index reads the item at an index.
func (c *Collection) Index(ctx context.Context, index int64) (Answer, error) {
	handle, err := call[line](c)
	if err != nil {
		return Answer{}, err
	}
	return item(handle.Get(ctx, index))
}

// Size counts the items of a deque.
func (c *Collection) Size(ctx context.Context) (Answer, error) {
	handle, err := call[line](c)
	if err != nil {
		return Answer{}, err
	}
	count, err := handle.Size(ctx)
	return Answer{Value: count}, err
}
