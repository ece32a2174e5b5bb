package state_test

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"prosody/core/config"
	"prosody/core/state"
)

func (m *model) deque() {
	name := []string{"deque", "bounded"}[m.dice.IntN(2)]
	h, is := m.attempt.deque(name), m.live.deques[name]
	item := m.item()
	bound := func(left bool) {
		if most := m.capacity; name == "bounded" && len(is) > most {
			if left {
				is = is[:most]
			} else {
				is = is[len(is)-most:]
			}
		}
	}
	take := func(left bool) string {
		if len(is) == 0 {
			return ""
		}
		at := len(is) - 1
		if left {
			at = 0
		}
		item := is[at]
		is = slices.Delete(is, at, at+1)
		return item
	}
	switch n := m.dice.IntN(40); {
	case n < 9:
		does(m, func(ctx context.Context) error { return h.Append(ctx, js(item)) })
		is = append(is, item)
		bound(false)
	case n < 16:
		does(m, func(ctx context.Context) error { return h.AppendLeft(ctx, js(item)) })
		is = slices.Insert(is, 0, item)
		bound(true)
	case n < 21:
		require.Equal(m.t, take(false), find(m, h.Pop))
	case n < 26:
		require.Equal(m.t, take(true), find(m, h.PopLeft))
	case n < 27:
		does(m, h.Clear)
		is = nil
	case n < 29:
		want := ""
		if len(is) > 0 {
			want = is[len(is)-1]
		}
		require.Equal(m.t, want, find(m, h.Peek))
	case n < 31:
		at, want := int64(m.dice.IntN(12)-6), ""
		switch {
		case at >= 0 && at < int64(len(is)):
			want = is[at]
		case at < 0 && -at <= int64(len(is)):
			want = is[int64(len(is))+at]
		}
		require.Equal(m.t, want, find(m, func(ctx context.Context) (state.Item, bool, error) { return h.Get(ctx, at) }))
	case n < 33:
		require.EqualValues(m.t, len(is), ask(m, h.Size))
	default:
		m.walk(h, is)
	}
	m.live.deques[name] = is
	m.floor(h, config.KindDeque, name)
}

func (m *model) walk(h *state.Deque, is []string) {
	s := state.Span{Backward: m.dice.IntN(2) == 0}
	low, high := 0, len(is)
	if m.dice.IntN(2) == 0 {
		low = m.dice.IntN(4)
		at := int64(low)
		s.Start = &at
	}
	if m.dice.IntN(2) == 0 {
		at := int64(m.dice.IntN(8))
		high = min(high, int(at)+1)
		bound := &state.Bound{Index: at}
		if s.Last = bound; s.Backward {
			s.First, s.Last = bound, nil
		}
	}
	var want []string
	if low < high {
		want = slices.Clone(is[low:high])
	}
	if s.Backward {
		slices.Reverse(want)
	}
	scan, err := h.Scan(s)
	require.NoError(m.t, err)
	var found []string
	for {
		some := ask(m, func(ctx context.Context) ([]state.Entry, error) { return scan.Next(ctx, 1+m.dice.IntN(5)) })
		if len(some) == 0 {
			break
		}
		for _, one := range some {
			require.Less(m.t, one.Index, int64(len(is)), "%+v %+v %v", s, some, is)
			require.Equal(m.t, is[one.Index], string(one.Item.JSON))
			found = append(found, string(one.Item.JSON))
		}
	}
	require.Equal(m.t, want, found)
	scan.Close()
}
