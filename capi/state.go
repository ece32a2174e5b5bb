package main

// #include "shim.h"
import "C"

import (
	"bytes"
	"context"
	"errors"
	"unicode/utf8"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"

	"prosody/capi/internal/keyed"
	"prosody/capi/internal/record"
	"prosody/capi/internal/slot"
	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/observe/trace"
	"prosody/core/state"
)

const kindState = "state"

// atHand is the context of calls that must not wait for the store.
var atHand = state.Memory()

// The kinds and payloads of the header, as the core calls them.
var (
	kinds = [...]string{
		C.PROSODY_KIND_VALUE: config.KindValue, C.PROSODY_KIND_MAP: config.KindMap,
		C.PROSODY_KIND_DEQUE: config.KindDeque, C.PROSODY_KIND_SET: config.KindSet,
	}
	payloads = [...]string{
		C.PROSODY_PAYLOAD_JSON: config.PayloadJSON, C.PROSODY_PAYLOAD_MESSAGE: config.PayloadMessage,
	}
)

func identity(c *C.prosody_collection) state.Identity {
	made := state.Identity{Name: text(c.name), Kind: kinds[c.kind], Payload: payloads[c.payload]}
	if made.Kind == config.KindSet {
		made.Payload = ""
	}
	return made
}

//export goStateBind
func goStateBind(invocation C.uint64_t, c *C.prosody_collection, out *C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_state_bind"
	defer guard(name, e, &status)
	if !enter(name) {
		return refuse(e)
	}
	held, verdict := library.slots.Lend(uint64(invocation))
	if held == nil {
		return unlent(verdict, keyed.Over, e)
	}
	defer held.Return()
	bound := held.Bound(library.keyed)
	if bound == nil {
		return fail(e, C.PROSODY_ERR_STATE, "keyed state needs a consumer that keeps records of keys")
	}
	token, err := bound.Bind(identity(c))
	if err != nil {
		return report(e, err)
	}
	*out = C.uint64_t(token)
	return C.PROSODY_OK
}

// unlent is the error of a call for an invocation that cannot be used.
func unlent(verdict slot.Verdict, late string, e *C.prosody_error) C.prosody_status {
	switch verdict {
	case slot.Gone:
		return fail(e, C.PROSODY_ERR_REVOKED, "the partition went to another member")
	case slot.Unknown:
		return fail(e, C.PROSODY_ERR_HANDLE, "not an invocation")
	}
	return fail(e, C.PROSODY_ERR_SETTLED, late)
}

// action is a call on a collection: what it does, and how it hands over an answer.
type action struct {
	name    string
	verb    string // of its span; empty: none
	key     string // that it is about
	keys    int    // how many it is about
	changes bool
	do      func(ctx context.Context, c *keyed.Collection, capacity int) (keyed.Answer, error)
	buffer  unsafe.Pointer
	bytes   C.size_t // the buffer's capacity
	size    *C.size_t
	hand    func(keyed.Answer) // what is no data
}

// act does it now when it need not wait, else in a goroutine.
func act(token C.uint64_t, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error, a *action) C.prosody_status {
	if !enter(a.name) {
		return refuse(e)
	}
	late := keyed.Over
	if a.changes {
		late = keyed.Settled
	}
	c, over := library.keyed.Find(uint64(token))
	switch {
	case over:
		return fail(e, C.PROSODY_ERR_SETTLED, late)
	case c == nil:
		return stale(e, kindState)
	}
	return a.run(c, late, q, tag, e)
}

func (a *action) run(c *keyed.Collection, late string, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) C.prosody_status {
	held, status := hold(c, late, e)
	if status != C.PROSODY_OK {
		return status
	}
	span := a.span(c, held)
	answer, err := a.do(atHand, c, int(a.bytes))
	if !errors.Is(err, state.ErrPending) {
		held.Return()
		if answer.Short == 0 { // else the call comes again, and this span is none
			span.Fail(err)
		}
		return a.end(answer, err, e)
	}
	queue := queueOf(q)
	if queue == nil {
		held.Return()
		return stale(e, kindQueue)
	}
	library.spawn(a.name, func() {
		defer held.Return()
		answer, err := a.do(context.Background(), c, -1)
		span.Fail(err)
		queue.Push(answered(tag, answer, err))
	})
	return C.PROSODY_PENDING
}

// span begins the span of a call.
func (a *action) span(c *keyed.Collection, held hand) trace.Span {
	tracer := library.telemetry.tracer.Load()
	if tracer == nil || a.verb == "" {
		return trace.Span{}
	}
	span := tracer.Call(held.cause(), c.Kind()+"."+a.verb)
	span.Set(func() []attribute.KeyValue {
		about := []attribute.KeyValue{attribute.String("collection", trace.Plain(c.Name()))}
		if a.key != "" {
			about = append(about, attribute.String(c.Kind()+".key", a.key))
		}
		if a.keys > 0 {
			about = append(about, attribute.Int("keys", a.keys))
		}
		return about
	})
	return span
}

// cause gives what a call belongs to.
func (h hand) cause() trace.Context {
	cause := entered()
	if !cause.IsValid() && h.slot != nil {
		cause = h.slot.Within()
	}
	return cause
}

// hold keeps the invocation of a collection from ending; a reader's has none.
func hold(c *keyed.Collection, late string, e *C.prosody_error) (hand, C.prosody_status) {
	if c.Invocation == 0 {
		return hand{}, C.PROSODY_OK
	}
	held, verdict := library.slots.Lend(c.Invocation)
	if held == nil {
		return hand{}, unlent(verdict, late, e)
	}
	return hand{held}, C.PROSODY_OK
}

