package partition

import (
	"fmt"

	"prosody/core/kafka"
)

// What the model expects of commits, of the flow and at any moment.

func (m *model) commit() {
	m.log("commit")
	found := map[kafka.Partition]int64{}
	for _, position := range m.set.Positions(nil) {
		found[position.Partition] = position.Offset
	}
	ok := m.random.IntN(4) > 0
	m.set.Committed(ok)
	for name, a := range m.parts {
		expected := int64(-1)
		for _, record := range a.records {
			if record.offset < 0 {
				continue
			}
			if record.state != done {
				break
			}
			expected = record.offset + 1
		}
		if expected > a.committed {
			m.check(found[name] == expected, "%v: position %d, expected %d", name, found[name], expected)
			if ok {
				a.committed = expected
			}
			delete(found, name)
		}
	}
	m.check(len(found) == 0, "positions that did not move or must not be committed: %v", found)
}

func (m *model) flow() {
	pause, resume := m.set.Flow(nil, nil)
	m.log("flow %v %v", pause, resume)
	for _, name := range pause {
		m.check(!m.parts[name].paused && !m.parts[name].leaving, "pause of %v", name)
		m.parts[name].paused = true
	}
	for _, name := range resume {
		m.check(m.parts[name].paused && !m.parts[name].leaving, "resume of %v", name)
		m.parts[name].paused = false
	}
	m.set.Flowed(pause, true)
	m.set.Flowed(resume, false)
	records := max(1, min(m.config.Records, m.config.TotalRecords/max(1, len(m.parts))))
	bytes := max(1, min(m.config.Bytes, m.config.TotalBytes/int64(max(1, len(m.parts)))))
	for name, a := range m.parts {
		if a.leaving {
			continue
		}
		waiting, size, beyond := a.load()
		if waiting >= records || size >= bytes || beyond >= m.config.Span {
			m.check(a.paused, "%v is full and not paused", name)
		}
		if waiting <= records/2 && size <= bytes/2 && beyond <= m.config.Span/2 {
			m.check(!a.paused, "%v is half empty and paused", name)
		}
	}
}

func (a *assignment) load() (waiting int, size int64, beyond int) {
	front := true
	for _, record := range a.records {
		front = front && (record.state == done || record.offset < 0)
		if !front && record.offset >= 0 {
			beyond++
		}
		if record.state == waits {
			waiting++
			size += record.size
		}
	}
	return waiting, size, beyond
}

func (m *model) bounds() {
	facts := m.set.Snapshot(m.now)
	live, stale, _ := m.counts()
	m.check(facts.Running == live && facts.Abandoned == stale, "running %d %d, expected %d %d",
		facts.Running, facts.Abandoned, live, stale)
	m.check(len(facts.Partitions) == len(m.parts), "partitions")
	for _, fact := range facts.Partitions {
		a := m.parts[kafka.Partition{Topic: fact.Topic, Index: fact.Partition}]
		waiting, _, beyond := a.load()
		m.check(fact.Waiting == waiting, "%v waits %d, expected %d", fact, fact.Waiting, waiting)
		m.check(fact.Beyond == beyond, "%v beyond %d, expected %d", fact, fact.Beyond, beyond)
	}
	seen := map[string]bool{}
	for _, r := range m.running {
		name := fmt.Sprint(r.name, r.key)
		m.check(r.key == "" || !seen[name], "two events of %s run", name)
		seen[name] = true
	}
}

// finish ends everything: nothing may be left.
func (m *model) finish() {
	for _, name := range m.order {
		m.lose(name)
	}
	for len(m.running) > 0 {
		m.end()
	}
	m.check(empty(m.set), "left over: %+v", m.set.Snapshot(m.now))
}

func empty(s *Set) bool {
	return len(s.slots) == 0 && len(s.parts) == 0 && s.rotation.empty() && s.running == 0 && s.stale == 0 && s.blocked == 0
}
