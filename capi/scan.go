package main

// #include "shim.h"
import "C"

import (
	"context"
	"math"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"

	"prosody/capi/internal/keyed"
	"prosody/core/state"
)

// edge is a bound of a scan of keys; nil for none.
func edge(b C.prosody_bytes, exclusive bool) *state.Edge {
	if b.data == nil {
		return nil
	}
	return &state.Edge{Key: text(b), Exclusive: exclusive}
}

func optional(b C.prosody_bytes) *string {
	if b.data == nil {
		return nil
	}
	key := text(b)
	return &key
}

func whole(number C.uint64_t) int64 { return int64(min(uint64(number), math.MaxInt64)) }

func queryOf(q *C.prosody_scan) state.Query {
	flags := q.flags
	return state.Query{
		Backward: flags&C.PROSODY_SCAN_BACKWARD != 0,
		Keys:     flags&C.PROSODY_SCAN_KEYS != 0,
		Limit:    whole(q.limit),
		Prefix:   text(q.prefix),
		First:    edge(q.first, flags&C.PROSODY_SCAN_FIRST_EXCLUSIVE != 0),
		Last:     edge(q.last, flags&C.PROSODY_SCAN_LAST_EXCLUSIVE != 0),
		Start:    optional(q.start),
		Stop:     optional(q.stop),
	}
}

func spanOf(q *C.prosody_scan) state.Span {
	flags := q.flags
	made := state.Span{Backward: flags&C.PROSODY_SCAN_BACKWARD != 0, Limit: whole(q.limit)}
	bound := func(flag, exclusive C.uint32_t, index C.uint64_t) *state.Bound {
		if flags&flag == 0 {
			return nil
		}
		return &state.Bound{Index: whole(index), Exclusive: flags&exclusive != 0}
	}
	made.First = bound(C.PROSODY_SCAN_FIRST, C.PROSODY_SCAN_FIRST_EXCLUSIVE, q.first_index)
	made.Last = bound(C.PROSODY_SCAN_LAST, C.PROSODY_SCAN_LAST_EXCLUSIVE, q.last_index)
	if start := bound(C.PROSODY_SCAN_START, 0, q.start_index); start != nil {
		made.Start = &start.Index
	}
	if stop := bound(C.PROSODY_SCAN_STOP, 0, q.stop_index); stop != nil {
		made.Stop = &stop.Index
	}
	return made
}

// streamed is what the span of a scan tells of its query.
func streamed(q *C.prosody_scan) []attribute.KeyValue {
	direction, projection := "forward", "values"
	if q.flags&C.PROSODY_SCAN_BACKWARD != 0 {
		direction = "backward"
	}
	if q.flags&C.PROSODY_SCAN_KEYS != 0 {
		projection = "presence"
	}
	return []attribute.KeyValue{attribute.String("direction", direction), attribute.String("projection", projection)}
}

//export goScanOpen
func goScanOpen(token C.uint64_t, query *C.prosody_scan, out *C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_scan_open"
	defer guard(name, e, &status)
	if !enter(name) {
		return refuse(e)
	}
	c, over := library.keyed.Find(uint64(token))
	switch {
	case over:
		return fail(e, C.PROSODY_ERR_SETTLED, keyed.Over)
	case c == nil:
		return stale(e, kindState)
	}
	held, status := hold(c, keyed.Over, e)
	if status != C.PROSODY_OK {
		return status
	}
	defer held.Return()
	span := (&action{verb: "stream"}).span(c, held)
	span.Set(func() []attribute.KeyValue { return streamed(query) })
	var scan uint64
	var err error
	if c.Positions() {
		scan, err = library.keyed.Stride(c, spanOf(query), span.Fail)
	} else {
		scan, err = library.keyed.Walk(c, queryOf(query), span.Fail)
	}
	if err != nil {
		span.Fail(err)
		return (&action{}).end(keyed.Answer{}, err, e)
	}
	*out = C.uint64_t(scan)
	return C.PROSODY_OK
}

//export goScanNext
func goScanNext(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, count *C.uint32_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_scan_next", buffer: buffer, bytes: capacity, size: size}
	defer guard(a.name, e, &status)
	if !enter(a.name) {
		return refuse(e)
	}
	s, over := library.keyed.Scan(uint64(token))
	switch {
	case over:
		return fail(e, C.PROSODY_ERR_SETTLED, "the scan is closed, or its attempt is over")
	case s == nil:
		return stale(e, "scan")
	case !s.Enter():
		return fail(e, C.PROSODY_ERR_STATE, "another call of the scan is under way")
	}
	a.do = func(ctx context.Context, _ *keyed.Collection, room int) (keyed.Answer, error) {
		if room < 0 { // in a goroutine: nobody else leaves
			defer s.Leave()
		}
		return s.Next(ctx, room)
	}
	a.hand = func(answer keyed.Answer) { *count = C.uint32_t(answer.Value) }
	status = a.run(s.Of(), keyed.Over, q, tag, e)
	if status != C.PROSODY_PENDING {
		s.Leave()
	}
	return status
}

//export goScanClose
func goScanClose(token C.uint64_t) {
	const name = "prosody_scan_close"
	var status C.prosody_status
	defer guard(name, nil, &status)
	inject(name)
	library.keyed.Close(uint64(token))
}
