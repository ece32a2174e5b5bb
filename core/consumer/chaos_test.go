package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	stores "prosody/core/store"
	"prosody/core/store/memory"
)

// dice are thrown by many goroutines.
type dice struct {
	mutex  sync.Mutex
	random *rand.Rand
}

func (d *dice) roll(sides int) int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.random.IntN(sides)
}

// access is what a call does. That a batch comes late is for the tests of core/entity.
type access int

const (
	reads access = iota
	applies
	hints
)

// flaky is the way of one process to the store: calls fail, take long, lose their answer, and
// hints are written long after the caller was told that they failed. One that is cut lets
// nothing through.
type flaky struct {
	stores.Store
	dice   *dice
	faulty *atomic.Bool
	cut    atomic.Bool
	late   *sync.WaitGroup
	faults *atomic.Int64
}

var errLine = fault.New(fault.Store, "the line is bad")

func (f *flaky) call(ctx context.Context, what access, call func(ctx context.Context) error) error {
	if f.cut.Load() {
		return errLine
	}
	if !f.faulty.Load() {
		return call(ctx)
	}
	n := f.dice.roll(200)
	if n < 30 {
		f.faults.Add(1)
	}
	switch {
	case n < 10:
		return errLine
	case n < 20 && what != reads:
		if err := call(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return errLine
	case n < 25 && what == hints:
		f.late.Go(func() {
			time.Sleep(time.Duration(f.dice.roll(20_000)) * time.Millisecond)
			_ = call(context.WithoutCancel(ctx))
		})
		return errLine
	case n < 30 && what != applies:
		time.Sleep(time.Duration(f.dice.roll(5000)) * time.Millisecond)
		if f.cut.Load() {
			return errLine
		}
	}
	return call(ctx)
}

func (f *flaky) Root(ctx context.Context, key stores.Key) (data []byte, err error) {
	err = f.call(ctx, reads, func(ctx context.Context) (err error) { data, err = f.Store.Root(ctx, key); return err })
	return data, err
}

func (f *flaky) Get(ctx context.Context, key stores.Key, slots []stores.Slot) (rows [][]byte, err error) {
	err = f.call(ctx, reads, func(ctx context.Context) (err error) { rows, err = f.Store.Get(ctx, key, slots); return err })
	return rows, err
}

func (f *flaky) Apply(ctx context.Context, key stores.Key, batch stores.Batch) error {
	return f.call(ctx, applies, func(ctx context.Context) error { return f.Store.Apply(ctx, key, batch) })
}

func (f *flaky) AddHint(ctx context.Context, shard stores.Shard, slab stores.Slab, key string, stamp int64, ttl time.Duration) error {
	return f.call(ctx, hints, func(ctx context.Context) error { return f.Store.AddHint(ctx, shard, slab, key, stamp, ttl) })
}

func (f *flaky) DropHint(ctx context.Context, shard stores.Shard, slab stores.Slab, key string, stamp int64) error {
	return f.call(ctx, hints, func(ctx context.Context) error { return f.Store.DropHint(ctx, shard, slab, key, stamp) })
}

func (f *flaky) Hints(ctx context.Context, shard stores.Shard, slab stores.Slab, after string, limit int) (keys []string, err error) {
	err = f.call(ctx, reads, func(ctx context.Context) (err error) {
		keys, err = f.Store.Hints(ctx, shard, slab, after, limit)
		return err
	})
	return keys, err
}

// order is a message: what its handler does. Seconds are 0 where there is none.
type order struct {
	ID    string `json:"id"`
	N     int    `json:"n"`
	Fail  int    `json:"fail"`          // attempts that fail, after they changed what they would
	Bad   bool   `json:"bad"`           // it fails for good
	Near  int64  `json:"near"`          // a second of its own, soon
	Far   int64  `json:"far"`           // a second that the test does not live to see
	Clear bool   `json:"clear"`         // takes all timers away; a key with near ones does not
	Now   bool   `json:"now,omitempty"` // its far timer is durable at once: a near one could fire before the event comes again
}

// script of events is made of a seed alone, so that runs with and without faults have the same.
func orders(seed uint64, keys, count int, base int64) map[string][]order {
	random := rand.New(rand.NewPCG(seed, 7))
	made, taken := map[string][]order{}, map[string]map[int64]bool{}
	for n := range count {
		k := random.IntN(keys)
		name := fmt.Sprint("k", k)
		o := order{ID: fmt.Sprint(name, "-", n), N: n, Bad: random.IntN(20) == 0, Now: random.IntN(4) == 0}
		if random.IntN(8) == 0 {
			o.Fail = 1 + random.IntN(3)
		}
		switch {
		case k%2 == 0 && random.IntN(2) == 0:
			for o.Near == 0 || taken[name][o.Near] {
				o.Near = base + int64(n/5+random.IntN(60))
			}
			if taken[name] == nil {
				taken[name] = map[int64]bool{}
			}
			taken[name][o.Near] = true
		case k%2 == 1:
			o.Clear = random.IntN(4) == 0
			if random.IntN(2) == 0 {
				o.Far = base + 1_000_000_000 + int64(random.IntN(20))
			}
		}
		made[name] = append(made[name], o)
	}
	return made
}

// ending is what is left of a key.
type ending struct {
	Messages []string
	Fired    []string
	Waiting  []int64
}

// wanted is the ending by the script.
func wanted(list []order) ending {
	var e ending
	far := map[int64]bool{}
	for _, o := range list {
		if o.Bad {
			continue
		}
		e.Messages = append(e.Messages, fmt.Sprint("m", o.N))
		if o.Clear {
			clear(far)
		}
		if o.Near != 0 {
			e.Fired = append(e.Fired, fmt.Sprint("t", o.Near))
		}
		if o.Far != 0 {
			far[o.Far] = true
		}
	}
	slices.Sort(e.Fired)
	e.Waiting = slices.Sorted(maps.Keys(far))
	return e
}

// play is one run of a script.
type play struct {
	*bench
	dice   *dice
	store  *memory.Store
	faulty atomic.Bool
	faults atomic.Int64
	late   sync.WaitGroup
	mutex  sync.Mutex
	tries  map[string]int
	crew   []*keeping
	lines  []*flaky
}

const journal = "journal"

func (p *play) host(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
	txn := i.Txn.(*entity.Txn)
	fail := func(err error) pipeline.Outcome {
		return pipeline.Outcome{Class: pipeline.Transient, Text: err.Error()}
	}
	time.Sleep(time.Duration(p.dice.roll(20)) * time.Millisecond)
	what, o := fmt.Sprint("t", i.Event.Timestamp/1000), order{}
	if i.Event.Kind == event.Message {
		if err := json.Unmarshal(i.Event.Payload, &o); err != nil {
			return fail(err)
		}
		what = fmt.Sprint("m", o.N)
	} else {
		o.Fail = int(i.Event.Timestamp/1000) % 7 / 5
	}
	var text string
	for _, header := range txn.Headers() {
		if header.Name == journal {
			text = string(header.Data)
		}
	}
	if err := txn.Join(entity.Part{Headers: []entity.Header{{Name: journal, Data: []byte(text + what + " ")}}}); err != nil {
		return fail(err)
	}
	if o.Clear {
		if err := txn.Clear(ctx, false); err != nil {
			return fail(err)
		}
	}
	for _, second := range []int64{o.Near, o.Far} {
		if second == 0 {
			continue
		}
		if err := txn.Schedule(ctx, second, o.Now && second == o.Far && !o.Clear && !o.Bad); err != nil {
			return fail(err)
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	name := i.Event.Key + what
	if p.tries[name]++; p.tries[name] <= o.Fail {
		return fail(errors.New("at random"))
	}
	if o.Bad {
		return pipeline.Outcome{Class: pipeline.Permanent, Text: "bad"}
	}
	return pipeline.Outcome{Class: pipeline.Success}
}

func (p *play) hire() {
	line := &flaky{Store: p.store, dice: p.dice, faulty: &p.faulty, late: &p.late, faults: &p.faults}
	p.lines = append(p.lines, line)
	p.crew = append(p.crew, p.keep(line, p.host))
}

// dismiss lets one member leave; cut: after its last write.
func (p *play) dismiss(cut bool) {
	n := p.dice.roll(len(p.crew))
	p.lines[n].cut.Store(cut)
	p.give(p.crew[n])
	p.crew, p.lines = slices.Delete(p.crew, n, n+1), slices.Delete(p.lines, n, n+1)
}

// mishap is what goes wrong now.
func (p *play) mishap() {
	switch n := p.dice.roll(100); {
	case n < 35 && len(p.crew) < 3:
		p.hire()
	case n < 55 && len(p.crew) > 1:
		p.dismiss(false)
	case n < 75 && len(p.crew) > 1:
		p.dismiss(true)
	default:
		p.broker.Expel(group)
	}
}

// ends reads what is left of each key.
func (p *play) ends(keys []string) (found map[string]ending, quiet bool) {
	found, quiet = map[string]ending{}, true
	lease := entity.New(entity.Options{Store: p.store, Group: group, Slab: time.Minute}).Assign(kafka.Partition{Topic: topic, Index: -1})
	for _, key := range keys {
		record, err := lease.Open(p.Context(), key)
		require.NoError(p, err)
		txn := record.Begin(nil)
		var e ending
		for _, header := range txn.Headers() {
			for _, what := range strings.Fields(string(header.Data)) {
				if what[0] == 'm' {
					e.Messages = append(e.Messages, what)
				} else {
					e.Fired = append(e.Fired, what)
				}
			}
		}
		slices.Sort(e.Fired)
		e.Waiting, err = txn.Scheduled(p.Context())
		require.NoError(p, err)
		if len(e.Waiting) == 0 {
			e.Waiting = nil
		}
		if queue := txn.Queue(); queue.Head != queue.Tail {
			quiet = false
		}
		txn.Discard()
		record.Close()
		found[key] = e
	}
	return found, quiet
}

// run plays a script, with mishaps or without.
func run(t *testing.T, seed uint64, count int, faulty bool) (found map[string]ending, steps int) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{
			bench: newBench(t, 4), dice: &dice{random: rand.New(rand.NewPCG(seed, 1))}, tries: map[string]int{},
			store: memory.NewRegistry(memory.Settings{}).Store("test"),
		}
		p.faulty.Store(faulty)
		script := orders(seed, 24, count, time.Now().Unix())
		left := maps.Clone(script)
		var sent []order
		p.hire()
		for len(left) > 0 {
			steps++
			if faulty && p.dice.roll(25) == 0 {
				p.mishap()
			}
			keys := slices.Sorted(maps.Keys(left))
			key := keys[p.dice.roll(len(keys))]
			o := left[key][0]
			sent = append(sent, o)
			if left[key] = left[key][1:]; len(left[key]) == 0 {
				delete(left, key)
			}
			p.post(key, o)
			if p.dice.roll(10) == 0 { // the sender repeats itself
				again := sent[p.dice.roll(len(sent))]
				p.post(strings.Split(again.ID, "-")[0], again)
			}
			time.Sleep(time.Duration(p.dice.roll(400)) * time.Millisecond)
		}
		p.faulty.Store(false)
		names := slices.Sorted(maps.Keys(script))
		for end := time.Now().Add(2 * time.Hour); time.Now().Before(end); time.Sleep(10 * time.Second) {
			var quiet bool
			if found, quiet = p.ends(names); quiet && assert.ObjectsAreEqual(plan(script), found) {
				break
			}
		}
		time.Sleep(10 * time.Minute) // what would come again comes now
		for len(p.crew) > 0 {
			p.dismiss(false)
		}
		p.late.Wait()
		found, _ = p.ends(names)
		assert.Equal(t, plan(script), found, "seed %d, faulty %v", seed, faulty)
		if faulty {
			assert.Positive(t, p.faults.Load())
		}
	})
	return found, steps
}

func (p *play) post(key string, o order) {
	payload, err := json.Marshal(o)
	require.NoError(p, err)
	p.send(key, string(payload))
}

func plan(script map[string][]order) map[string]ending {
	made := map[string]ending{}
	for key, list := range script {
		made[key] = wanted(list)
	}
	return made
}

// The same events come to the same end, whatever fails meanwhile: members come, leave, die and
// are expelled, and the store refuses, delays, does without a word, or does late what it is
// told. CHAOS is how many scripts are played.
func TestFaultsChangeNothing(t *testing.T) {
	scripts, total := 8, 0
	if value, err := strconv.Atoi(os.Getenv("CHAOS")); err == nil {
		scripts = value
	}
	for seed := range uint64(scripts) {
		calm, _ := run(t, seed, 250, false)
		wild, steps := run(t, seed, 250, true)
		total += steps
		require.Equal(t, calm, wild, "seed %d", seed)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d steps", total)
}
