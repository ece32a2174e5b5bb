package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/config"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/state"
	"prosody/core/store/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(disk.Afterglow)) }

func TestBinding(t *testing.T) {
	w := start(t, t.Context(), usual())
	a := w.begin()
	first, err := a.session.Bind(state.Identity{Name: "value", Kind: "value", Payload: "json"})
	require.NoError(t, err)
	again, err := a.session.Bind(state.Identity{Name: "value", Kind: "value", Payload: "json"})
	require.NoError(t, err)
	assert.Same(t, first, again)
	assert.Equal(t, state.Identity{Name: "value", Kind: "value", Payload: "json"}, first.Identity())
	for _, c := range []struct {
		identity state.Identity
		kind     fault.Kind
		text     string
	}{
		{state.Identity{Name: "x", Kind: "value", Payload: "json"}, fault.Unregistered, `state collection "x" is not registered`},
		{state.Identity{Name: "value", Kind: "map", Payload: "json"}, fault.Identity, `state collection identity mismatch: "value" is a value of json, not a map of json`},
		{state.Identity{Name: "last", Kind: "value", Payload: "json"}, fault.Identity, `state collection identity mismatch: "last" is a value of message, not a value of json`},
	} {
		_, err := a.session.Bind(c.identity)
		assert.Equal(t, c.kind, fault.Of(err))
		assert.EqualError(t, err, c.text)
	}
	a.fail()
	_, err = a.session.Bind(state.Identity{Name: "value", Kind: "value", Payload: "json"})
	assert.EqualError(t, err, "state access attempted on a terminated context")
	_, err = (*state.Registry)(nil).Begin(a.txn, nil).Bind(state.Identity{Name: "value"})
	assert.Equal(t, fault.Unregistered, fault.Of(err))
}

// After the attempt reads and changes fail, each in its way; nothing is changed.
func TestAfterTheAttempt(t *testing.T) {
	for _, success := range []bool{true, false} {
		w := start(t, t.Context(), usual())
		a := w.begin()
		v, m, s, d := a.value("value"), a.mapping("map"), a.set("set"), a.deque("deque")
		require.NoError(t, v.Set(t.Context(), js("1")))
		scan, err := m.Scan(state.Query{})
		require.NoError(t, err)
		if success {
			a.succeed()
		} else {
			a.fail()
		}
		reads := map[string]func(ctx context.Context) error{
			"get":  func(ctx context.Context) error { _, _, err := v.Get(ctx); return err },
			"many": func(ctx context.Context) error { _, err := m.GetMany(ctx, []string{"a"}); return err },
			"has":  func(ctx context.Context) error { _, err := s.Contains(ctx, "a"); return err },
			"size": func(ctx context.Context) error { _, err := d.Size(ctx); return err },
			"peek": func(ctx context.Context) error { _, _, err := d.Peek(ctx); return err },
			"scan": func(ctx context.Context) error { _, err := scan.Next(ctx, 1); return err },
		}
		changes := map[string]func(ctx context.Context) error{
			"set":    func(ctx context.Context) error { return v.Set(ctx, js("2")) },
			"clear":  v.Clear,
			"put":    func(ctx context.Context) error { return m.Set(ctx, "a", js("2")) },
			"remove": func(ctx context.Context) error { return m.Remove(ctx, "a") },
			"add":    func(ctx context.Context) error { return s.Add(ctx, "a") },
			"push":   func(ctx context.Context) error { return d.Append(ctx, js("2")) },
			"pop":    func(ctx context.Context) error { _, _, err := d.Pop(ctx); return err },
			"commit": func(ctx context.Context) error { _, err := v.Commit(ctx); return err },
		}
		for _, ctx := range []context.Context{t.Context(), state.Memory()} {
			for name, read := range reads {
				err := read(ctx)
				assert.Equal(t, fault.Settled, fault.Of(err), name)
				assert.EqualError(t, err, "state access attempted on a terminated context", name)
			}
			for name, change := range changes {
				err := change(ctx)
				assert.Equal(t, fault.Settled, fault.Of(err), name)
				assert.EqualError(t, err, "state mutation attempted on a settled session", name)
			}
			outcome, err := v.Rollback(ctx)
			assert.NoError(t, err)
			assert.Equal(t, state.NoOp, outcome)
		}
		w.run(func(a *attempt) {
			_, found, err := a.value("value").Get(t.Context())
			require.NoError(t, err)
			assert.Equal(t, success, found)
		})
	}
}

