package main

// #include "shim.h"
import "C"

import (
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"prosody/capi/internal/handle"
	"prosody/core/config"
)

// settings is what a host has set so far.
type settings struct {
	mutex  sync.Mutex
	source config.Source
}

// copied gives what is set now.
func (s *settings) copied() *config.Source {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.source.Clone()
}

// environment copies the environment as it is now: Go's own copy misses what the host
// has set since the library was loaded.
func environment() config.Map {
	variables := config.Map{}
	list := C.shim_environ()
	if list == nil {
		return variables
	}
	for _, pair := range unsafe.Slice(list, 1<<20) {
		if pair == nil {
			break
		}
		if name, value, ok := strings.Cut(C.GoString(pair), "="); ok {
			if _, twice := variables[name]; !twice { // getenv finds the first
				variables[name] = value
			}
		}
	}
	return variables
}

//export goOptions
func goOptions(buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_options", e, &status)
	if !enter("prosody_options") {
		return refuse(e)
	}
	return emit(config.Describe(), buffer, capacity, size)
}

//export goConfigCreate
func goConfigCreate(out *C.uintptr_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_config_create", e, &status)
	if !enter("prosody_config_create") {
		return refuse(e)
	}
	*out = C.uintptr_t(handle.Open(library.handles, kindConfig, &settings{}))
	return C.PROSODY_OK
}

// set applies a change to a configuration; name and values are text.
func set(config C.uintptr_t, e *C.prosody_error, change func(*config.Source) error, texts ...C.prosody_bytes) C.prosody_status {
	s := handle.Get[settings](library.handles, uintptr(config))
	if s == nil {
		return stale(e, kindConfig)
	}
	for i, t := range texts {
		switch {
		case t.data == nil && i == 0:
			return fail(e, C.PROSODY_ERR_ARGUMENT, "name: null")
		case t.data == nil:
			return fail(e, C.PROSODY_ERR_ARGUMENT, "value: null; prosody_config_set_none switches an option off")
		case !utf8.Valid(view(t)):
			return fail(e, C.PROSODY_ERR_ARGUMENT, "name or value: not UTF-8")
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := change(&s.source); err != nil {
		return fail(e, C.PROSODY_ERR_ARGUMENT, err.Error())
	}
	return C.PROSODY_OK
}

//export goConfigSet
func goConfigSet(c C.uintptr_t, name, value C.prosody_bytes, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_config_set", e, &status)
	if !enter("prosody_config_set") {
		return refuse(e)
	}
	return set(c, e, func(s *config.Source) error { return s.Set(text(name), text(value)) }, name, value)
}

//export goConfigSetList
func goConfigSetList(c C.uintptr_t, name C.prosody_bytes, items *C.prosody_bytes, count C.size_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_config_set_list", e, &status)
	if !enter("prosody_config_set_list") {
		return refuse(e)
	}
	texts := []C.prosody_bytes{name}
	list := make([]string, 0, int(count))
	for _, item := range unsafe.Slice(items, int(count)) {
		if !readable(item) {
			return fail(e, C.PROSODY_ERR_ARGUMENT, "item: NULL with a size, or over 1 GiB")
		}
		texts = append(texts, item)
	}
	return set(c, e, func(s *config.Source) error {
		for _, item := range texts[1:] {
			list = append(list, text(item))
		}
		return s.SetList(text(name), list)
	}, texts...)
}

//export goConfigSetNone
func goConfigSetNone(c C.uintptr_t, name C.prosody_bytes, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_config_set_none", e, &status)
	if !enter("prosody_config_set_none") {
		return refuse(e)
	}
	return set(c, e, func(s *config.Source) error { return s.SetNone(text(name)) }, name)
}

//export goConfigCheck
func goConfigCheck(c C.uintptr_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error) (status C.prosody_status) {
	defer guard("prosody_config_check", e, &status)
	if !enter("prosody_config_check") {
		return refuse(e)
	}
	s := handle.Get[settings](library.handles, uintptr(c))
	if s == nil {
		return stale(e, kindConfig)
	}
	return emit(config.Check(s.copied(), environment()), buffer, capacity, size)
}

//export goConfigDestroy
func goConfigDestroy(c C.uintptr_t) {
	var status C.prosody_status
	defer guard("prosody_config_destroy", nil, &status)
	inject("prosody_config_destroy")
	handle.Close[settings](library.handles, kindConfig, uintptr(c))
}

// readable tells whether bytes inside an array of the host can be read; api.c checks
// those that are arguments themselves.
func readable(b C.prosody_bytes) bool {
	return b.size <= largest && (b.data != nil || b.size == 0)
}

const largest = 1 << 30
