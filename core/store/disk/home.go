package disk

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// home is a directory of a client's own. It is locked for as long as the process lives, so
// that others can tell it from what a dead one has left.
type home struct {
	path string
	lock *os.File
}

// Names of directories: one that is not locked yet, and one that is.
const (
	young = "new-"
	grown = "client-"
)

// youth is the most that a directory stays without its lock.
const youth = time.Hour

func take(dir string) (*home, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	name := rand.Text()
	made := filepath.Join(dir, young+name)
	if err := os.Mkdir(made, 0o700); err != nil {
		return nil, err
	}
	h := &home{path: made}
	err := h.grow(filepath.Join(dir, grown+name))
	if err != nil {
		_ = h.leave()
		return nil, err
	}
	return h, nil
}

func (h *home) grow(path string) (err error) {
	if h.lock, err = os.OpenFile(filepath.Join(h.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err = lock(h.lock); err != nil {
		return err
	}
	if err = os.Rename(h.path, path); err == nil {
		h.path = path
	}
	return err
}

func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// check tells whether the directory is still there.
func (h *home) check() error {
	_, err := os.Stat(filepath.Join(h.path, "lock"))
	return err
}

// leave removes the directory.
func (h *home) leave() error {
	err := os.RemoveAll(h.path)
	if h.lock != nil {
		_ = h.lock.Close()
	}
	return err
}

// sweep removes the directories of dead processes.
func sweep(dir string, log *slog.Logger) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // take tells why
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case !entry.IsDir():
		case strings.HasPrefix(entry.Name(), young):
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > youth {
				_ = os.RemoveAll(path)
			}
		case strings.HasPrefix(entry.Name(), grown):
			dead, err := bury(path)
			if err != nil {
				log.Warn("what a dead process has left in the disk cache cannot be removed", "directory", path, "error", err)
			} else if dead {
				log.Info("what a dead process has left in the disk cache is removed", "directory", path)
			}
		}
	}
}

// bury removes a directory unless its owner lives.
func bury(path string) (dead bool, err error) {
	file, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	if err == nil {
		defer func() { _ = file.Close() }()
		if lock(file) != nil {
			return false, nil
		}
	}
	return true, os.RemoveAll(path)
}
