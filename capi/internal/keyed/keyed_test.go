package keyed

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"prosody/capi/internal/record"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/state"
)

// deque is a double-ended queue of JSON.
type deque struct {
	state.Handle
	items []string
}

func (d *deque) look(at int) (state.Item, bool, error) {
	if at < 0 || at >= len(d.items) {
		return state.Item{}, false, nil
	}
	return state.Item{JSON: []byte(d.items[at])}, true, nil
}

func (d *deque) Append(_ context.Context, item state.Item) error {
	d.items = append(d.items, string(item.JSON))
	return nil
}

func (d *deque) AppendLeft(_ context.Context, item state.Item) error {
	d.items = append([]string{string(item.JSON)}, d.items...)
	return nil
}

func (d *deque) Pop(context.Context) (state.Item, bool, error) {
	item, found, err := d.look(len(d.items) - 1)
	if found {
		d.items = d.items[:len(d.items)-1]
	}
	return item, found, err
}

func (d *deque) PopLeft(context.Context) (state.Item, bool, error) {
	item, found, err := d.look(0)
	if found {
		d.items = d.items[1:]
	}
	return item, found, err
}

func (d *deque) Peek(context.Context) (state.Item, bool, error)     { return d.look(len(d.items) - 1) }
func (d *deque) PeekLeft(context.Context) (state.Item, bool, error) { return d.look(0) }
func (d *deque) Size(context.Context) (int64, error)                { return int64(len(d.items)), nil }

func (d *deque) Get(_ context.Context, index int64) (state.Item, bool, error) {
	return d.look(int(index))
}

// binder gives deques, each once.
type binder map[string]*deque

func (b binder) Bind(identity state.Identity) (state.Handle, error) {
	if identity.Kind != "deque" {
		return nil, fault.New(fault.Unregistered, "no %s", identity.Name)
	}
	made := &deque{}
	b[identity.Name] = made
	return made, nil
}

// cursor gives entries some at a time.
type cursor struct {
	entries []state.Entry
	pending bool
	closed  int
}

func (c *cursor) Next(_ context.Context, most int) ([]state.Entry, error) {
	if c.pending {
		return nil, state.ErrPending
	}
	count := min(most, len(c.entries), 7)
	some := c.entries[:count:count]
	c.entries = c.entries[count:]
	return some, nil
}

func (c *cursor) Close() { c.closed++ }

func TestNamesEndWithTheAttempt(t *testing.T) {
	table, given := New(), binder{}
	attempt := table.Begin(5, given, nil)
	name, err := attempt.Bind(state.Identity{Name: "d", Kind: "deque"})
	require.NoError(t, err)
	again, err := attempt.Bind(state.Identity{Name: "d", Kind: "deque"})
	require.NoError(t, err)
	assert.Equal(t, name, again)
	assert.Len(t, given, 1)
	_, err = attempt.Bind(state.Identity{Name: "x", Kind: "map"})
	assert.Equal(t, fault.Unregistered, fault.Of(err))

	c, _ := table.Find(name)
	require.NotNil(t, c)
	assert.EqualValues(t, 5, c.Invocation)
	from, left := &cursor{}, &cursor{}
	closed, err := table.scan(c, from, false, func(error) {}, nil)
	require.NoError(t, err)
	open, err := table.scan(c, left, false, func(error) {}, nil)
	require.NoError(t, err)
	table.Close(closed)
	table.Close(closed)
	table.Release(name) // of an attempt: it goes on
	assert.EqualValues(t, 2, table.Used())

	attempt.Release()
	assert.Zero(t, table.Used())
	assert.Equal(t, []int{1, 1}, []int{from.closed, left.closed})
	_, stale := table.Find(name)
	assert.True(t, stale)
	_, stale = table.Scan(open)
	assert.True(t, stale)
	_, err = table.scan(c, from, false, func(error) {}, nil)
	assert.Equal(t, fault.Settled, fault.Of(err), "a call that was under way begins no scan any more")
}

func TestAReaderIsReleasedOnce(t *testing.T) {
	table, ended := New(), 0
	name := table.Open(&deque{}, state.Identity{}, func() { ended++ })
	table.Release(name)
	table.Release(name)
	table.Release(0)
	assert.Equal(t, 1, ended)
	assert.Zero(t, table.Used())
}

func TestWhatDoesNotFitIsNotTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		held := &deque{items: rapid.SliceOfN(rapid.StringMatching(`"[a-z]{0,20}"`), 0, 6).Draw(t, "items")}
		c := &Collection{handle: held}
		before := append([]string(nil), held.items...)
		front := rapid.Bool().Draw(t, "front")
		room := rapid.IntRange(-1, 24).Draw(t, "room")
		answer, err := c.Pop(t.Context(), front, room)
		require.NoError(t, err)
		at := len(before) - 1
		if front {
			at = 0
		}
		switch {
		case len(before) == 0:
			assert.True(t, answer.Absent)
		case room >= 0 && room < len(before[at]):
			assert.Equal(t, len(before[at]), answer.Short)
			assert.Equal(t, before, held.items)
		default:
			assert.Equal(t, before[at], string(answer.Data))
			assert.Len(t, held.items, len(before)-1)
		}
	})
}

