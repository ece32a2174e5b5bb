package publish

import (
	"bytes"
	"context"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/state"
	"prosody/core/store"
)

// record is a key's record of another group, as far as it was read.
type record struct {
	reader *Reader
	key    string
	kept   bool
	at     place
	size   int64         // under the mutex of all
	gate   chan struct{} // held by the one that loads

	mutex   sync.Mutex
	loaded  bool
	read    time.Time // when it was
	source  store.Key
	root    []byte
	headers []entity.Header
	shelf   entity.Shelf
	moves   int // how often it has changed while it was read
}

var _ state.Record = (*record)(nil)

// over tells that it is too old.
func (r *record) over(now time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.loaded && !now.Before(r.read.Add(r.reader.window))
}

func (r *record) weigh() int64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	size := int64(512 + len(r.key) + 2*len(r.root))
	if r.shelf != nil {
		size += r.shelf.Size()
	}
	return size
}

// Shelf is nil until the record is loaded, and after it has moved.
func (r *record) Shelf(fill func([]entity.Header) entity.Shelf) entity.Shelf {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.loaded {
		return nil
	}
	if r.shelf == nil {
		r.shelf = fill(r.headers)
	}
	return r.shelf
}

// Headers are those of the root that was read.
func (r *record) Headers() []entity.Header {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.headers
}

// Grown tells whether what is kept is within its bound.
func (r *record) Grown() bool { return r.reader.readers.grown(r) }

// Load reads the root, once.
func (r *record) Load(ctx context.Context) error {
	if err := event.CheckKey(r.key); err != nil {
		return err
	}
	select {
	case r.gate <- struct{}{}:
	case <-ctx.Done():
		return fault.Wrap(fault.Cancelled, context.Cause(ctx), "wait for published state")
	}
	defer func() { <-r.gate }()
	r.mutex.Lock()
	loaded := r.loaded
	r.mutex.Unlock()
	if loaded {
		return nil
	}
	sources, err := r.reader.find(ctx)
	if err != nil {
		return err
	}
	now := r.reader.readers.options.Clock.Now()
	var source store.Key
	var root []byte
	var headers []entity.Header
	for _, one := range sources {
		source = store.Key{Group: one.Group, Topic: one.Topic, Key: r.key}
		if root, headers, err = r.settled(ctx, source); err != nil {
			return err
		}
		if has(headers, r.reader.identity.Name, now) {
			break
		}
	}
	r.mutex.Lock()
	r.loaded, r.read, r.source, r.root, r.headers, r.shelf = true, now, source, root, headers, nil
	r.mutex.Unlock()
	r.Grown()
	return nil
}

func has(headers []entity.Header, name string, now time.Time) bool {
	for _, header := range headers {
		if header.Name == name {
			return header.Until == 0 || header.Until > now.UnixMilli()
		}
	}
	return false
}

// The wait for a large change to be in place.
const (
	pause  = 20 * time.Millisecond
	pauses = 100
)

// settled reads the root of a key when no large change is on its way.
func (r *record) settled(ctx context.Context, source store.Key) ([]byte, []entity.Header, error) {
	for n := 0; ; n++ {
		root, err := r.look(ctx, source)
		if err != nil {
			return nil, nil, err
		}
		headers, moving, err := entity.Headers(root)
		if err != nil || !moving {
			return root, headers, err
		}
		if n == pauses || clock.Sleep(ctx, clock.Real{}, pause) != nil {
			return nil, nil, fault.New(fault.Store, "a large change of the key is under way")
		}
	}
}

func (r *record) look(ctx context.Context, source store.Key) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.reader.readers.options.Timeout)
	defer cancel()
	return r.reader.readers.options.Store.Root(ctx, source)
}

// Get reads cells. One that should be there and is not makes the record be read anew.
func (r *record) Get(ctx context.Context, slots ...store.Slot) ([][]byte, error) {
	inner, cancel := context.WithTimeout(ctx, r.reader.readers.options.Timeout)
	defer cancel()
	rows, err := r.reader.readers.options.Store.Get(inner, r.where(), slots)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row == nil {
			return rows, r.verify(ctx)
		}
	}
	r.calm()
	return rows, nil
}

// Kept has nothing: cells that were read are in memory.
func (r *record) Kept(...store.Slot) ([][]byte, bool) { return nil, false }

// Scan reads cells.
func (r *record) Scan(ctx context.Context, span store.Range, backward bool, limit int) ([]store.Row, bool, error) {
	inner, cancel := context.WithTimeout(ctx, r.reader.readers.options.Timeout)
	defer cancel()
	rows, more, err := r.reader.readers.options.Store.Scan(inner, r.where(), span, backward, limit)
	if err == nil && len(rows) == 0 && r.reader.identity.Kind == config.KindDeque {
		err = r.verify(ctx)
	}
	return rows, more, err
}

func (r *record) where() store.Key {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.source
}

// calm notes that what was read was there.
func (r *record) calm() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.moves = 0
}

// most is how often a record may move while it is read.
const most = 16

// verify makes the next use read the root anew when it has changed.
func (r *record) verify(ctx context.Context) error {
	root, err := r.look(ctx, r.where())
	if err != nil {
		return err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.loaded || bytes.Equal(root, r.root) {
		r.moves = 0
		return nil
	}
	if r.moves++; r.moves > most {
		r.moves = 0
		r.loaded, r.shelf = false, nil
		return fault.New(fault.Store, "published state of the key changes faster than it can be read")
	}
	r.loaded, r.shelf = false, nil
	return nil
}

// Limits are those of the store.
func (r *record) Limits() store.Limits { return r.reader.readers.options.Store.Limits() }

// Join refuses: readers change nothing.
func (r *record) Join(entity.Part) error { return errReader() }

// Save refuses: readers change nothing.
func (r *record) Save(context.Context, entity.Part) error { return errReader() }

func errReader() error { return fault.New(fault.Internal, "published state cannot be changed") }
