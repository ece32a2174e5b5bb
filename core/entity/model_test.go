package entity_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
	"prosody/core/store/disk"
	"prosody/core/store/memory"
)

// facts are what is durable about a key, as the model knows it.
type facts struct {
	timers map[int64]bool
	cells  map[string]string
	head   uint64
	queue  []string
	done   map[int64]bool
	ids    map[string]bool
}

func (f *facts) clone() *facts {
	return &facts{
		maps.Clone(f.timers), maps.Clone(f.cells), f.head, slices.Clone(f.queue), maps.Clone(f.done), maps.Clone(f.ids),
	}
}

// subject is a key and what the model knows of it. After an answer that was lost it is
// one of two: then the record tells which.
type subject struct {
	name  string
	facts *facts
	maybe *facts
	light map[int64]*event.Event // done, to be written behind
	dim   map[int64]*event.Event // done, and their owner ended: nobody knows whether that is written
}

// machine drives owners against the model.
type machine struct {
	t        *testing.T
	random   *rand.Rand
	faulty   *faulty
	clock    clock.Clock
	advance  func(time.Duration)
	group    string
	keeper   *entity.Keeper
	lease    *entity.Lease
	subjects []*subject
	log      []*event.Event // offset: index
	position int64          // committed
	next     int64          // to be delivered
	counts   map[string]int
	dir      string // of the disk cache; "": none
	disk     *disk.Cache
}

func newMachine(t *testing.T, inner store.Store, group string, seed uint64, now clock.Clock, advance func(time.Duration), dir string) *machine {
	random := rand.New(rand.NewPCG(seed, 1))
	m := &machine{
		t: t, random: random, faulty: &faulty{Store: inner, random: rand.New(rand.NewPCG(seed, 2)), rate: 0.1}, clock: now, advance: advance,
		group: group, counts: map[string]int{}, dir: dir,
	}
	t.Cleanup(func() { require.NoError(t, m.disk.Close()) })
	for n := range 4 {
		m.subjects = append(m.subjects, &subject{
			name:  fmt.Sprintf("key-%d", n),
			facts: &facts{timers: map[int64]bool{}, cells: map[string]string{}, done: map[int64]bool{}, ids: map[string]bool{}},
			light: map[int64]*event.Event{}, dim: map[int64]*event.Event{},
		})
	}
	m.start()
	return m
}

// start is a new process that owns the partition.
func (m *machine) start() {
	if m.dir != "" {
		require.NoError(m.t, m.disk.Close())
		var err error
		m.disk, err = disk.Open(disk.Options{Dir: m.dir, Bytes: 1 << 20, Memory: 1 << 20})
		require.NoError(m.t, err)
	}
	m.keeper = entity.New(entity.Options{
		Store: m.faulty, Group: m.group, Version: "1", Clock: m.clock, TTL: 1000 * time.Hour, Cache: 2,
		Behind: 3, Slab: time.Minute, Timeout: time.Minute, Disk: m.disk,
	})
	m.assign()
}

func (m *machine) assign() {
	m.lease = m.keeper.Assign(home)
	m.next = m.position
	for _, s := range m.subjects {
		maps.Copy(s.dim, s.light)
		clear(s.light)
	}
}

// step does one thing.
func (m *machine) step() {
	m.advance(time.Duration(m.random.IntN(50)) * time.Millisecond)
	switch n := m.random.IntN(100); {
	case n < 60:
		m.deliver()
	case n < 70:
		m.fire()
	case n < 75:
		m.pull()
	case n < 83:
		m.immediate()
	case n < 93:
		m.commit()
	case n < 96:
		m.crash()
	case n < 98:
		m.leave()
	default:
		m.compare(m.subjects[m.random.IntN(len(m.subjects))])
	}
}

func (m *machine) subject() *subject { return m.subjects[m.random.IntN(len(m.subjects))] }

func (m *machine) find(name string) *subject {
	return m.subjects[slices.IndexFunc(m.subjects, func(s *subject) bool { return s.name == name })]
}

// open opens the record. When the model is in doubt it learns which of two is true: all
// of a change, or nothing.
func (m *machine) open(s *subject) *entity.Entity {
	for {
		e, err := m.lease.Open(m.t.Context(), s.name)
		if err != nil {
			require.Equal(m.t, fault.Store, fault.Of(err))
			continue
		}
		if s.maybe != nil {
			m.resolve(s, e)
		}
		return e
	}
}

func (m *machine) resolve(s *subject, e *entity.Entity) {
	if m.matches(s.maybe, e) {
		s.facts = s.maybe
		m.counts["applied all the same"]++
	} else {
		require.True(m.t, m.matches(s.facts, e), "%s is neither as it was nor as it was to be:\n%s\nwas %+v\nto be %+v",
			s.name, m.describe(e), *s.facts, *s.maybe)
	}
	s.maybe = nil
}

type seen struct {
	timers []int64
	cells  map[string]string
	queue  entity.Queue
	rows   []string
}