// What cannot be stored is refused at the call, and nothing changes.
func TestRefusals(t *testing.T) {
	w := start(t, t.Context(), usual())
	most := w.store.Limits().MaxValue
	w.run(func(a *attempt) {
		v, m, d := a.value("value"), a.mapping("map"), a.deque("deque")
		require.NoError(t, v.Set(t.Context(), js(`"kept"`)))
		for text, kind := range map[string]fault.Kind{
			"null": fault.Invalid, " null\n": fault.Invalid, "nul": fault.Invalid, "": fault.Invalid, "NaN": fault.Invalid,
			`"\xff"`: fault.Invalid, "1 2": fault.Invalid, `"` + strings.Repeat("x", most) + `"`: fault.TooLarge,
		} {
			if text == `"\xff"` {
				text = "\"\xff\""
			}
			for _, err := range []error{v.Set(t.Context(), js(text)), m.Set(t.Context(), "a", js(text)), d.Append(t.Context(), js(text)), d.AppendLeft(t.Context(), js(text))} {
				assert.Equal(t, kind, fault.Of(err), "%.20s", text)
			}
		}
		assert.EqualError(t, v.Set(t.Context(), js("null")), "JSON null is not a storable value; use clear (value/deque) or remove (map) to delete an entry")
		assert.Equal(t, fault.Argument, fault.Of(v.Set(t.Context(), state.Delivered(a.event))))
		for _, key := range []string{"\xff", strings.Repeat("k", event.MaxKey+1)} {
			assert.Equal(t, fault.Invalid, fault.Of(m.Set(t.Context(), key, js("1"))))
			assert.Equal(t, fault.Invalid, fault.Of(a.set("set").Add(t.Context(), key)))
			_, _, err := m.Get(t.Context(), key)
			assert.Equal(t, fault.Invalid, fault.Of(err))
		}
		for _, key := range []string{"", "\x00", strings.Repeat("k", event.MaxKey)} {
			require.NoError(t, m.Set(t.Context(), key, js("1")))
		}
		size, err := d.Size(t.Context())
		require.NoError(t, err)
		assert.Zero(t, size)
		item, _, err := v.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, `"kept"`, string(item.JSON))
		assert.Len(t, all(t, t.Context(), first(m.Scan(state.Query{})), nil), 3)
		_, err = m.Scan(state.Query{Limit: -1})
		assert.Equal(t, fault.Argument, fault.Of(err))
		_, err = d.Scan(state.Span{First: &state.Bound{Index: -1}})
		assert.Equal(t, fault.Argument, fault.Of(err))
	})
}

func first(scan *state.Scan, _ error) *state.Scan { return scan }

// A commit over 64 MiB is refused before anything of it is written.
func TestTheLargestCommit(t *testing.T) {
	w := start(t, t.Context(), usual())
	text := `"` + strings.Repeat("x", 3<<20) + `"`
	a := w.begin()
	m, refused := a.mapping("map"), 0
	for i := range 25 {
		if err := m.Set(t.Context(), fmt.Sprint(i), js(text)); err != nil {
			assert.Equal(t, fault.TooLarge, fault.Of(err))
			refused++
		}
	}
	assert.Equal(t, 4, refused)
	assert.Zero(t, w.store.Writes())
	a.succeed()
	w.assign()
	w.run(func(a *attempt) {
		assert.Len(t, all(t, t.Context(), first(a.mapping("map").Scan(state.Query{})), nil), 21)
	})
}

