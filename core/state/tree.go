package state

import "github.com/google/btree"

// lastBelow finds the last entry of a range.
func lastBelow(tree *btree.BTreeG[entry], s *Scan) (one entry, found bool) {
	take := func(it entry) bool {
		if !s.open && it.coordinate >= s.to {
			return true
		}
		one, found = it, it.coordinate >= s.from
		return false
	}
	if s.open {
		tree.Descend(take)
	} else {
		tree.DescendLessOrEqual(entry{coordinate: s.to}, take)
	}
	return one, found
}

// fromTree finds the next entry of a range that is there.
func fromTree(b *book, s *Scan) (one entry, found bool) {
	cursor := *s
	for cursor.open || cursor.from < cursor.to {
		one, found = entry{}, false
		take := func(it entry) bool {
			one, found = it, true
			return false
		}
		switch {
		case cursor.backward:
			one, found = lastBelow(b.cells, &cursor)
		case cursor.open:
			b.cells.AscendGreaterOrEqual(entry{coordinate: cursor.from}, take)
		default:
			b.cells.AscendRange(entry{coordinate: cursor.from}, entry{coordinate: cursor.to}, take)
		}
		if !found || one.form != absent {
			return one, found
		}
		cursor.pass(one.coordinate)
	}
	return entry{}, false
}
