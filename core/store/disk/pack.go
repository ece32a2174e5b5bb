package disk

import (
	"encoding/binary"
	"errors"
)

var errDamaged = errors.New("disk: an entry is damaged")

// pack makes the value of a note. A nil mirror is left out.
func (m *Mirror) pack(note []byte) []byte {
	b := make([]byte, 0, len(note)+64)
	if m == nil {
		return append(append(b, 0), note...)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	b = append(b, 1)
	number := uint64(0)
	if m.generation != nil {
		number = m.generation.number
	}
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, m.id)
	b = appendBool(b, m.fresh)
	b = binary.AppendUvarint(b, uint64(len(m.old)))
	for _, name := range m.old {
		b = appendText(b, name)
	}
	b = binary.AppendUvarint(b, uint64(len(m.spans)))
	for name, spans := range m.spans {
		b = appendText(b, name)
		b = binary.AppendUvarint(b, uint64(len(spans)))
		for _, s := range spans {
			b = appendText(appendText(appendBool(b, s.open), s.from), s.to)
		}
	}
	return append(b, note...)
}

// unpack gives a note and its mirror. The mirror is nil when its generation is gone.
func (c *Cache) unpack(packed []byte, all []*generation) (note []byte, made *Mirror, ok bool) {
	p := parser{rest: packed}
	if !p.bool() {
		return p.rest, nil, !p.bad
	}
	m := &Mirror{cache: c}
	number := p.number()
	m.id, m.fresh = p.number(), p.bool()
	for n := p.number(); n > 0 && !p.bad; n-- {
		m.old = append(m.old, p.text())
	}
	for n := p.number(); n > 0 && !p.bad; n-- {
		name := p.text()
		var spans []span
		for n := p.number(); n > 0 && !p.bad; n-- {
			spans = append(spans, span{open: p.bool(), from: p.text(), to: p.text()})
		}
		if m.spans == nil {
			m.spans = map[string][]span{}
		}
		m.spans[name] = spans
	}
	if p.bad {
		return nil, nil, false
	}
	for _, g := range all {
		if g.number == number {
			m.generation = g
		}
	}
	if number != 0 && m.generation == nil {
		return p.rest, nil, true
	}
	return p.rest, m, true
}

func appendBool(b []byte, value bool) []byte {
	if value {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// parser takes values from the front. After bad ones it gives zeros.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number() uint64 {
	value, size := binary.Uvarint(p.rest)
	if p.bad = p.bad || size <= 0; p.bad {
		return 0
	}
	p.rest = p.rest[size:]
	return value
}

func (p *parser) bool() bool { return p.number() != 0 }

func (p *parser) text() string {
	size := p.number()
	if p.bad = p.bad || size > uint64(len(p.rest)); p.bad {
		return ""
	}
	text := string(p.rest[:size])
	p.rest = p.rest[size:]
	return text
}