func TestCellsEnd(t *testing.T) {
	w := start(t, t.Context(), usual())
	write := func(a *attempt) {
		require.NoError(t, a.value("brief").Set(t.Context(), js("1")))
		require.NoError(t, a.mapping("briefs").Set(t.Context(), "a", js("1")))
		require.NoError(t, a.deque("fading").Append(t.Context(), js("1")))
	}
	see := func(there bool) {
		w.run(func(a *attempt) {
			_, found, err := a.value("brief").Get(t.Context())
			require.NoError(t, err)
			assert.Equal(t, there, found)
			_, found, err = a.mapping("briefs").Get(t.Context(), "a")
			require.NoError(t, err)
			assert.Equal(t, there, found)
			assert.Equal(t, there, len(all(t, t.Context(), first(a.mapping("briefs").Scan(state.Query{})), nil)) > 0)
			_, found, err = a.deque("fading").Peek(t.Context())
			require.NoError(t, err)
			assert.Equal(t, there, found)
			assert.Equal(t, there, len(all(t, t.Context(), first(a.deque("fading").Scan(state.Span{})), nil)) > 0)
		})
	}
	for _, elsewhere := range []bool{false, true} {
		w.run(write)
		w.clock.Advance(1900 * time.Millisecond)
		if elsewhere {
			w.assign()
		}
		see(true)
		w.clock.Advance(100 * time.Millisecond)
		see(false)
		if elsewhere {
			w.assign()
		}
		see(false)
		w.run(write)
		see(true)
		w.run(func(a *attempt) {
			assert.Len(t, all(t, t.Context(), first(a.deque("fading").Scan(state.Span{})), nil), 1)
		})
		w.clock.Advance(3 * time.Second)
	}
	// Items that are over are passed by.
	w.run(write)
	w.clock.Advance(1500 * time.Millisecond)
	w.run(func(a *attempt) { require.NoError(t, a.deque("fading").Append(t.Context(), js("2"))) })
	w.clock.Advance(time.Second)
	w.assign()
	w.run(func(a *attempt) {
		_, found, err := a.deque("fading").PeekLeft(t.Context())
		require.NoError(t, err)
		assert.False(t, found)
		item, _, err := a.deque("fading").PopLeft(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "2", string(item.JSON))
		empty, err := a.deque("fading").IsEmpty(t.Context())
		require.NoError(t, err)
		assert.True(t, empty)
	})
}

func TestMessages(t *testing.T) {
	w := start(t, t.Context(), usual())
	var stored *event.Event
	handles := func(a *attempt) (*state.Value, *state.Map, *state.Deque) {
		return bind[*state.Value](a, "value", "message", "last"), bind[*state.Map](a, "map", "message", "named"), bind[*state.Deque](a, "deque", "message", "backlog")
	}
	w.run(func(a *attempt) {
		stored = a.event
		v, m, d := handles(a)
		require.NoError(t, v.Set(t.Context(), state.Delivered(a.event)))
		require.NoError(t, m.Set(t.Context(), "it", state.Delivered(a.event)))
		require.NoError(t, d.Append(t.Context(), state.Delivered(a.event)))
		item, found, err := v.Get(state.Memory())
		require.NoError(t, err)
		require.True(t, found)
		assert.Same(t, a.event, item.Message)
		for _, bad := range []state.Item{js("1"), {}, {Place: state.Place{Topic: "orders", Offset: -1}}, {Message: &event.Event{Kind: event.Timer}}} {
			assert.Equal(t, fault.Argument, fault.Of(v.Set(t.Context(), bad)))
		}
	})
	w.assign()
	w.run(func(a *attempt) {
		v, m, d := handles(a)
		item, found, err := v.Get(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, stored, item.Message)
		require.NoError(t, m.Set(t.Context(), "copy", item))
		items, err := m.GetMany(t.Context(), []string{"copy", "x", "it"})
		require.NoError(t, err)
		assert.Equal(t, stored, items[0].Message)
		assert.Nil(t, items[1])
		entries := all(t, t.Context(), first(d.Scan(state.Span{})), nil)
		require.Len(t, entries, 1)
		assert.Equal(t, stored, entries[0].Item.Message)
	})
	delete(w.records, stored.Offset)
	w.run(func(a *attempt) {
		v, m, d := handles(a)
		_, _, err := v.Get(t.Context())
		assert.Equal(t, fault.Invalid, fault.Of(err))
		assert.ErrorContains(t, err, fmt.Sprintf("message orders:3:%d cannot be read", stored.Offset))
		has, err := m.Contains(t.Context(), "it")
		require.NoError(t, err)
		assert.True(t, has)
		assert.Len(t, all(t, t.Context(), first(m.Scan(state.Query{Keys: true})), nil), 2)
		_, _, err = d.PopLeft(t.Context())
		assert.Equal(t, fault.Invalid, fault.Of(err))
		size, err := d.Size(t.Context())
		require.NoError(t, err)
		assert.Zero(t, size, "one that is gone for ever is removed")
	})
}

