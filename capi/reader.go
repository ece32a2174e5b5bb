package main

// #include "shim.h"
import "C"

import (
	"math"
	"sync"
	"time"

	"prosody/capi/internal/handle"
	"prosody/core/publish"
	"prosody/core/state"
)

// reader is a published collection in the host's hands.
type reader struct {
	*publish.Reader

	identity state.Identity
	mutex    sync.Mutex
	gone     bool
	names    map[uint64]struct{}
}

// window is how old an answer may be; nil: as the client's option says.
func window(milliseconds C.int64_t) *time.Duration {
	if milliseconds == 0 {
		return nil
	}
	most := int64(math.MaxInt64 / time.Millisecond)
	made := time.Duration(min(max(int64(milliseconds), 0), most)) * time.Millisecond
	return &made
}

//export goReaderOpen
func goReaderOpen(c C.uintptr_t, subsystem C.prosody_bytes, collection *C.prosody_collection, out *C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_reader_open"
	defer guard(name, e, &status)
	return ask(name, c, e, func(p *peer) C.prosody_status {
		if p.core == nil {
			return report(e, p.failed)
		}
		about := identity(collection)
		opened, err := p.core.Published(text(subsystem), about, window(collection.read_cache_ms))
		if err != nil {
			return report(e, err)
		}
		made := &reader{Reader: opened, identity: about, names: map[uint64]struct{}{}}
		*out = C.uintptr_t(handle.Open(library.handles, kindReader, made))
		return C.PROSODY_OK
	})
}

//export goReaderBind
func goReaderBind(r C.uintptr_t, key C.prosody_bytes, out *C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_reader_bind"
	defer guard(name, e, &status)
	if !enter(name) {
		return refuse(e)
	}
	held := handle.Get[reader](library.handles, uintptr(r))
	if held == nil {
		return stale(e, kindReader)
	}
	wanted, valid := keyOf(key)
	if !valid {
		return unreadable(e)
	}
	held.mutex.Lock()
	defer held.mutex.Unlock()
	if held.gone {
		return stale(e, kindReader)
	}
	var made uint64
	made = library.keyed.Open(held.Bind(wanted), held.identity, func() { held.forget(made) })
	held.names[made] = struct{}{}
	*out = C.uint64_t(made)
	return C.PROSODY_OK
}

func (r *reader) forget(name uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.names, name)
}

//export goReaderDestroy
func goReaderDestroy(r C.uintptr_t) {
	const name = "prosody_reader_destroy"
	var status C.prosody_status
	defer guard(name, nil, &status)
	inject(name)
	held := handle.Close[reader](library.handles, kindReader, uintptr(r))
	if held == nil {
		return
	}
	held.mutex.Lock()
	held.gone = true
	names := held.names
	held.names = nil
	held.mutex.Unlock()
	for made := range names {
		library.keyed.Release(made)
	}
}
