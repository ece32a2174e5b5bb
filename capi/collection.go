package main

// #include "shim.h"
import "C"

import (
	"context"
	"unsafe"

	"prosody/capi/internal/keyed"
)

//export goValueGet
func goValueGet(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_value_get", verb: "get", buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Get(ctx) }
	return act(token, q, tag, e, a)
}

//export goValueSet
func goValueSet(token C.uint64_t, q C.uintptr_t, tag C.uint64_t, from *C.prosody_item, e *C.prosody_error) (status C.prosody_status) {
	a := &action{name: "prosody_value_set", verb: "set", changes: true}
	defer guard(a.name, e, &status)
	give := taken(from)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.Set(ctx, give(c))
	}
	return act(token, q, tag, e, a)
}

//export goMapGet
func goMapGet(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, k C.prosody_bytes, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_map_get", verb: "get", buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	key, valid := keyOf(k)
	if !valid {
		return unreadable(e)
	}
	a.key = key
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.At(ctx, key) }
	return act(token, q, tag, e, a)
}

//export goMapGetMany
func goMapGetMany(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, list *C.prosody_bytes, count C.size_t,
	buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_map_get_many", verb: "get_many", keys: int(count), buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	keys, status := keysOf(list, count, e)
	if status != C.PROSODY_OK {
		return status
	}
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Many(ctx, keys) }
	return act(token, q, tag, e, a)
}

//export goMapSet
func goMapSet(token C.uint64_t, q C.uintptr_t, tag C.uint64_t, k C.prosody_bytes, from *C.prosody_item, e *C.prosody_error) (status C.prosody_status) {
	a := &action{name: "prosody_map_set", verb: "set", changes: true}
	defer guard(a.name, e, &status)
	key, valid := keyOf(k)
	if !valid {
		return unreadable(e)
	}
	a.key = key
	give := taken(from)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.Put(ctx, key, give(c))
	}
	return act(token, q, tag, e, a)
}

//export goKeyChange
func goKeyChange(what C.int, token C.uint64_t, q C.uintptr_t, tag C.uint64_t, k C.prosody_bytes, e *C.prosody_error) (status C.prosody_status) {
	a := &action{name: "prosody_map_remove", verb: "remove", changes: true}
	change := (*keyed.Collection).Remove
	switch what {
	case C.SHIM_ADD:
		a.name, a.verb, change = "prosody_set_add", "insert", (*keyed.Collection).Add
	case C.SHIM_DISCARD:
		a.name, a.verb, change = "prosody_set_remove", "remove", (*keyed.Collection).Discard
	}
	defer guard(a.name, e, &status)
	key, valid := keyOf(k)
	if !valid {
		return unreadable(e)
	}
	a.key = key
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return change(c, ctx, key)
	}
	return act(token, q, tag, e, a)
}

//export goDequePush
func goDequePush(token C.uint64_t, q C.uintptr_t, tag C.uint64_t, end C.int32_t, from *C.prosody_item, e *C.prosody_error) (status C.prosody_status) {
	a := &action{name: "prosody_deque_push", verb: ended("push", end), changes: true}
	defer guard(a.name, e, &status)
	give := taken(from)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.Push(ctx, end == C.PROSODY_FRONT, give(c))
	}
	return act(token, q, tag, e, a)
}

//export goDequePop
func goDequePop(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, end C.int32_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_deque_pop", verb: ended("pop", end), changes: true, buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	a.do = func(ctx context.Context, c *keyed.Collection, room int) (keyed.Answer, error) {
		return c.Pop(ctx, end == C.PROSODY_FRONT, room)
	}
	return act(token, q, tag, e, a)
}

//export goDequePeek
func goDequePeek(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, end C.int32_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_deque_peek", verb: ended("peek", end), buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.Peek(ctx, end == C.PROSODY_FRONT)
	}
	return act(token, q, tag, e, a)
}

//export goDequeGet
func goDequeGet(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, index C.int64_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_deque_get", verb: "get", buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.Index(ctx, int64(index))
	}
	return act(token, q, tag, e, a)
}

//export goDequeSize
func goDequeSize(token C.uint64_t, q C.uintptr_t, tag C.uint64_t, count *C.int64_t, e *C.prosody_error) (status C.prosody_status) {
	a := &action{name: "prosody_deque_size", verb: "len"}
	defer guard(a.name, e, &status)
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Size(ctx) }
	a.hand = func(answer keyed.Answer) { *count = C.int64_t(answer.Value) }
	return act(token, q, tag, e, a)
}

// ended names a verb at an end of a deque.
func ended(verb string, end C.int32_t) string {
	if end == C.PROSODY_FRONT {
		return verb + "_front"
	}
	return verb + "_back"
}