// Capacity is enforced by pushes, step by step.
func TestCapacityShrinks(t *testing.T) {
	w := start(t, t.Context(), []config.Collection{of("deque", "json", "deque")})
	w.run(func(a *attempt) {
		for i := range 1000 {
			require.NoError(t, a.deque("deque").Append(t.Context(), js(fmt.Sprint(i))))
		}
	})
	w.define([]config.Collection{of("deque", "json", "deque", capacity(2))})
	sizes := []int64{}
	w.run(func(a *attempt) {
		for i := range 5 {
			require.NoError(t, a.deque("deque").Append(state.Memory(), js(fmt.Sprint(1000+i))))
			size, err := a.deque("deque").Size(t.Context())
			require.NoError(t, err)
			sizes = append(sizes, size)
		}
	})
	assert.Equal(t, []int64{745, 490, 235, 2, 2}, sizes)
}

func TestCommitAndRollback(t *testing.T) {
	w := start(t, t.Context(), usual())
	a := w.begin()
	v, m := a.value("value"), a.mapping("map")
	is := func(want state.Outcome, got state.Outcome, err error) {
		t.Helper()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	check := func(want state.Outcome) func(state.Outcome, error) {
		return func(got state.Outcome, err error) { t.Helper(); is(want, got, err) }
	}
	check(state.NoOp)(v.Commit(state.Memory()))
	check(state.NoOp)(v.Rollback(state.Memory()))
	require.NoError(t, v.Set(t.Context(), js("1")))
	require.NoError(t, m.Set(t.Context(), "a", js("1")))
	_, err := v.Commit(state.Memory())
	assert.ErrorIs(t, err, state.ErrPending)
	check(state.Applied)(v.Commit(t.Context()))
	check(state.NoOp)(v.Commit(t.Context()))
	require.NoError(t, v.Set(t.Context(), js("2")))
	check(state.Applied)(v.Rollback(state.Memory()))
	item, _, err := v.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "1", string(item.JSON))
	a.fail()
	w.assign()
	w.run(func(a *attempt) {
		item, _, err := a.value("value").Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "1", string(item.JSON))
		empty, err := a.mapping("map").IsEmpty(t.Context())
		require.NoError(t, err)
		assert.True(t, empty)
	})
	// A commit of a partition that is given up fails, and so does what comes after.
	a = w.begin()
	require.NoError(t, a.value("value").Set(t.Context(), js("3")))
	w.lease.Fence()
	_, err = a.value("value").Commit(t.Context())
	assert.Equal(t, fault.Revoked, fault.Of(err))
	require.NoError(t, a.session.End(t.Context(), true))
	assert.Equal(t, fault.Revoked, fault.Of(a.txn.Commit(t.Context(), entity.Mark{Event: a.event})))
	a.txn.Discard()
}
