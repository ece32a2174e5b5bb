package state_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/state"
	"prosody/core/store"
	"prosody/core/store/cassandra"
	"prosody/core/store/storetest"
)

// plain is what a key's collections hold, as Go has it.
type plain struct {
	values map[string]string
	maps   map[string]map[string]string
	deques map[string][]string
}

func (p plain) clone() plain {
	c := plain{values: maps.Clone(p.values), maps: map[string]map[string]string{}, deques: map[string][]string{}}
	for name, one := range p.maps {
		c.maps[name] = maps.Clone(one)
	}
	for name, one := range p.deques {
		c.deques[name] = slices.Clone(one)
	}
	return c
}

// restore sets one collection to what another has.
func (p plain) restore(kind, name string, from plain) {
	switch kind {
	case config.KindValue:
		delete(p.values, name)
		if value, there := from.values[name]; there {
			p.values[name] = value
		}
	case config.KindDeque:
		p.deques[name] = slices.Clone(from.deques[name])
	default:
		p.maps[name] = maps.Clone(from.maps[name])
		if p.maps[name] == nil {
			p.maps[name] = map[string]string{}
		}
	}
}

// model runs random attempts beside a plain model.
type model struct {
	*world
	t        *testing.T
	dice     *rand.Rand
	durable  plain
	attempt  *attempt
	live     plain
	steps    int
	capacity int
	alphabet []string
	big      bool
}

func (m *model) item() string {
	if m.big && m.dice.IntN(20) == 0 {
		return `"` + string(make([]byte, 0)) + longText(m.dice.IntN(3000)) + strconv.Itoa(m.dice.IntN(1000)) + `"`
	}
	return strconv.Itoa(m.dice.IntN(1000))
}

func longText(size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}

func (m *model) key() string { return m.alphabet[m.dice.IntN(len(m.alphabet))] }

// ask does an operation from memory if it can, and else with the store.
func ask[T any](m *model, call func(ctx context.Context) (T, error)) T {
	result, err := call(state.Memory())
	if errors.Is(err, state.ErrPending) {
		m.broken.flaky = m.dice.IntN(4) == 0
		result, err = call(m.ctx)
		m.broken.flaky = false
		if fault.Of(err) == fault.Store { // once more
			result, err = call(m.ctx)
		}
	}
	require.NoError(m.t, err)
	return result
}

type got struct {
	item  state.Item
	found bool
}

func (g got) text() string {
	if !g.found {
		return ""
	}
	return string(g.item.JSON)
}

func find(m *model, call func(ctx context.Context) (state.Item, bool, error)) string {
	return ask(m, func(ctx context.Context) (got, error) {
		item, found, err := call(ctx)
		return got{item, found}, err
	}).text()
}