func (m *machine) look(e *entity.Entity) seen {
	timers, err := e.Timers(m.t.Context())
	require.NoError(m.t, err)
	made := seen{cells: map[string]string{}}
	for _, one := range timers {
		made.timers = append(made.timers, one.Second)
	}
	made.queue, err = e.Queue(m.t.Context())
	require.NoError(m.t, err)
	at := store.Key{Group: m.group, Topic: home.Topic, Key: e.Key()}
	rows, _, err := m.faulty.Scan(m.t.Context(), at, store.Range{Kind: store.Cell, Name: "cells"}, false, 1000)
	require.NoError(m.t, err)
	for _, row := range rows {
		made.cells[row.Coordinate] = string(row.Data)
	}
	rows, _, err = m.faulty.Scan(m.t.Context(), at, store.Range{Kind: store.Deferred}, false, 1000)
	require.NoError(m.t, err)
	for _, row := range rows {
		made.rows = append(made.rows, string(row.Data))
	}
	return made
}

func (m *machine) describe(e *entity.Entity) string { return fmt.Sprintf("%+v", m.look(e)) }

func (m *machine) matches(f *facts, e *entity.Entity) bool {
	is := m.look(e)
	if !slices.Equal(is.timers, slices.Sorted(maps.Keys(f.timers))) || !maps.Equal(is.cells, f.cells) ||
		is.queue.Head != f.head || is.queue.Tail != f.head+uint64(len(f.queue)) || !slices.Equal(is.rows, f.queue) {
		return false
	}
	for offset := range f.done {
		if !m.saw(e, m.log[offset]) {
			return false
		}
	}
	return true
}

func (m *machine) saw(e *entity.Entity, of *event.Event) bool {
	seen, err := e.Seen(m.t.Context(), of, true)
	require.NoError(m.t, err)
	return seen
}

func (m *machine) compare(s *subject) {
	e := m.open(s)
	defer e.Close()
	require.True(m.t, m.matches(s.facts, e), "%s: %s, not %+v", s.name, m.describe(e), *s.facts)
	m.counts["compared"]++
}

// deliver hands the next record over, or makes one first.
func (m *machine) deliver() {
	if m.next == int64(len(m.log)) {
		of := &event.Event{
			Kind: event.Message, Topic: home.Topic, Partition: home.Index, Offset: m.next, Key: m.subject().name,
			Timestamp: 1_700_000_000_000 + int64(m.random.IntN(1000)),
		}
		if of.HasID = m.random.IntN(2) == 0; of.HasID {
			of.ID = fmt.Sprint(m.random.IntN(100))
		}
		m.log = append(m.log, of)
	}
	of := m.log[m.next]
	s := m.find(of.Key)
	e := m.open(s)
	defer e.Close()
	_, light := s.dim[of.Offset]
	known := s.facts.done[of.Offset] || of.HasID && s.facts.ids[of.ID]
	got := m.saw(e, of)
	switch {
	case known:
		require.True(m.t, got, "%d of %s would be applied twice", of.Offset, s.name)
		m.counts["skipped"]++
	case got && !light && !m.lightly(s, of):
		m.t.Fatalf("%d of %s would be lost", of.Offset, s.name)
	}
	if got || m.handle(s, e, of, m.effects(4)) {
		m.next++
	}
}

// lightly tells whether the id may be that of an event whose mark may have been written.
func (m *machine) lightly(s *subject, of *event.Event) bool {
	for _, list := range []map[int64]*event.Event{s.light, s.dim} {
		for offset, done := range list {
			if offset > of.Offset || of.HasID && done.HasID && done.ID == of.ID {
				return true
			}
		}
	}
	return false
}

// handle is an event's way to its end. False: it did not come there.
func (m *machine) handle(s *subject, e *entity.Entity, of *event.Event, effects []effect) bool {
	if m.random.IntN(10) == 0 { // a failed attempt
		txn := e.Begin(of)
		for _, one := range m.effects(3) {
			one.do(txn)
		}
		txn.Discard()
	}
	txn := e.Begin(of)
	after := s.facts.clone()
	if of != nil && of.Kind == event.Timer {
		delete(after.timers, of.Timestamp/1000)
	}
	for _, one := range effects {
		one.do(txn)
		one.model(after)
	}
	light := !txn.Dirty() && of != nil && of.Kind == event.Message
	if of != nil && of.Kind == event.Message && !light {
		after.done[of.Offset] = true
		if of.HasID {
			after.ids[of.ID] = true
		}
	}
	fence := m.random.IntN(60) == 0
	for tries := 0; ; tries++ {
		if fence && tries == m.random.IntN(2) {
			m.lease.Fence()
		}
		err := txn.Commit(m.t.Context(), entity.Mark{Event: of, ID: true})
		switch {
		case err == nil:
			m.counts["done"]++
			if light {
				s.light[of.Offset] = of
			}
			s.facts = after
			return true
		case fault.Of(err) == fault.Revoked:
			m.counts["fenced"]++
			if tries > 0 {
				s.maybe = after
			}
			txn.Discard()
			m.revoked()
			return false
		case errors.Is(err, errDown):
			if m.random.IntN(3) > 0 {
				continue
			}
			m.counts["given up"]++
			s.maybe = after
			if m.random.IntN(2) == 0 { // the process ends without a word
				m.crash()
				return false
			}
			txn.Discard()
			if m.random.IntN(2) == 0 {
				m.leave()
			}
			return false
		default:
			require.NoError(m.t, err)
		}
	}
}