func TestCallsOfOtherKinds(t *testing.T) {
	c := &Collection{handle: &deque{}}
	ctx := t.Context()
	_, err := c.Get(ctx)
	assert.ErrorIs(t, err, ErrKind)
	_, err = c.Put(ctx, "k", state.Item{})
	assert.ErrorIs(t, err, ErrKind)
	_, err = c.Contains(ctx, "k")
	assert.ErrorIs(t, err, ErrKind)
	_, err = c.Add(ctx, "k")
	assert.ErrorIs(t, err, ErrKind)
	_, err = New().Walk(c, state.Query{}, func(error) {})
	assert.ErrorIs(t, err, ErrKind)
	assert.True(t, c.Positions())
}

func TestOnlyTheOwnMessageIsKnownByItself(t *testing.T) {
	own := &event.Event{Kind: event.Message, Topic: "t", Partition: 1, Offset: 7}
	c := &Collection{own: own}
	assert.Same(t, own, c.Item(nil, state.Place{Topic: "t", Partition: 1, Offset: 7}).Message)
	other := state.Place{Topic: "t", Partition: 1, Offset: 8}
	assert.Equal(t, state.Item{Place: other}, c.Item(nil, other))
	assert.Equal(t, state.Item{JSON: []byte("1")}, c.Item([]byte("1"), other))
	own.Kind = event.Excise
	assert.Nil(t, c.Item(nil, state.Place{Topic: "t", Partition: 1, Offset: 7}).Message)
}

// unpack reads packed entries.
func unpack(t require.TestingT, data []byte) (list []string) {
	for len(data) > 0 {
		size, value, key := native.Uint32(data), native.Uint32(data[4:]), native.Uint32(data[16:])
		require.Zero(t, size%8)
		text, at := "-", uint32(EntrySize)
		if value != null {
			text = string(data[at : at+value])
			at += value
		}
		list = append(list, fmt.Sprintf("%s|%d|%s", data[at:at+key], native.Uint64(data[8:]), text))
		assert.Empty(t, strings.Trim(string(data[at+key:size]), "\x00"), "the padding is clear")
		data = data[size:]
	}
	return list
}

func TestAScanGivesEachEntryOnceWhateverTheBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.Bool().Draw(t, "keys")
		texts := rapid.SliceOfN(rapid.StringMatching(`"[a-z]{0,40}"`), 0, 40).Draw(t, "texts")
		var entries []state.Entry
		var expected []string
		for i, text := range texts {
			entries = append(entries, state.Entry{Key: fmt.Sprint("k", i), Index: int64(i), Item: state.Item{JSON: []byte(text)}})
			if keys {
				text = "-"
			}
			expected = append(expected, fmt.Sprintf("k%d|%d|%s", i, i, text))
		}
		s := &Scan{cursor: &cursor{entries: entries}, keys: keys, ended: func(error) {}}
		var found []string
		for {
			room := rapid.IntRange(-1, 300).Draw(t, "room")
			answer, err := s.Next(t.Context(), room)
			require.NoError(t, err)
			if answer.End {
				break
			}
			if answer.Short > 0 {
				require.Greater(t, answer.Short, room)
				again, err := s.Next(t.Context(), answer.Short)
				require.NoError(t, err)
				require.EqualValues(t, 1, again.Value)
				answer, room = again, answer.Short
			}
			if room >= 0 {
				require.LessOrEqual(t, len(answer.Data), room)
			}
			list := unpack(t, answer.Data)
			require.EqualValues(t, len(list), answer.Value)
			found = append(found, list...)
		}
		assert.Equal(t, expected, found)
	})
}

func TestAScanThatHasToWaitLosesNothing(t *testing.T) {
	from := &cursor{entries: []state.Entry{{Key: "a"}}, pending: true}
	s := &Scan{cursor: from, keys: true}
	require.True(t, s.Enter())
	assert.False(t, s.Enter(), "one call at a time")
	_, err := s.Next(t.Context(), 100)
	assert.ErrorIs(t, err, state.ErrPending)
	s.Leave()
	require.True(t, s.Enter())
	from.pending = false
	answer, err := s.Next(t.Context(), -1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, answer.Value)
}

func TestAnAnswerThatIsPendingIsBounded(t *testing.T) {
	large := []byte(strings.Repeat("x", mostBytes*2/3))
	s := &Scan{cursor: &cursor{entries: []state.Entry{{Item: state.Item{JSON: large}}, {Item: state.Item{JSON: large}}}}}
	for range 2 {
		answer, err := s.Next(t.Context(), -1)
		require.NoError(t, err)
		assert.EqualValues(t, 1, answer.Value)
	}
	huge := []byte(strings.Repeat("x", 3*mostBytes))
	s = &Scan{cursor: &cursor{entries: []state.Entry{{Item: state.Item{JSON: huge}}}}}
	answer, err := s.Next(t.Context(), -1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, answer.Value)
}

func TestMessagesArePackedAsTheyAreDelivered(t *testing.T) {
	of := &event.Event{Kind: event.Message, Topic: "t", Key: "k", Offset: 3, Payload: []byte("[1]")}
	expected := make([]byte, record.Message{Event: of}.Size())
	record.Message{Event: of}.Encode(expected, 0)
	assert.Equal(t, expected, bytes(&state.Item{Message: of}))
	packed := entry{key: "name", index: 9, item: &state.Item{Message: of}}.pack(nil)
	assert.Equal(t, expected, packed[EntrySize:EntrySize+len(expected)])
	assert.Equal(t, "name", string(packed[EntrySize+len(expected):EntrySize+len(expected)+4]))
	assert.Equal(t, []string{"name|9|" + string(expected)}, unpack(t, packed))
}
