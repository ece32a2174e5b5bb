package memory

import (
	"context"
	"errors"
	"sync/atomic"

	"prosody/core/fault"
	"prosody/core/store"
)

// hook is the fault that tests inject.
type hook struct {
	call atomic.Pointer[func(string, store.Key) error]
}

// Fail makes each operation ask call first, by the name of its method and its key (of
// the time index: group, topic and the hint's key). An error fails the operation before
// it did anything, or after it when wrapped by Lost. Call may wait. Nil ends it.
func (s *Store) Fail(call func(op string, key store.Key) error) {
	if call == nil {
		s.hook.call.Store(nil)
		return
	}
	s.hook.call.Store(&call)
}

// Lost marks an error of Fail: the operation happens, only its answer is lost.
func Lost(err error) error { return lost{err} }

type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// run does an operation, with its fault, unless it is invalid.
func (s *Store) run(ctx context.Context, op string, key store.Key, invalid error, work func()) error {
	if invalid != nil {
		return invalid
	}
	var err error
	if call := s.hook.call.Load(); call != nil {
		err = (*call)(op, key)
	}
	if ended := ctx.Err(); ended != nil && err == nil {
		err = ended
	}
	if err == nil {
		work()
		return nil
	}
	if after := (lost{}); errors.As(err, &after) {
		work()
		err = after.error
	}
	if known := (*fault.Error)(nil); errors.As(err, &known) {
		return err
	}
	return fault.Wrap(fault.Store, err, "store "+op)
}
