package timer

import (
	"container/heap"
	"math"
	"slices"

	"prosody/core/event"
)

// id names something that is due: a timer by its second, the retry of a key by the key.
type id struct {
	kind   event.Kind
	key    string
	second int64 // 0 for a retry
}

// state is where an entry is.
type state uint8

const (
	waiting state = iota // in the heap
	parked               // due, behind another one of its key
	fired                // handed out
	gone                 // taken back while it was parked
)

type entry struct {
	id
	due   int64 // ms
	began int64 // ms: due when it was handed out
	index int   // in the heap
	state state
	again bool // added while it was handed out
}

// turn is what was handed out of a key, and what became due behind it.
type turn struct {
	entry  *entry
	parked []*entry
}

// lane is all of one kind.
type lane struct {
	heap  queue
	turns map[string]*turn
	out   int // handed out and not ended
}

// agenda is what is due of one assignment, as far as it is loaded. Times are in ms.
type agenda struct {
	most     int // entries that wait
	entries  map[id]*entry
	lanes    map[event.Kind]*lane
	horizon  int64 // what is due later is not taken in
	complete int64 // everything that is due before is here
	hungry   bool  // to be loaded once there is room
}

var kinds = [...]event.Kind{event.Timer, event.Retry}

func newAgenda(most int) *agenda {
	a := &agenda{most: max(4, most), entries: map[id]*entry{}, lanes: map[event.Kind]*lane{},
		horizon: math.MinInt64, complete: math.MinInt64}
	for _, kind := range kinds {
		a.lanes[kind] = &lane{turns: map[string]*turn{}}
	}
	return a
}

// add notes that something is due. It is forgotten beyond the horizon: the store has it.
func (a *agenda) add(name id, due int64) {
	e := a.entries[name]
	if e == nil {
		if due < a.horizon {
			e = &entry{id: name, due: due}
			a.entries[name] = e
			heap.Push(&a.lanes[name.kind].heap, e)
			a.bound()
		}
		return
	}
	switch e.state {
	case waiting:
		if e.due != due {
			e.due = due
			heap.Fix(&a.lanes[name.kind].heap, e.index)
		}
	case parked:
		e.due = due
	case fired:
		e.due, e.again = due, true
	}
}

// found adds what is not known.
func (a *agenda) found(name id, due int64) {
	if a.entries[name] == nil {
		a.add(name, due)
	}
}

// remove takes back what was noted. What is handed out stays so.
func (a *agenda) remove(name id) {
	e := a.entries[name]
	if e == nil {
		return
	}
	switch e.state {
	case waiting:
		heap.Remove(&a.lanes[name.kind].heap, e.index)
		delete(a.entries, name)
	case parked:
		e.state = gone
		delete(a.entries, name)
	case fired:
		e.again = false
	}
}

// retry notes when the head of a key's deferred queue is to be retried; 0: never.
func (a *agenda) retry(key string, due int64) {
	name := id{kind: event.Retry, key: key}
	if due == 0 || due >= a.horizon {
		a.remove(name)
	}
	if due != 0 {
		a.add(name, due)
	}
}

// head is when the next of a kind is due that can be handed out.
func (a *agenda) head(kind event.Kind) int64 {
	l := a.lanes[kind]
	for len(l.heap) > 0 {
		e := l.heap[0]
		t := l.turns[e.key]
		if t == nil {
			return e.due
		}
		heap.Pop(&l.heap)
		e.state = parked
		t.parked = append(t.parked, e)
	}
	return math.MaxInt64
}

// fire hands out the next of a kind; head has said that there is one.
func (a *agenda) fire(kind event.Kind) id {
	l := a.lanes[kind]
	e := heap.Pop(&l.heap).(*entry)
	e.state, e.began, e.again = fired, e.due, false
	l.turns[e.key] = &turn{entry: e}
	l.out++
	return e.id
}

// end takes back what was handed out. When it is not done, its key stands still.
func (a *agenda) end(name id, done bool) bool {
	l := a.lanes[name.kind]
	t := l.turns[name.key]
	if t == nil || t.entry.id != name || t.entry.state != fired {
		return false
	}
	l.out--
	if !done {
		t.entry.state = gone
		return true
	}
	delete(l.turns, name.key)
	e := t.entry
	if e.again && e.due < a.horizon {
		e.state = waiting
		heap.Push(&l.heap, e)
	} else {
		delete(a.entries, name)
	}
	for _, e := range t.parked {
		if e.state == parked {
			e.state = waiting
			heap.Push(&l.heap, e)
		}
	}
	return true
}

// size counts what waits.
func (a *agenda) size() int {
	total := 0
	for _, kind := range kinds {
		total += len(a.lanes[kind].heap)
	}
	return total
}

// bound forgets the latest when there is too much. The horizon moves to the first that
// is forgotten, so that it will be loaded again.
func (a *agenda) bound() {
	if a.size() <= a.most {
		return
	}
	all := make([]*entry, 0, a.size())
	for _, kind := range kinds {
		all = append(all, a.lanes[kind].heap...)
	}
	slices.SortFunc(all, func(x, y *entry) int { return compare(x, y) })
	keep := a.most * 3 / 4
	a.horizon = min(a.horizon, all[keep].due)
	a.complete = min(a.complete, a.horizon)
	a.hungry = true
	for _, e := range all[keep:] {
		a.remove(e.id)
	}
}

// room tells whether more can be loaded.
func (a *agenda) room() bool { return a.size() <= a.most/2 }

// wants tells whether more is to be loaded now that there is room.
func (a *agenda) wants() bool { return a.hungry && a.room() }

// begin raises the horizon ahead of a load, when there is something to load and room for
// it. It tells from where.
func (a *agenda) begin(horizon int64) (from int64, load bool) {
	if a.complete >= horizon {
		return 0, false
	}
	if a.hungry = !a.room(); a.hungry {
		return 0, false
	}
	a.horizon = max(a.horizon, horizon)
	return a.complete, true
}

// loaded ends a load of all that is due before a horizon, as far as there was room.
func (a *agenda) loaded(horizon int64) { a.complete = max(a.complete, min(horizon, a.horizon)) }

// low is the earliest that is here, waiting or handed out.
func (a *agenda) low() int64 {
	low := int64(math.MaxInt64)
	for _, e := range a.entries {
		low = min(low, e.due)
		if e.state == fired || e.state == gone {
			low = min(low, e.began)
		}
	}
	return low
}

func compare(x, y *entry) int {
	switch {
	case x.due != y.due:
		return sign(x.due < y.due)
	case x.key != y.key:
		return sign(x.key < y.key)
	}
	return sign(x.second < y.second)
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// queue is a heap of entries by due time.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return compare(q[i], q[j]) < 0 }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is of container/heap.
func (q *queue) Push(element any) {
	e := element.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop is of container/heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