type hand struct{ slot *slot.Slot }

// Return ends what hold began.
func (h hand) Return() {
	if h.slot != nil {
		h.slot.Return()
	}
}

// end hands over what a call came to.
func (a *action) end(answer keyed.Answer, err error, e *C.prosody_error) C.prosody_status {
	switch {
	case errors.Is(err, keyed.ErrKind):
		return fail(e, C.PROSODY_ERR_HANDLE, "the state is of another kind, or of a reader")
	case err != nil:
		return report(e, err)
	case answer.Short > 0:
		*a.size = C.size_t(answer.Short)
		return C.PROSODY_SHORT
	}
	if a.size != nil {
		if status := emit(answer.Data, a.buffer, a.bytes, a.size); status != C.PROSODY_OK {
			return status
		}
	}
	if a.hand != nil {
		a.hand(answer)
	}
	return code(answer)
}

func code(answer keyed.Answer) C.prosody_status {
	switch {
	case answer.Absent:
		return C.PROSODY_ABSENT
	case answer.End:
		return C.PROSODY_END
	}
	return C.PROSODY_OK
}

// answered is the completion of a call.
func answered(tag C.uint64_t, got keyed.Answer, err error) *record.Completion {
	if errors.Is(err, keyed.ErrKind) {
		err = fault.New(fault.Argument, "the state is of another kind, or of a reader")
	}
	completion := answer(tag, err)
	if err == nil {
		completion.Status = int32(code(got))
		completion.Value = got.Value
		completion.Data = unsafe.String(unsafe.SliceData(got.Data), len(got.Data)) // nobody changes it
	}
	return completion
}

// taken copies an item of the host.
func taken(from *C.prosody_item) func(*keyed.Collection) state.Item {
	if from.json.data != nil {
		json := bytes.Clone(view(from.json))
		return func(c *keyed.Collection) state.Item { return c.Item(json, state.Place{}) }
	}
	place := state.Place{Topic: text(from.topic), Partition: int32(from.partition), Offset: int64(from.offset)}
	return func(c *keyed.Collection) state.Item { return c.Item(nil, place) }
}

// keyOf copies a key of the host; false when it is not UTF-8.
func keyOf(b C.prosody_bytes) (string, bool) {
	key := text(b)
	return key, utf8.ValidString(key)
}

// keysOf copies keys of the host.
func keysOf(list *C.prosody_bytes, count C.size_t, e *C.prosody_error) ([]string, C.prosody_status) {
	keys := make([]string, int(count))
	for i, from := range unsafe.Slice(list, int(count)) {
		if !readable(from) || from.data == nil {
			return nil, fail(e, C.PROSODY_ERR_ARGUMENT, "keys: NULL, or over 1 GiB")
		}
		var valid bool
		if keys[i], valid = keyOf(from); !valid {
			return nil, unreadable(e)
		}
	}
	return keys, C.PROSODY_OK
}

func unreadable(e *C.prosody_error) C.prosody_status {
	return fail(e, C.PROSODY_ERR_INVALID, "a key is not UTF-8")
}

//export goStateEach
func goStateEach(what C.int, token C.uint64_t, q C.uintptr_t, tag C.uint64_t, e *C.prosody_error) (status C.prosody_status) {
	a := &action{}
	switch what {
	case C.SHIM_COMMIT:
		a.name, a.verb, a.changes = "prosody_state_commit", "commit", true
		a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Commit(ctx) }
	case C.SHIM_ROLLBACK:
		a.name, a.verb = "prosody_state_rollback", "rollback"
		a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Rollback(ctx) }
	case C.SHIM_CLEAR:
		a.name, a.verb, a.changes = "prosody_state_clear", "clear", true
		a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Clear(ctx) }
	default:
		a.name, a.verb = "prosody_state_empty", "is_empty"
		a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) { return c.Empty(ctx) }
	}
	defer guard(a.name, e, &status)
	status = act(token, q, tag, e, a)
	if what == C.SHIM_ROLLBACK && (status == C.PROSODY_ERR_SETTLED || status == C.PROSODY_ERR_REVOKED) {
		return C.PROSODY_ABSENT // it is all gone already
	}
	return status
}

//export goStateContains
func goStateContains(token C.uint64_t, q C.uintptr_t, tag C.uint64_t, k C.prosody_bytes, e *C.prosody_error) (status C.prosody_status) {
	a := &action{name: "prosody_state_contains", verb: "contains"}
	defer guard(a.name, e, &status)
	key, valid := keyOf(k)
	if !valid {
		return unreadable(e)
	}
	a.key = key
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.Contains(ctx, key)
	}
	return act(token, q, tag, e, a)
}

//export goStateContainsMany
func goStateContainsMany(
	token C.uint64_t, q C.uintptr_t, tag C.uint64_t, list *C.prosody_bytes, count C.size_t, found *C.uint8_t, e *C.prosody_error,
) (status C.prosody_status) {
	a := &action{name: "prosody_state_contains_many", verb: "contains_many", keys: int(count)}
	defer guard(a.name, e, &status)
	keys, status := keysOf(list, count, e)
	if status != C.PROSODY_OK {
		return status
	}
	a.do = func(ctx context.Context, c *keyed.Collection, _ int) (keyed.Answer, error) {
		return c.ContainsMany(ctx, keys)
	}
	a.hand = func(answer keyed.Answer) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(found)), int(count)), answer.Data)
	}
	return act(token, q, tag, e, a)
}

//export goStateRelease
func goStateRelease(token C.uint64_t) {
	const name = "prosody_state_release"
	var status C.prosody_status
	defer guard(name, nil, &status)
	inject(name)
	library.keyed.Release(uint64(token))
}
