package disk

import (
	"sync"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb/storage"
)

// files counts the bytes of a database's files.
type files struct {
	storage.Storage
	total, own *atomic.Int64
	broken     func(op string) error

	mutex sync.Mutex
	sizes map[storage.FileDesc]int64
}

// Log hears what a database says of itself. Its errors come back from its calls.
func (f *files) Log(string) {}

func (f *files) grow(fd storage.FileDesc, by int64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if _, known := f.sizes[fd]; known || by == 0 {
		f.sizes[fd] += by
		f.total.Add(by)
		f.own.Add(by)
	}
}

func (f *files) shed(fd storage.FileDesc) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	size := f.sizes[fd]
	delete(f.sizes, fd)
	f.total.Add(-size)
	f.own.Add(-size)
}

// forget counts nothing any more.
func (f *files) forget() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for fd, size := range f.sizes {
		delete(f.sizes, fd)
		f.total.Add(-size)
		f.own.Add(-size)
	}
}

func (f *files) fault(op string) error {
	if f.broken == nil {
		return nil
	}
	return f.broken(op)
}

// Open opens a file to read.
func (f *files) Open(fd storage.FileDesc) (storage.Reader, error) {
	if err := f.fault("open"); err != nil {
		return nil, err
	}
	return f.Storage.Open(fd)
}

// Create makes a file.
func (f *files) Create(fd storage.FileDesc) (storage.Writer, error) {
	if err := f.fault("create"); err != nil {
		return nil, err
	}
	made, err := f.Storage.Create(fd)
	if err != nil {
		return nil, err
	}
	f.shed(fd)
	f.grow(fd, 0)
	return &writer{Writer: made, files: f, fd: fd}, nil
}

// Remove removes a file.
func (f *files) Remove(fd storage.FileDesc) error {
	err := f.Storage.Remove(fd)
	if err == nil {
		f.shed(fd)
	}
	return err
}

// Rename gives a file another name.
func (f *files) Rename(from, to storage.FileDesc) error {
	err := f.Storage.Rename(from, to)
	if err == nil {
		f.mutex.Lock()
		size := f.sizes[from]
		f.mutex.Unlock()
		f.shed(from)
		f.shed(to)
		f.grow(to, 0)
		f.grow(to, size)
	}
	return err
}

type writer struct {
	storage.Writer
	files *files
	fd    storage.FileDesc
}

func (w *writer) Write(b []byte) (int, error) {
	if err := w.files.fault("write"); err != nil {
		return 0, err
	}
	n, err := w.Writer.Write(b)
	w.files.grow(w.fd, int64(n))
	return n, err
}