func does(m *model, call func(ctx context.Context) error) {
	ask(m, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
}

func (m *model) values() {
	name := "value"
	h := m.attempt.value(name)
	switch m.dice.IntN(6) {
	case 0, 1, 2:
		item := m.item()
		does(m, func(ctx context.Context) error { return h.Set(ctx, js(item)) })
		m.live.values[name] = item
	case 3:
		does(m, h.Clear)
		delete(m.live.values, name)
	default:
		require.Equal(m.t, m.live.values[name], find(m, h.Get))
	}
	m.floor(h, config.KindValue, name)
}

func (m *model) mapping() {
	name := []string{"map", "tiny", "untracked"}[m.dice.IntN(3)]
	h, is := m.attempt.mapping(name), m.live.maps[name]
	key := m.key()
	switch n := m.dice.IntN(40); {
	case n < 14:
		item := m.item()
		does(m, func(ctx context.Context) error { return h.Set(ctx, key, js(item)) })
		is[key] = item
	case n < 22:
		does(m, func(ctx context.Context) error { return h.Remove(ctx, key) })
		delete(is, key)
	case n < 23:
		does(m, h.Clear)
		clear(is)
	case n < 28:
		require.Equal(m.t, is[key], find(m, func(ctx context.Context) (state.Item, bool, error) { return h.Get(ctx, key) }))
	case n < 31:
		_, there := is[key]
		require.Equal(m.t, there, ask(m, func(ctx context.Context) (bool, error) { return h.Contains(ctx, key) }))
	case n < 33:
		names := []string{m.key(), m.key(), key, m.key()}
		for i, item := range ask(m, func(ctx context.Context) ([]*state.Item, error) { return h.GetMany(ctx, names) }) {
			want, there := is[names[i]]
			require.Equal(m.t, there, item != nil)
			if there {
				require.Equal(m.t, want, string(item.JSON))
			}
		}
	case n < 35:
		require.Equal(m.t, len(is) == 0, ask(m, h.IsEmpty))
	default:
		m.scan(h.Scan, is)
	}
	m.floor(h, config.KindMap, name)
}

func (m *model) set() {
	h, is := m.attempt.set("set"), m.live.maps["set"]
	key := m.key()
	switch n := m.dice.IntN(20); {
	case n < 8:
		does(m, func(ctx context.Context) error { return h.Add(ctx, key) })
		is[key] = ""
	case n < 12:
		does(m, func(ctx context.Context) error { return h.Discard(ctx, key) })
		delete(is, key)
	case n < 13:
		does(m, h.Clear)
		clear(is)
	case n < 16:
		_, there := is[key]
		require.Equal(m.t, there, ask(m, func(ctx context.Context) (bool, error) { return h.Contains(ctx, key) }))
	case n < 17:
		require.Equal(m.t, len(is) == 0, ask(m, h.IsEmpty))
	default:
		m.scan(h.Scan, is)
	}
	m.floor(h, config.KindSet, "set")
}

// scan compares a scan with random edges.
func (m *model) scan(open func(state.Query) (*state.Scan, error), is map[string]string) {
	q := state.Query{Backward: m.dice.IntN(2) == 0, Keys: m.dice.IntN(3) == 0}
	low, high := "", ""
	if m.dice.IntN(3) == 0 {
		q.Prefix = m.key()[:1]
	}
	edge := func() *state.Edge { return &state.Edge{Key: m.key(), Exclusive: m.dice.IntN(2) == 0} }
	if m.dice.IntN(3) == 0 {
		q.First = edge()
	}
	if m.dice.IntN(3) == 0 {
		q.Last = edge()
	}
	if m.dice.IntN(4) == 0 {
		low = m.key()
		q.Start = &low
	}
	if m.dice.IntN(4) == 0 {
		high = m.key()
		q.Stop = &high
	}
	if m.dice.IntN(4) == 0 {
		q.Limit = int64(1 + m.dice.IntN(4))
	}
	var want []string
	for _, key := range slices.Sorted(maps.Keys(is)) {
		above := func(e *state.Edge) bool { return e == nil || key > e.Key || key == e.Key && !e.Exclusive }
		below := func(e *state.Edge) bool { return e == nil || key < e.Key || key == e.Key && !e.Exclusive }
		first, last := above, below
		if q.Backward {
			first, last = below, above
		}
		if first(q.First) && last(q.Last) && (q.Start == nil || key >= low) && (q.Stop == nil || key < high) &&
			(len(key) >= len(q.Prefix) && key[:len(q.Prefix)] == q.Prefix) {
			want = append(want, key)
		}
	}
	if q.Backward {
		slices.Reverse(want)
	}
	if q.Limit > 0 && len(want) > int(q.Limit) {
		want = want[:q.Limit]
	}
	var found []string
	scan, err := open(q)
	require.NoError(m.t, err)
	for {
		some := ask(m, func(ctx context.Context) ([]state.Entry, error) { return scan.Next(ctx, 1+m.dice.IntN(5)) })
		for _, one := range some {
			found = append(found, one.Key)
			if !q.Keys {
				require.Equal(m.t, is[one.Key], string(one.Item.JSON))
			}
		}
		if len(some) == 0 || m.dice.IntN(30) == 0 {
			if len(some) == 0 {
				require.Equal(m.t, want, found)
			}
			return
		}
	}
}

// floor commits or rolls back now and then.
func (m *model) floor(h state.Handle, kind, name string) {
	switch m.dice.IntN(60) {
	case 0:
		ask(m, h.Commit)
		m.durable.restore(kind, name, m.live)
	case 1:
		ask(m, h.Rollback)
		m.live.restore(kind, name, m.durable)
	case 2:
		m.broken.fails, m.broken.lost = true, m.dice.IntN(2) == 0
		outcome, err := h.Commit(m.ctx)
		m.broken.fails = false
		if err == nil {
			break // there was nothing to write
		}
		require.Equal(m.t, fault.Store, fault.Of(err))
		require.Equal(m.t, state.Applied, outcome)
		if m.broken.lost {
			m.durable.restore(kind, name, m.live)
		}
	}
}

// round is one attempt and what becomes of it.
func (m *model) round() {
	m.attempt, m.live = m.begin(), m.durable.clone()
	for range m.dice.IntN(25) {
		m.steps++
		switch m.dice.IntN(7) {
		case 0:
			m.values()
		case 1, 2, 3:
			m.mapping()
		case 4:
			m.set()
		default:
			m.deque()
		}
	}
	switch n := m.dice.IntN(20); {
	case n < 13:
		m.attempt.succeed()
		m.durable = m.live
	case n < 17:
		m.attempt.fail()
	default:
		m.crash(n == 17)
	}
	if m.dice.IntN(6) == 0 {
		m.assign()
	}
	if m.dir != "" && m.dice.IntN(2) == 0 {
		m.evict()
	}
	if m.dice.IntN(40) == 0 {
		m.capacity = 2 + m.dice.IntN(4)
		m.define(m.definitions())
	}
	m.clock.Advance(time.Duration(m.dice.IntN(3000)) * time.Millisecond)
}

// crash ends the process while it writes: the write has come through, or not.
func (m *model) crash(lost bool) {
	require.NoError(m.t, m.attempt.session.End(m.ctx, true))
	m.broken.fails, m.broken.lost = true, lost
	err := m.attempt.txn.Commit(m.ctx, markOf(m.attempt))
	m.broken.fails = false
	if err != nil {
		require.Equal(m.t, fault.Store, fault.Of(err))
	}
	if lost {
		m.durable = m.live
	}
	if m.dice.IntN(2) == 0 {
		m.attempt.txn.Discard()
		return
	}
	m.attempt.txn.Discard()
	m.assign()
}

func (m *model) definitions() []config.Collection {
	all := usual()
	for i := range all {
		if all[i].Name == "bounded" {
			most := int64(m.capacity)
			all[i].Capacity = &most
		}
	}
	return all
}

func runModel(t *testing.T, on store.Store, seed uint64, steps int, bytes int64, keys int, disk bool) {
	m := &model{t: t, dice: rand.New(rand.NewPCG(seed, 1)), capacity: 3, big: true}
	m.durable = plain{values: map[string]string{}, maps: map[string]map[string]string{}, deques: map[string][]string{}}
	for _, name := range []string{"map", "tiny", "untracked", "set"} {
		m.durable.maps[name] = map[string]string{}
	}
	for i := range keys {
		m.alphabet = append(m.alphabet, string(rune('a'+i%5))+[]string{"", "\x00", "é", "😀"}[i%4]+strconv.Itoa(i/20))
	}
	if m.world = start(t, t.Context(), usual()); on != nil {
		m.world = startOn(t, t.Context(), on, m.clock, usual())
	}
	m.bytes = bytes
	if disk {
		m.dir = t.TempDir()
		t.Cleanup(func() { require.NoError(t, m.disk.Close()) })
	}
	m.define(m.definitions())
	m.assign()
	for m.steps < steps {
		m.round()
	}
	t.Logf("seed %d: %d steps, %v", seed, m.steps, m.store.Calls())
}

// runModels makes the runs of a store: with all in memory, with hardly any, with few keys, and with
// the disk cache. PROSODY_MODEL_STEPS says how many steps each of the five has.
func runModels(t *testing.T, on store.Store, steps int) {
	if text := os.Getenv("PROSODY_MODEL_STEPS"); text != "" {
		var err error
		steps, err = strconv.Atoi(text)
		require.NoError(t, err, "PROSODY_MODEL_STEPS")
	}
	seed := rand.Uint64()
	for i, run := range []struct {
		name  string
		bytes int64
		keys  int
		disk  bool
	}{
		{"memory", 0, 20, false},
		{"narrow", 3000, 60, false},
		{"many", 0, 150, false},
		{"disk", 0, 60, true},
		{"narrow disk", 3000, 60, true},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			runModel(t, on, seed+uint64(i), steps, run.bytes, run.keys, run.disk)
		})
	}
}

// Random operations with failures, commits, rollbacks, crashes and changes of owner agree
// with plain values, maps and slices.
func TestAgreesWithAPlainModel(t *testing.T) { runModels(t, nil, 40_000) }

// The same on Cassandra.
func TestAgreesOnCassandra(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Cassandra")
	}
	nodes := []string{"localhost:9042"}
	if text := os.Getenv("PROSODY_TEST_CASSANDRA"); text != "" {
		nodes = strings.Split(text, ",")
	}
	opened, err := cassandra.Open(t.Context(), cassandra.Options{Nodes: nodes, Keyspace: "prosody_state_test"})
	require.NoError(t, err, "Cassandra must answer at %v (PROSODY_TEST_CASSANDRA); -short leaves it out", nodes)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	runModels(t, storetest.Patient(opened), 20_000)
}
