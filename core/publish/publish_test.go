package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/publish"
	"prosody/core/state"
	"prosody/core/store"
	"prosody/core/store/memory"
	"prosody/core/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type world struct {
	t        *testing.T
	clock    *clock.Manual
	memory   *memory.Store
	store    *storetest.Counter
	registry *state.Registry
	lease    *entity.Lease
}

func collections() []config.Collection {
	return []config.Collection{
		{Name: "value", Kind: "value", Payload: "json", Published: true}, {Name: "map", Kind: "map", Payload: "json", Published: true},
		{Name: "set", Kind: "set", Published: true}, {Name: "deque", Kind: "deque", Payload: "json", Published: true},
		{Name: "private", Kind: "value", Payload: "json"},
	}
}

func start(t *testing.T) *world {
	w := &world{t: t, clock: clock.NewManual(time.Unix(1_700_000_000, 0))}
	w.memory = memory.NewRegistry(memory.Settings{Clock: w.clock}).Store("x")
	w.store = storetest.Counting(w.memory)
	w.registry = state.New(state.Options{Collections: collections(), Clock: w.clock})
	keeper := entity.New(entity.Options{Store: w.memory, Group: "g", Clock: w.clock})
	w.lease = keeper.Assign(kafka.Partition{Topic: "orders", Index: 3})
	require.NoError(t, w.owner(collections()).Register(t.Context()))
	return w
}

