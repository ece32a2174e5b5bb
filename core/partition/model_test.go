package partition

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// The model knows each record of each assignment and looks for what holds by brute
// force. Each schedule drives the set and the model with the same random steps.

type state uint8

const (
	waits state = iota
	runs
	done
	dropped // aborted, or never started
)

type fact struct {
	offset int64  // -1: a timer
	stamp  int64  // of a timer, unlike all others
	key    string // empty: an invalid record
	state  state
	size   int64
}

type assignment struct {
	records   []*fact
	leaving   bool
	over      bool // lost or released: commits nothing
	committed int64
	paused    bool
	tag       *int
}

type running struct {
	token  Token
	name   kafka.Partition
	key    string
	of     *assignment
	record *fact
	stale  bool
}

type model struct {
	t       *testing.T
	set     *Set
	config  Config
	random  *rand.Rand
	now     time.Time
	parts   map[kafka.Partition]*assignment
	order   []kafka.Partition
	next    map[kafka.Partition]int64
	running []*running
	ended   []Token
	blocked map[*assignment]map[string]bool
	stamp   int64
	steps   []string
}

func (m *model) log(format string, arguments ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, arguments...))
}

func (m *model) check(ok bool, format string, arguments ...any) {
	if !ok {
		m.t.Helper()
		from := max(0, len(m.steps)-60)
		m.t.Fatalf("%s\nlast steps:\n%s", fmt.Sprintf(format, arguments...), strings.Join(m.steps[from:], "\n"))
	}
}

func newModel(t *testing.T, seed uint64) *model {
	random := rand.New(rand.NewPCG(seed, 1))
	m := &model{
		t: t, random: random, now: time.Unix(0, 0),
		config: Config{
			Group: "group", Allowed: []string{"ok."}, Uncommitted: 1 + random.IntN(5),
			Records: 2 + random.IntN(8), TotalRecords: 4 + random.IntN(12),
			Bytes: 20 + random.Int64N(60), TotalBytes: 60 + random.Int64N(60), Span: 5 + random.IntN(20),
		},
		parts: map[kafka.Partition]*assignment{}, next: map[kafka.Partition]int64{},
		blocked: map[*assignment]map[string]bool{},
	}
	for i := range 1 + random.IntN(3) {
		m.order = append(m.order, kafka.Partition{Topic: "t", Index: int32(i)})
	}
	m.set = New(m.config)
	m.log("seed %d config %+v", seed, m.config)
	return m
}

func (m *model) step() {
	m.now = m.now.Add(time.Second)
	name := m.order[m.random.IntN(len(m.order))]
	switch pick := m.random.IntN(100); {
	case pick < 8:
		m.assign(name)
	case pick < 38:
		m.offer(name)
	case pick < 42:
		m.fire(name)
	case pick < 65:
		m.start()
	case pick < 84:
		m.end()
	case pick < 87:
		m.revoke(name)
	case pick < 89:
		m.abandon(name)
	case pick < 92:
		m.lose(name)
	case pick < 96:
		m.commit()
	default:
		m.flow()
	}
	m.bounds()
}

func (m *model) assign(name kafka.Partition) {
	if m.parts[name] != nil {
		return
	}
	m.log("assign %v", name)
	made := &assignment{committed: -1, tag: new(int)}
	m.set.Assign(name, made.tag)
	m.parts[name] = made
	m.blocked[made] = map[string]bool{}
	m.next[name] = max(0, m.next[name]-m.random.Int64N(5))
}

// fire offers a timer: also to a partition that is paused.
func (m *model) fire(name kafka.Partition) {
	m.stamp++
	a := m.parts[name]
	made := &fact{offset: -1, stamp: m.stamp, key: string(rune('a' + m.random.IntN(4))), size: 1 + m.random.Int64N(10)}
	e := &event.Event{
		Kind: event.Timer, Topic: name.Topic, Partition: name.Index, Offset: -1, Timestamp: made.stamp,
		Key: made.key, Type: "bad", HasType: true,
	}
	if m.random.IntN(2) == 0 {
		e.Kind = event.Retry
	}
	verdict, expected := m.set.Offer(e, made.size), Queued
	switch {
	case a == nil:
		expected = Unassigned
	case a.leaving:
		expected = Leaving
	default:
		a.records = append(a.records, made)
	}
	m.log("fire %v key %q stamp %d: %d", name, made.key, made.stamp, verdict)
	m.check(verdict == expected, "verdict %d, expected %d", verdict, expected)
}