func (m *machine) fire() {
	s := m.subject()
	e := m.open(s)
	defer e.Close()
	timers := slices.Sorted(maps.Keys(s.facts.timers))
	if len(timers) == 0 {
		return
	}
	of := fires(s.name, timers[m.random.IntN(len(timers))])
	require.False(m.t, m.saw(e, of))
	effects := m.effects(3)
	if m.random.IntN(3) == 0 {
		second := of.Timestamp / 1000
		effects = append(effects, effect{
			func(txn *entity.Txn) { require.NoError(m.t, txn.Schedule(m.t.Context(), second, false)) },
			func(f *facts) { f.timers[second] = true },
		})
	}
	m.handle(s, e, of, effects)
}

// pull takes the head of the queue.
func (m *machine) pull() {
	s := m.subject()
	e := m.open(s)
	defer e.Close()
	_, head, err := e.Head(m.t.Context())
	require.NoError(m.t, err)
	if len(s.facts.queue) == 0 {
		require.Nil(m.t, head)
		return
	}
	require.Equal(m.t, s.facts.queue[0], string(head))
	m.handle(s, e, nil, []effect{{
		func(txn *entity.Txn) { txn.Advance() },
		func(f *facts) { f.queue, f.head = f.queue[1:], f.head+1 },
	}})
}

func (m *machine) immediate() {
	s := m.subject()
	e := m.open(s)
	defer e.Close()
	second := m.clock.Now().Unix() + int64(m.random.IntN(300))
	after := s.facts.clone()
	after.timers[second] = true
	txn := e.Begin(nil)
	if err := txn.Schedule(m.t.Context(), second, true); err != nil {
		require.ErrorIs(m.t, err, errDown)
		s.maybe = after
	} else {
		s.facts = after
	}
	txn.Discard()
}

// commit flushes, and commits the position when that has worked.
func (m *machine) commit() {
	failed, err := m.keeper.Flush(m.t.Context(), []kafka.Partition{home})
	if len(failed) > 0 {
		require.ErrorIs(m.t, err, errDown)
		m.counts["flush failed"]++
		return
	}
	for _, s := range m.subjects {
		for offset, of := range s.light {
			s.firm(offset, of)
		}
		clear(s.light)
	}
	m.position = m.next
	m.counts["flushed"]++
}

// firm: a mark is written.
func (s *subject) firm(offset int64, of *event.Event) {
	for _, f := range []*facts{s.facts, s.maybe} {
		if f != nil {
			f.done[offset] = true
			if of.HasID {
				f.ids[of.ID] = true
			}
		}
	}
}

// crash ends the process: what was only in memory is gone.
func (m *machine) crash() {
	m.counts["crashed"]++
	m.start()
}

// leave gives the partition up in good order, to another process or the same one.
func (m *machine) leave() {
	m.counts["left"]++
	m.commit()
	m.lease.Fence()
	m.commit()
	m.revoked()
}

func (m *machine) revoked() {
	m.lease.End()
	if m.random.IntN(2) == 0 {
		m.start()
		return
	}
	m.assign()
}

func (m *machine) finish() {
	m.faulty.rate = 0
	for range m.subjects {
		m.crash()
		for _, s := range m.subjects {
			m.compare(s)
		}
	}
}

// Whatever fails, whoever owns the key: what was done is done once, a change is there
// whole or not at all, and no mark that a committed position rests on is missing.
func TestModel(t *testing.T) {
	seeds, steps := 50, 2500
	if testing.Short() {
		seeds = 5
	}
	total := map[string]int{}
	for seed := range uint64(seeds) {
		now := clock.NewManual(time.Unix(1_700_000_000, 0))
		inner := memory.NewRegistry(memory.Settings{Clock: now}).Store("x")
		dir := ""
		if seed%2 == 0 {
			dir = t.TempDir()
		}
		m := newMachine(t, inner, "g", seed, now, now.Advance, dir)
		for n := range steps {
			m.step()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, n)
			}
		}
		m.finish()
		for what, count := range m.counts {
			total[what] += count
		}
		total["answers lost"] += m.faulty.lost
	}
	t.Log(total)
	for _, what := range []string{"done", "skipped", "fenced", "given up", "applied all the same", "flush failed", "flushed", "crashed", "left", "compared"} {
		assert.Greater(t, total[what], 10, what)
	}
}
