package disk

import "slices"

// span is a range of coordinates, [from, to).
type span struct {
	from, to string
	open     bool // there is no to
}

// mostSpans is how many ranges of a key are remembered.
const mostSpans = 64

// reaches tells whether the span goes at least to the start of another.
func (s span) reaches(from string) bool { return s.open || s.to >= from }

// beyond tells whether a span ends behind another.
func (s span) beyond(other span) bool { return !other.open && (s.open || s.to > other.to) }

func (s span) has(coordinate string) bool {
	return coordinate >= s.from && (s.open || coordinate < s.to)
}

// join adds a span to disjoint ones in order.
func join(spans []span, added span) []span {
	if !added.open && added.to <= added.from {
		return spans
	}
	first := 0
	for first < len(spans) && !spans[first].reaches(added.from) {
		first++
	}
	last := first
	for ; last < len(spans) && added.reaches(spans[last].from); last++ {
		added.from = min(added.from, spans[last].from)
		if spans[last].beyond(added) {
			added.to, added.open = spans[last].to, spans[last].open
		}
	}
	return slices.Replace(slices.Clone(spans), first, last, added)
}

// around gives the span that has a coordinate.
func around(spans []span, coordinate string) (span, bool) {
	for _, s := range spans {
		if s.has(coordinate) {
			return s, true
		}
	}
	return span{}, false
}

// below gives the span that has what comes right before the end of another.
func below(spans []span, end span) (span, bool) {
	for _, s := range spans {
		if s.open || !end.open && s.to >= end.to {
			return s, end.open || s.from < end.to
		}
	}
	return span{}, false
}
