package mock

import (
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/store"
)

// Calls are kinds of call that can be made to fail, as bits.
type Calls uint32

// The kinds of call.
const (
	Read    Calls = 1 << iota // of the store; the name is the key
	Write                     // to the store; the name is the key
	Produce                   // the name is the topic
	Consume                   // the name is the group
	Commit                    // of offsets; the name is the group
	all     = Commit<<1 - 1
)

// rule makes calls fail.
type rule struct {
	calls Calls
	name  string // "": any
	times int64  // that are left; below 0: without an end
}

// Fail makes the next calls of some kinds fail, so many of each rule; below 0 all of them.
// A name narrows it. times 0 takes back what was said of these kinds and this name.
func (w *World) Fail(calls Calls, name string, times int64) error {
	if calls == 0 || calls&^all != 0 {
		return fault.New(fault.Argument, "calls: %d is no set of kinds of call", calls)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	kept := w.rules[:0]
	for _, one := range w.rules {
		if times == 0 && one.name == name {
			one.calls &^= calls
		}
		if one.calls != 0 && one.times != 0 {
			kept = append(kept, one)
		}
	}
	w.rules = kept
	if times != 0 {
		w.rules = append(w.rules, &rule{calls, name, times})
	}
	if len(w.rules) == 0 {
		w.store.Fail(nil)
		w.Broker.Fail(nil)
		return nil
	}
	w.store.Fail(w.storing)
	w.Broker.Fail(w.brokering)
	return nil
}

// hit tells whether a call is to fail, and counts it.
func (w *World) hit(call Calls, name string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, one := range w.rules {
		if one.calls&call == 0 || one.times == 0 || one.name != "" && one.name != name {
			continue
		}
		if one.times > 0 {
			one.times--
		}
		return true
	}
	return false
}

var reads = map[string]bool{"Root": true, "Get": true, "Scan": true, "Hints": true, "Slabs": true, "Publications": true}

func (w *World) storing(operation string, key store.Key) error {
	kind := Write
	if reads[operation] {
		kind = Read
	}
	if w.hit(kind, key.Key) {
		return fault.New(fault.Store, "the store does not answer, as the test wants: %s", operation)
	}
	return nil
}

var brokered = map[string]Calls{"produce": Produce, "consume": Consume, "commit": Commit, "read": Consume}

func (w *World) brokering(operation, name string) error {
	if w.hit(brokered[operation], name) {
		return &kafka.Error{Code: kafka.Unavailable, Text: "no broker answers, as the test wants: " + operation}
	}
	return nil
}
