package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// generation is a part of the cache that comes and goes as a whole.
type generation struct {
	number  uint64
	path    string
	bytes   atomic.Int64
	files   *files
	entries atomic.Int64

	mutex sync.RWMutex // held while the database is in use
	db    *leveldb.DB  // nil: closed
}

var errGone = errors.New("disk: the generation is gone")

func open(dir string, number uint64, total *atomic.Int64, options *Options) (*generation, error) {
	g := &generation{number: number, path: filepath.Join(dir, fmt.Sprint(number))}
	inner, err := storage.OpenFile(g.path, false)
	if err != nil {
		return nil, err
	}
	g.files = &files{Storage: inner, total: total, own: &g.bytes, sizes: map[storage.FileDesc]int64{}, broken: options.broken}
	// Each generation has one buffer that fills and one that is written.
	buffer := min(options.Memory/(2*parts), options.Bytes/(4*parts))
	g.db, err = leveldb.Open(g.files, &opt.Options{
		NoSync:                 true, // it need not outlive a crash
		Strict:                 opt.StrictAll,
		WriteBuffer:            int(max(buffer, 64<<10)),
		CompactionTableSize:    8 << 20,
		DisableBlockCache:      true, // the system has one
		BlockCacher:            opt.NoCacher,
		OpenFilesCacheCapacity: 64,
		Filter:                 filter.NewBloomFilter(10),
		DisableSeeksCompaction: true,
	})
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// close also removes the files.
func (g *generation) close() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.db != nil {
		_ = g.db.Close() // what it could not write is not needed
		g.db = nil
	}
	_ = g.files.Close()
	g.files.forget()
	_ = os.RemoveAll(g.path)
}

func (g *generation) get(key []byte) ([]byte, error) {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	if g.db == nil {
		return nil, errGone
	}
	return g.db.Get(key, nil)
}

func (g *generation) write(batch *leveldb.Batch) error {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	if g.db == nil {
		return errGone
	}
	return g.db.Write(batch, nil)
}

// walk visits entries in [from, to) until visit returns false. It may keep what it is given.
func (g *generation) walk(from, to []byte, backward bool, visit func(key, value []byte) bool) error {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	if g.db == nil {
		return errGone
	}
	it := g.db.NewIterator(&util.Range{Start: from, Limit: to}, nil)
	defer it.Release()
	move, on := it.Next, it.First()
	if backward {
		move, on = it.Prev, it.Last()
	}
	for ; on; on = move() {
		if !visit(append([]byte(nil), it.Key()...), append([]byte(nil), it.Value()...)) {
			break
		}
	}
	return it.Error()
}

// Afterglow names a goroutine of LevelDB that goes on for a second after its end. It holds
// no more than an empty buffer.
const Afterglow = "github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"
