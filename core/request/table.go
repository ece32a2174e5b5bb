package request

// ID names a request: a UUID of version 7.
type ID [16]byte

// remembered is how many requests that have ended are told from those that never were.
const remembered = 4096

// Verdict is what became of an answer that came.
type Verdict uint8

// The verdicts. All but the first leave the table as it was.
const (
	Accepted  Verdict = iota + 1
	Duplicate         // the subsystem has answered before: the first answer counts
	Foreign           // of a subsystem that was not asked
	Late              // the request is over
	Unknown           // there was no such request
)

// waiting is a request whose end has not come.
type waiting struct {
	answers []Answer // in the order of the names; Kind is 0 where none has come
	open    int
}

// table is the state of all requests: which wait, and for whom. It knows no time and
// takes no locks.
type table struct {
	pending map[ID]*waiting
	ended   map[ID]struct{}
	ring    []ID // of ended, the oldest at next
	next    int
}

func newTable() *table { return &table{pending: map[ID]*waiting{}, ended: map[ID]struct{}{}} }

// open begins a request of distinct subsystems.
func (t *table) open(id ID, subsystems []string) {
	one := &waiting{answers: make([]Answer, len(subsystems)), open: len(subsystems)}
	for i, name := range subsystems {
		one.answers[i].Subsystem = name
	}
	t.pending[id] = one
}

// settle takes an answer. With the last one the request is over, and all are returned.
func (t *table) settle(id ID, answer Answer) (Verdict, []Answer) {
	one := t.pending[id]
	if one == nil {
		if _, over := t.ended[id]; over {
			return Late, nil
		}
		return Unknown, nil
	}
	for i := range one.answers {
		if one.answers[i].Subsystem != answer.Subsystem {
			continue
		}
		if one.answers[i].Kind != 0 {
			return Duplicate, nil
		}
		one.answers[i] = answer
		if one.open--; one.open > 0 {
			return Accepted, nil
		}
		t.end(id)
		return Accepted, one.answers
	}
	return Foreign, nil
}

// expire ends a request: who has not answered is a Timeout. Nil: it is over already.
func (t *table) expire(id ID) []Answer {
	one := t.pending[id]
	if one == nil {
		return nil
	}
	t.end(id)
	for i := range one.answers {
		if one.answers[i].Kind == 0 {
			one.answers[i].Kind = Timeout
		}
	}
	return one.answers
}

// end forgets a request, but that it was. False: it is over already.
func (t *table) end(id ID) bool {
	if _, there := t.pending[id]; !there {
		return false
	}
	delete(t.pending, id)
	t.ended[id] = struct{}{}
	if len(t.ring) < remembered {
		t.ring = append(t.ring, id)
		return true
	}
	delete(t.ended, t.ring[t.next])
	t.ring[t.next] = id
	t.next = (t.next + 1) % remembered
	return true
}
