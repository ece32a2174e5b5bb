// Package publish owns what services see of each other's state: the catalog's entries of a
// consumer's collections, and the readers of what others have published.
//
// It upholds I4 for what readers keep, which is bounded by bytes and by time. A reader sees
// committed cells only. It answers or fails: what moves while it reads is read anew.
package publish

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/state"
	"prosody/core/store"
)

// Options say where published state is, and how long and how much of it is kept.
type Options struct {
	Store   store.Store
	Catalog store.Catalog
	Window  time.Duration // state_read_cache; 0: nothing is kept
	Bytes   int64         // state_read_cache_size; 1 MiB
	Timeout time.Duration // of one call of the store; 10 s
	Clock   clock.Clock
}

// Readers are the readers of a client.
type Readers struct {
	options Options

	mutex  sync.Mutex
	kept   map[place]*list.Element
	recent *list.List // of *record, the one used last in front
	bytes  int64
}

// place finds what is kept.
type place struct {
	subsystem string
	identity  state.Identity
	window    time.Duration
	key       string
}

// New makes a client's readers.
func New(options Options) *Readers {
	if options.Bytes <= 0 {
		options.Bytes = 1 << 20
	}
	if options.Timeout <= 0 {
		options.Timeout = 10 * time.Second
	}
	if options.Clock == nil {
		options.Clock = clock.Real{}
	}
	return &Readers{options: options, kept: map[place]*list.Element{}, recent: list.New()}
}

// Reader reads one published collection.
type Reader struct {
	readers   *Readers
	subsystem string
	identity  state.Identity
	window    time.Duration
	registry  *state.Registry

	mutex   sync.Mutex
	sources []store.Publication
	until   time.Time // for how long they count
	fixed   bool      // for ever
}

// refresh is how long publications are taken for granted.
const refresh = 5 * time.Second

// Open makes a reader. It reads nothing yet. A window of 0 keeps nothing; nil is that of
// the client.
func (r *Readers) Open(subsystem string, identity state.Identity, window *time.Duration) (*Reader, error) {
	subsystem = strings.TrimSpace(subsystem)
	switch {
	case subsystem == "":
		return nil, fault.New(fault.Argument, "subsystem name must not be empty")
	case identity.Payload == config.PayloadMessage:
		return nil, fault.New(fault.Argument, "collections of messages cannot be published")
	case window != nil && *window < 0:
		return nil, fault.New(fault.Argument, "read_cache must not be negative")
	}
	made := &Reader{readers: r, subsystem: subsystem, window: r.options.Window}
	if window != nil {
		made.window = *window
	}
	if err := made.of(identity, nil); err != nil {
		return nil, err
	}
	return made, nil
}

// of makes the reader's registry; read gives the messages of a collection of such.
func (r *Reader) of(identity state.Identity, read Read) error {
	switch {
	case strings.TrimSpace(identity.Name) == "":
		return fault.New(fault.Argument, "collection name must not be empty")
	case identity.Kind != config.KindValue && identity.Kind != config.KindMap && identity.Kind != config.KindSet && identity.Kind != config.KindDeque:
		return fault.New(fault.Argument, "kind %q is none of value, map, set and deque", identity.Kind)
	}
	r.identity = identity
	r.registry = state.New(state.Options{
		Collections: []config.Collection{{Name: identity.Name, Kind: identity.Kind, Payload: identity.Payload}},
		Read:        read, Clock: r.readers.options.Clock, Bytes: r.readers.options.Bytes,
	})
	return nil
}

// Read gives a record that was delivered.
type Read = func(ctx context.Context, at kafka.Partition, offset int64) (*kafka.Record, error)

// At makes a reader of what a group keeps for a topic, published or not, messages too. It
// keeps nothing.
func (r *Readers) At(group, topic string, identity state.Identity, read Read) (*Reader, error) {
	made := &Reader{readers: r, sources: []store.Publication{{Group: group, Topic: topic}}, fixed: true}
	if err := made.of(identity, read); err != nil {
		return nil, err
	}
	return made, nil
}

// Identity tells which collection is read.
func (r *Reader) Identity() state.Identity { return r.identity }

// find tells where the collection is published.
func (r *Reader) find(ctx context.Context) ([]store.Publication, error) {
	now := r.readers.options.Clock.Now()
	r.mutex.Lock()
	known, until := r.sources, r.until
	r.mutex.Unlock()
	if r.fixed || len(known) > 0 && now.Before(until) {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.readers.options.Timeout)
	defer cancel()
	list, err := r.readers.options.Catalog.Publications(ctx, r.subsystem, r.identity.Name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fault.New(fault.Unpublished, "no publication rows for %s/%s", r.subsystem, r.identity.Name)
	}
	for _, source := range list {
		if source.Identity != r.identity.Mark() {
			return nil, fault.New(fault.Identity, "descriptor identity mismatch for source group %q: %s/%s is %q, not %q",
				source.Group, r.subsystem, r.identity.Name, source.Identity, r.identity.Mark())
		}
	}
	r.mutex.Lock()
	r.sources, r.until = list, now.Add(refresh)
	r.mutex.Unlock()
	return list, nil
}

// record gives what is kept of a key, or a new one.
func (r *Reader) record(key string) *record {
	made := &record{reader: r, key: key, gate: make(chan struct{}, 1)}
	if r.window <= 0 {
		return made
	}
	all := r.readers
	now := all.options.Clock.Now()
	at := place{r.subsystem, r.identity, r.window, key}
	all.mutex.Lock()
	defer all.mutex.Unlock()
	if element := all.kept[at]; element != nil {
		found := element.Value.(*record)
		if !found.over(now) {
			all.recent.MoveToFront(element)
			return found
		}
		all.forget(element)
	}
	made.kept, made.at = true, at
	made.size = made.weigh()
	all.bytes += made.size
	all.kept[at] = all.recent.PushFront(made)
	all.shrink()
	return made
}

// grown counts a record anew, and tells whether all are within the bound.
func (r *Readers) grown(one *record) bool {
	size := one.weigh()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if element := r.kept[one.at]; !one.kept || element == nil || element.Value != one {
		return size <= r.options.Bytes
	}
	r.bytes += size - one.size
	one.size = size
	within := size <= r.options.Bytes
	r.shrink()
	return within
}

// shrink forgets what was not used for the longest time; under the mutex.
func (r *Readers) shrink() {
	for r.bytes > r.options.Bytes && r.recent.Len() > 1 {
		r.forget(r.recent.Back())
	}
}

func (r *Readers) forget(element *list.Element) {
	gone := r.recent.Remove(element).(*record)
	r.bytes -= gone.size
	delete(r.kept, gone.at)
}