func (w *world) owner(of []config.Collection) *publish.Owner {
	made := &publish.Owner{Catalog: w.memory, Group: "g", Subsystem: "shop", Topics: []string{"orders"}, Collections: of, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	w.t.Cleanup(made.Close)
	return made
}

// write changes the state of a key.
func (w *world) write(key string, change func(bind func(name, kind, payload string) state.Handle)) {
	e, err := w.lease.Open(w.t.Context(), key)
	require.NoError(w.t, err)
	defer e.Close()
	txn := e.Begin(nil)
	session := w.registry.Begin(txn, nil)
	change(func(name, kind, payload string) state.Handle {
		handle, err := session.Bind(state.Identity{Name: name, Kind: kind, Payload: payload})
		require.NoError(w.t, err)
		return handle
	})
	require.NoError(w.t, session.End(w.t.Context(), true))
	require.NoError(w.t, txn.Commit(w.t.Context(), entity.Mark{}))
}

func (w *world) set(key, text string) {
	w.write(key, func(bind func(name, kind, payload string) state.Handle) {
		require.NoError(w.t, bind("value", "value", "json").(*state.Value).Set(w.t.Context(), js(text)))
	})
}

func js(text string) state.Item { return state.Item{JSON: []byte(text)} }

func (w *world) readers(window time.Duration) *publish.Readers {
	return publish.New(publish.Options{Store: w.store, Catalog: w.memory, Window: window, Clock: w.clock})
}

func open[H any](w *world, readers *publish.Readers, key, name, kind, payload string) H {
	reader, err := readers.Open(" shop ", state.Identity{Name: name, Kind: kind, Payload: payload}, nil)
	require.NoError(w.t, err)
	return reader.Bind(key).(H)
}

func TestReading(t *testing.T) {
	w := start(t)
	w.write("k", func(bind func(name, kind, payload string) state.Handle) {
		require.NoError(t, bind("value", "value", "json").(*state.Value).Set(t.Context(), js(`"`+strings.Repeat("v", 5000)+`"`)))
		for i, name := range []string{"c", "a", "b"} {
			require.NoError(t, bind("map", "map", "json").(*state.Map).Set(t.Context(), name, js(fmt.Sprint(i))))
			require.NoError(t, bind("set", "set", "").(*state.Set).Add(t.Context(), name))
			require.NoError(t, bind("deque", "deque", "json").(*state.Deque).Append(t.Context(), js(fmt.Sprint(i))))
		}
	})
	for _, window := range []time.Duration{0, 5 * time.Second} {
		r := w.readers(window)
		item, found, err := open[*publish.Value](w, r, "k", "value", "value", "json").Get(t.Context())
		require.NoError(t, err)
		assert.True(t, found)
		assert.Len(t, item.JSON, 5002)
		_, found, err = open[*publish.Value](w, r, "other", "value", "value", "json").Get(t.Context())
		require.NoError(t, err)
		assert.False(t, found)
		m := open[*publish.Map](w, r, "k", "map", "map", "json")
		items, err := m.GetMany(t.Context(), []string{"b", "x", "b"})
		require.NoError(t, err)
		assert.Equal(t, "2", string(items[0].JSON))
		assert.Nil(t, items[1])
		has, err := m.ContainsMany(t.Context(), []string{"x", "a"})
		require.NoError(t, err)
		assert.Equal(t, []bool{false, true}, has)
		scan, err := m.Scan(state.Query{Backward: true})
		require.NoError(t, err)
		entries, err := scan.Next(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, entries, 3)
		assert.Equal(t, "c", entries[0].Key)
		empty, err := open[*publish.Set](w, r, "k", "set", "set", "").IsEmpty(t.Context())
		require.NoError(t, err)
		assert.False(t, empty)
		d := open[*publish.Deque](w, r, "k", "deque", "deque", "json")
		size, err := d.Size(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, size)
		item, _, err = d.Get(t.Context(), -1)
		require.NoError(t, err)
		assert.Equal(t, "2", string(item.JSON))
		item, _, err = d.PeekLeft(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "0", string(item.JSON))
		scan, err = d.Scan(state.Span{})
		require.NoError(t, err)
		entries, err = scan.Next(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, entries, 2)
	}
}

func TestWhatIsKept(t *testing.T) {
	w := start(t)
	w.set("k", "1")
	r := w.readers(5 * time.Second)
	read := func(ctx context.Context, key string) (string, error) {
		item, _, err := open[*publish.Value](w, r, key, "value", "value", "json").Get(ctx)
		return string(item.JSON), err
	}
	_, err := read(state.Memory(), "k")
	assert.ErrorIs(t, err, state.ErrPending)
	got, err := read(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "1", got)
	w.set("k", "2")
	w.clock.Advance(4 * time.Second)
	got, err = read(state.Memory(), "k")
	require.NoError(t, err)
	assert.Equal(t, "1", got)
	w.clock.Advance(time.Second)
	got, err = read(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "2", got)
	for i := range 10_000 {
		_, err := read(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
	}
	w.store.Reset()
	_, err = read(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, 1, w.store.Reads(), "what was not used is forgotten")
	never := time.Duration(0)
	reader, err := r.Open("shop", state.Identity{Name: "value", Kind: "value", Payload: "json"}, &never)
	require.NoError(t, err)
	for n := range 3 {
		w.set("k", fmt.Sprint(n))
		item, _, err := reader.Bind("k").(*publish.Value).Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(n), string(item.JSON))
	}
}

func TestWhatIsNotPublished(t *testing.T) {
	w := start(t)
	r := w.readers(0)
	value := func(subsystem, name string) error {
		reader, err := r.Open(subsystem, state.Identity{Name: name, Kind: "value", Payload: "json"}, nil)
		require.NoError(t, err)
		_, _, err = reader.Bind("k").(*publish.Value).Get(t.Context())
		return err
	}
	require.NoError(t, value("shop", "value"))
	for _, c := range [][2]string{{"nobody", "value"}, {"shop", "x"}, {"shop", "private"}, {"SHOP", "value"}} {
		err := value(c[0], c[1])
		assert.Equal(t, fault.Unpublished, fault.Of(err))
		assert.EqualError(t, err, "no publication rows for "+c[0]+"/"+c[1])
	}
	err := value("shop", "map")
	assert.Equal(t, fault.Identity, fault.Of(err))
	assert.ErrorContains(t, err, `descriptor identity mismatch for source group "g"`)
	negative := -time.Second
	for _, bad := range []func() error{
		func() error {
			_, err := r.Open("  ", state.Identity{Name: "a", Kind: "value", Payload: "json"}, nil)
			return err
		},
		func() error { _, err := r.Open("s", state.Identity{Kind: "value", Payload: "json"}, nil); return err },
		func() error {
			_, err := r.Open("s", state.Identity{Name: "a", Kind: "value", Payload: "message"}, nil)
			return err
		},
		func() error { _, err := r.Open("s", state.Identity{Name: "a", Kind: "list"}, nil); return err },
		func() error { _, err := r.Open("s", state.Identity{Name: "a", Kind: "set"}, &negative); return err },
	} {
		assert.Equal(t, fault.Argument, fault.Of(bad()))
	}
	// Retired with its next deployment; others stay.
	retired := collections()
	retired[0].Published = false
	require.NoError(t, w.owner(retired).Register(t.Context()))
	r = w.readers(0)
	assert.Equal(t, fault.Unpublished, fault.Of(value("shop", "value")))
	_, err = open[*publish.Map](w, r, "k", "map", "map", "json").IsEmpty(t.Context())
	require.NoError(t, err)
}

func TestACollectionStaysWhatItIs(t *testing.T) {
	w := start(t)
	changed := []config.Collection{{Name: "value", Kind: "map", Payload: "json"}}
	err := w.owner(changed).Register(t.Context())
	assert.Equal(t, fault.Identity, fault.Of(err))
	assert.ErrorContains(t, err, `"value" as "value json 1"`)
	assert.ErrorContains(t, err, `"map json 1"`)
}

func TestTopicsOfAPattern(t *testing.T) {
	w := start(t)
	o := w.owner(collections())
	o.Subsystem, o.Topics = "other", []string{"^ord"}
	require.NoError(t, o.Register(t.Context()))
	failures := 0
	w.memory.Fail(func(op string, _ store.Key) error {
		if op == "Publish" && failures == 0 {
			failures++
			return errors.New("down")
		}
		return nil
	})
	o.Assigned("orders")
	assert.Eventually(t, func() bool {
		w.clock.Advance(time.Second)
		list, err := w.memory.Publications(t.Context(), "other", "deque")
		return err == nil && len(list) == 1 && list[0].Topic == "orders"
	}, 2*time.Minute, time.Millisecond)
	o.Close()
	o.Assigned("more")
}

// A reader sees a queue that moves under it: never that it is empty.
func TestNeverEmptyByAccident(t *testing.T) {
	w := start(t)
	push := func(n int) {
		w.write("k", func(bind func(name, kind, payload string) state.Handle) {
			d := bind("deque", "deque", "json").(*state.Deque)
			for i := range n {
				require.NoError(t, d.Append(t.Context(), js(fmt.Sprint(i))))
			}
			for size, _ := d.Size(t.Context()); size > 2; size-- {
				_, _, err := d.PopLeft(t.Context())
				require.NoError(t, err)
			}
		})
	}
	push(2)
	moves := 0
	w.memory.Fail(func(op string, _ store.Key) error {
		if (op == "Get" || op == "Scan") && moves > 0 {
			moves--
			push(3)
		}
		return nil
	})
	r := w.readers(0)
	d := open[*publish.Deque](w, r, "k", "deque", "deque", "json")
	for range 3 {
		moves = 5
		_, found, err := d.PeekLeft(t.Context())
		require.NoError(t, err)
		assert.True(t, found)
		moves = 5
		_, found, err = d.Get(t.Context(), 1)
		require.NoError(t, err)
		assert.True(t, found)
		moves = 5
		scan, err := d.Scan(state.Span{})
		require.NoError(t, err)
		entries, err := scan.Next(t.Context(), 10)
		require.NoError(t, err)
		assert.NotEmpty(t, entries)
	}
	moves = 1000
	_, _, err := d.PeekLeft(t.Context())
	assert.Equal(t, fault.Store, fault.Of(err))
	moves = 0
}

func TestReadersDoNotTouchWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		big := func(text string) {
			w.write("k", func(bind func(name, kind, payload string) state.Handle) {
				for i := range 8 {
					require.NoError(t, bind("map", "map", "json").(*state.Map).Set(t.Context(), fmt.Sprint(i), js(`"`+text+strings.Repeat("x", 1<<20)+`"`)))
				}
			})
		}
		big("a")
		see := func() (seen string) {
			m := open[*publish.Map](w, w.readers(0), "k", "map", "map", "json")
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			items, err := m.GetMany(ctx, []string{"0", "7"})
			if err != nil {
				assert.Equal(t, fault.Store, fault.Of(err))
				return "moving"
			}
			return string(items[0].JSON[1:2]) + string(items[1].JSON[1:2])
		}
		seen := map[string]bool{}
		busy := false
		w.memory.Fail(func(op string, _ store.Key) error {
			if op == "Apply" && !busy {
				busy = true
				seen[see()] = true
				busy = false
			}
			return nil
		})
		big("b")
		seen[see()] = true
		assert.Equal(t, map[string]bool{"aa": true, "moving": true, "bb": true}, seen)
	})
}