// highest is the last offset that was delivered.
func (a *assignment) highest() int64 {
	highest := int64(-1)
	for _, record := range a.records {
		highest = max(highest, record.offset)
	}
	return highest
}

func (m *model) offer(name kafka.Partition) {
	for range 1 + m.random.IntN(4) {
		a := m.parts[name]
		if a != nil && a.paused {
			return // the client library delivers nothing
		}
		offset := m.next[name] + m.random.Int64N(3) // holes
		if m.random.IntN(10) == 0 {
			offset = m.next[name] - 1 - m.random.Int64N(3) // a rewind
		}
		if offset < 0 {
			continue
		}
		size := 1 + m.random.Int64N(10)
		key := string(rune('a' + m.random.IntN(4)))
		e := &event.Event{
			Kind: event.Message, Topic: name.Topic, Partition: name.Index, Offset: offset, Key: key,
		}
		record := &kafka.Record{Topic: name.Topic, Partition: name.Index, Offset: offset}
		wanted := Queued
		var verdict Verdict
		switch pick := m.random.IntN(20); pick {
		case 0:
			wanted, e.HasSource, e.Source = Looped, true, "group"
		case 1:
			wanted, e.HasType, e.Type = Unwanted, true, "bad"
		case 2:
			wanted = Skipped
		case 3:
			key = ""
		case 4:
			e.HasType, e.Type = true, "ok.yes"
		}
		expected := wanted
		switch {
		case a == nil:
			expected = Unassigned
		case a.leaving:
			expected = Leaving
		case offset <= a.highest():
			expected = Stale
		}
		switch {
		case wanted == Skipped:
			verdict = m.set.Skip(record)
		case key == "":
			verdict = m.set.OfferInvalid(record, "why", size)
		default:
			verdict = m.set.Offer(e, size)
		}
		m.log("offer %v@%d key %q size %d: %d", name, offset, key, size, verdict)
		m.check(verdict == expected, "verdict %d, expected %d", verdict, expected)
		switch expected {
		case Unassigned, Leaving, Stale:
			continue
		}
		m.next[name] = offset + 1
		made := &fact{offset: offset, key: key, size: size}
		if expected != Queued {
			made.state = done
		}
		a.records = append(a.records, made)
	}
}

// eligible is the first record of each key that may start.
func (m *model) eligible() map[*assignment]map[*fact]kafka.Partition {
	found := map[*assignment]map[*fact]kafka.Partition{}
	for name, a := range m.parts {
		if a.leaving {
			continue
		}
		seen := map[string]bool{}
		for _, r := range m.running {
			if r.name == name {
				seen[r.key] = true
			}
		}
		for _, record := range a.records {
			if record.state != waits {
				continue
			}
			if record.key != "" {
				if seen[record.key] || m.blocked[a][record.key] {
					continue
				}
				seen[record.key] = true
			}
			if found[a] == nil {
				found[a] = map[*fact]kafka.Partition{}
			}
			found[a][record] = name
		}
	}
	return found
}

func (m *model) counts() (live, stale, blocked int) {
	for _, r := range m.running {
		if r.stale {
			stale++
		} else {
			live++
		}
	}
	for _, a := range m.parts {
		for _, record := range a.records {
			if record.state == dropped && !a.leaving {
				blocked++
			}
		}
	}
	return live, stale, blocked
}

