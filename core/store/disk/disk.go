// Package disk owns the disk cache: what a client knows of its keys and has no room for in
// memory. It holds notes of keys, and mirrors of the rows of their collections.
//
// It upholds I4: bytes on disk are bounded, and so is the memory for writes. A note or a
// mirror is good for as long as the client owns the key and is its only writer; the caller
// watches over that. What is in a directory at its opening was left by somebody else and is
// removed, never read.
//
// Entries are in generations, each a LevelDB of its own. The oldest one goes when all are
// too large. After any error all of them go at once, so that nothing outdated can come back;
// readers then ask the store.
package disk

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/syndtr/goleveldb/leveldb"

	"prosody/core/clock"
)

// Options say where and how much. Zero values have the defaults that the comments name.
type Options struct {
	Dir    string // state_cache_dir
	Memory int64  // state_memtable_size; 64 MiB
	Bytes  int64  // state_disk_cache_size; 1 GiB
	Clock  clock.Clock
	Log    *slog.Logger

	broken func(op string) error // a fault for tests
}

// parts is how many generations fill the cache.
const parts = 4

// pause is how long the cache stays away after an error.
const pause = time.Minute

// Cache is the disk cache of one client. A nil one holds nothing.
type Cache struct {
	options Options
	bytes   atomic.Int64 // of all files
	last    atomic.Uint64
	keys    asked
	rows    asked
	faults  atomic.Int64

	mutex       sync.Mutex
	home        *home
	generations []*generation // the newest one is the last
	number      uint64
	away        time.Time // nothing is kept before
	closed      bool
}

// Open takes a directory of its own in Dir, and removes what dead processes have left there.
func Open(options Options) (*Cache, error) {
	if options.Memory <= 0 {
		options.Memory = 64 << 20
	}
	if options.Bytes <= 0 {
		options.Bytes = 1 << 30
	}
	if options.Clock == nil {
		options.Clock = clock.Real{}
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	sweep(options.Dir, options.Log)
	taken, err := take(options.Dir)
	if err != nil {
		return nil, err
	}
	return &Cache{options: options, home: taken}, nil
}

// Close removes the cache's files. Readers hear of nothing any more.
func (c *Cache) Close() error {
	if c == nil {
		return nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.clear()
	return c.home.leave()
}

// Save keeps a note of a key with the mirror of its rows, instead of an older one. False: it
// is not kept, and older ones are void.
func (c *Cache) Save(key string, note []byte, mirror *Mirror) bool {
	if c == nil {
		return false
	}
	g := c.current()
	if g == nil {
		return false
	}
	batch := &leveldb.Batch{}
	batch.Put([]byte(noteOf+key), mirror.pack(note))
	return c.write(g, batch, 1)
}

// Remove makes the note of a key void.
func (c *Cache) Remove(key string) {
	if c == nil {
		return
	}
	for _, g := range c.all() {
		batch := &leveldb.Batch{}
		batch.Delete([]byte(noteOf + key))
		if !c.write(g, batch, 0) {
			return
		}
	}
}

// Load gives the note of a key, and the mirror that was kept with it. There is none when the
// note is nil. The mirror is nil when it is gone.
func (c *Cache) Load(key string) ([]byte, *Mirror) {
	if c == nil {
		return nil, nil
	}
	note, mirror := c.load(key)
	if note == nil {
		c.keys.note(0, 1)
	} else {
		c.keys.note(1, 0)
	}
	return note, mirror
}

func (c *Cache) load(key string) ([]byte, *Mirror) {
	all := c.all()
	for i := len(all) - 1; i >= 0; i-- {
		packed, ok := c.read(all[i], []byte(noteOf+key))
		if !ok {
			return nil, nil
		}
		if packed == nil {
			continue
		}
		note, mirror, ok := c.unpack(packed, all)
		if !ok {
			c.fail(errDamaged)
		}
		return note, mirror
	}
	return nil, nil
}

// The first bytes of keys.
const (
	noteOf = "n"
	rowOf  = "r"
)

// all lists the generations, the newest one last.
func (c *Cache) all() []*generation {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.generations
}

// current gives the generation that new entries go to; nil when there is none.
func (c *Cache) current() *generation {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed || c.options.Clock.Now().Before(c.away) {
		return nil
	}
	if n := len(c.generations); n > 0 && c.generations[n-1].bytes.Load() < c.options.Bytes/parts {
		return c.generations[n-1]
	}
	g, err := c.begin()
	if err != nil {
		c.drop(err)
		return nil
	}
	return g
}

// begin makes a generation; under the mutex.
func (c *Cache) begin() (*generation, error) {
	if c.home.check() != nil {
		_ = c.home.leave()
		taken, err := take(c.options.Dir)
		if err != nil {
			return nil, err
		}
		c.home = taken
	}
	c.number++
	g, err := open(c.home.path, c.number, &c.bytes, &c.options)
	if err != nil {
		return nil, err
	}
	c.generations = append(c.generations[:len(c.generations):len(c.generations)], g)
	return g, nil
}

// read gets a value; nil when there is none. False: nobody knows.
func (c *Cache) read(g *generation, key []byte) ([]byte, bool) {
	value, err := g.get(key)
	switch {
	case err == nil:
		return value, true
	case errors.Is(err, leveldb.ErrNotFound):
		return nil, true
	case errors.Is(err, errGone):
		return nil, false
	}
	c.fail(err)
	return nil, false
}

// write applies a batch with so many entries. False: it failed, and all generations with it.
func (c *Cache) write(g *generation, batch *leveldb.Batch, entries int) bool {
	if err := g.write(batch); err != nil {
		if !errors.Is(err, errGone) {
			c.fail(err)
		}
		return false
	}
	g.entries.Add(int64(entries))
	if c.bytes.Load() > c.options.Bytes {
		c.shrink()
	}
	return true
}

// shrink drops the oldest generations while there are too many bytes.
func (c *Cache) shrink() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for len(c.generations) > 0 && c.bytes.Load() > c.options.Bytes {
		oldest := c.generations[0]
		c.generations = append([]*generation(nil), c.generations[1:]...)
		oldest.close()
	}
}

// fail drops all that is kept.
func (c *Cache) fail(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.closed && len(c.generations) > 0 {
		c.drop(err)
	}
}

// drop is under the mutex. Of faults that come right after another it says nothing.
func (c *Cache) drop(err error) {
	now := c.options.Clock.Now()
	again := !c.away.IsZero() && now.Before(c.away.Add(pause))
	c.away = now.Add(pause)
	c.faults.Add(1)
	c.clear()
	if again {
		return
	}
	c.options.Log.Warn("the disk cache has failed and begins anew after a while; reads go to the store meanwhile",
		"option", "state_cache_dir", "directory", c.home.path, "error", err)
}

func (c *Cache) clear() {
	for _, g := range c.generations {
		g.close()
	}
	c.generations = nil
}