func (m *model) start() {
	for range 1 + m.random.IntN(4) {
		start, ok := m.set.Next(m.now)
		eligible := m.eligible()
		live, stale, _ := m.counts()
		for _, r := range m.running {
			if !r.stale && r.record.offset < 0 {
				live-- // of timers as many run as are handed out
			}
		}
		room := live < m.config.Uncommitted && stale+m.set.blocked < m.set.excess
		if !ok {
			m.check(!room || len(eligible) == 0, "nothing started: room %v, eligible %v", room, eligible)
			return
		}
		m.check(room, "started beyond the limit: %d", live)
		r := &running{token: start.Token}
		for a, records := range eligible {
			for record, name := range records {
				same := start.Event != nil && start.Event.At() == name && start.Event.Offset == record.offset && start.Event.Key == record.key &&
					(record.offset >= 0 || start.Event.Timestamp == record.stamp) ||
					start.Record != nil && at(start.Record) == name && start.Record.Offset == record.offset && record.key == ""
				if same {
					r.name, r.key, r.of, r.record = name, record.key, a, record
				}
			}
		}
		m.log("start %v", start)
		m.check(r.of != nil, "started what must not start: %+v", start)
		m.check(start.Tag == any(r.of.tag), "foreign tag")
		r.record.state = runs
		m.running = append(m.running, r)
	}
}

func (m *model) end() {
	if len(m.ended) > 0 && m.random.IntN(8) == 0 {
		m.check(!m.set.Done(m.ended[m.random.IntN(len(m.ended))], pipeline.Success), "a used token counted")
	}
	if len(m.running) == 0 {
		return
	}
	at := m.random.IntN(len(m.running))
	r := m.running[at]
	m.running = append(m.running[:at], m.running[at+1:]...)
	m.ended = append(m.ended, r.token)
	class := pipeline.Success
	switch m.random.IntN(12) {
	case 0:
		class = pipeline.Permanent
	case 1:
		class = pipeline.Aborted
	case 2:
		if r.of.leaving {
			class = pipeline.Transient
		}
	}
	counted := m.set.Done(r.token, class)
	m.log("done %v@%d key %q %v: %v", r.name, r.record.offset, r.key, class, counted)
	m.check(counted == !r.stale, "counted %v, stale %v", counted, r.stale)
	if r.stale {
		return
	}
	if class == pipeline.Success || class == pipeline.Permanent {
		r.record.state = done
		return
	}
	r.record.state = dropped
	if !r.of.leaving && r.key != "" {
		m.blocked[r.of][r.key] = true
	}
}

func (m *model) revoke(name kafka.Partition) {
	m.log("revoke %v", name)
	m.set.Revoke(name)
	a := m.parts[name]
	if a == nil || a.leaving {
		return
	}
	a.leaving = true
	for _, record := range a.records {
		if record.state == waits {
			record.state = dropped
		}
	}
	m.drained()
}

func (m *model) drained() {
	expected := map[kafka.Partition]bool{}
	for name, a := range m.parts {
		expected[name] = a.leaving
	}
	for _, r := range m.running {
		if !r.stale {
			expected[r.name] = false
		}
	}
	drained := m.set.Drained(nil)
	for _, name := range drained {
		m.check(expected[name], "%v is not drained", name)
		delete(expected, name)
	}
	for name, is := range expected {
		m.check(!is, "%v is drained", name)
	}
}

func (m *model) abandon(name kafka.Partition) {
	m.log("abandon %v", name)
	m.set.Abandon(name)
	if a := m.parts[name]; a != nil && a.leaving {
		m.outdate(a)
	}
	m.drained()
}

func (m *model) outdate(a *assignment) {
	for _, r := range m.running {
		r.stale = r.stale || r.of == a
	}
}

func (m *model) lose(name kafka.Partition) {
	m.log("lose %v", name)
	m.set.Lose(name)
	if a := m.parts[name]; a != nil {
		a.over, a.leaving = true, true
		m.outdate(a)
		delete(m.parts, name)
		delete(m.blocked, a)
	}
}

// TestModel runs random schedules: 2,000, or PROSODY_SCHEDULES of them.
func TestModel(t *testing.T) {
	schedules := 2_000
	if text := os.Getenv("PROSODY_SCHEDULES"); text != "" {
		var err error
		schedules, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	for seed := range uint64(schedules) {
		m := newModel(t, seed)
		for range 120 {
			m.step()
		}
		m.finish()
	}
}
