package state_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/entity"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/state"
	"prosody/core/store"
	"prosody/core/store/disk"
	"prosody/core/store/memory"
	"prosody/core/store/storetest"
)

// world is a store, and the owner of a key over it.
type world struct {
	t        require.TestingT
	ctx      context.Context
	clock    *clock.Manual
	broken   *broken
	store    *storetest.Counter
	key      string
	registry *state.Registry
	lease    *entity.Lease
	entity   *entity.Entity
	bytes    int64  // of the owner's memory; 0: as is usual
	dir      string // of the disk cache; "": none
	disk     *disk.Cache
	read     func(offset int64) // hears of each message that is read
	offset   int64
	records  map[int64]*kafka.Record
}

func of(kind, payload, name string, change ...func(*config.Collection)) config.Collection {
	made := config.Collection{Name: name, Kind: kind, Payload: payload}
	for _, one := range change {
		one(&made)
	}
	return made
}

func ttl(seconds int64) func(*config.Collection) {
	return func(c *config.Collection) { c.TTLSeconds = &seconds }
}

func limit(keys int64) func(*config.Collection) {
	return func(c *config.Collection) { c.KeysetLimit = &keys }
}

func capacity(most int64) func(*config.Collection) {
	return func(c *config.Collection) { c.Capacity = &most }
}

func usual() []config.Collection {
	return []config.Collection{
		of("value", "json", "value"), of("map", "json", "map"), of("map", "json", "tiny", limit(3)), of("map", "json", "untracked", limit(0)),
		of("set", "", "set"), of("deque", "json", "deque"), of("deque", "json", "bounded", capacity(3)),
		of("value", "message", "last"), of("map", "message", "named"), of("deque", "message", "backlog"),
		of("value", "json", "brief", ttl(2)), of("map", "json", "briefs", ttl(2)), of("deque", "json", "fading", ttl(2)),
	}
}

func start(t require.TestingT, ctx context.Context, collections []config.Collection) *world {
	manual := clock.NewManual(time.Unix(1_700_000_000, 0))
	return startOn(t, ctx, memory.NewRegistry(memory.Settings{Clock: manual}).Store("x"), manual, collections)
}

func startOn(t require.TestingT, ctx context.Context, on store.Store, manual *clock.Manual, collections []config.Collection) *world {
	w := &world{t: t, ctx: ctx, clock: manual, key: rand.Text(), records: map[int64]*kafka.Record{}}
	w.broken = &broken{Store: on}
	w.store = storetest.Counting(w.broken)
	w.define(collections)
	w.assign()
	return w
}

func (w *world) define(collections []config.Collection) {
	w.registry = state.New(state.Options{
		Collections: collections, Clock: w.clock, Bytes: w.bytes,
		Read: func(_ context.Context, _ kafka.Partition, offset int64) (*kafka.Record, error) {
			if w.read != nil {
				w.read(offset)
			}
			if record := w.records[offset]; record != nil {
				return record, nil
			}
			return nil, &kafka.Error{Code: kafka.Gone, Text: "it is gone"}
		},
	})
}

// assign is another process.
func (w *world) assign() {
	if w.lease != nil {
		w.entity.Close()
		w.lease.End()
	}
	w.over(w.store)
}

func (w *world) over(over store.Store) {
	options := entity.Options{Store: over, Group: "g", Version: "1", Clock: w.clock, Bytes: w.bytes}
	if w.dir != "" {
		require.NoError(w.t, w.disk.Close())
		var err error
		w.disk, err = disk.Open(disk.Options{Dir: w.dir, Bytes: 1 << 20})
		require.NoError(w.t, err)
		options.Disk, options.Cache = w.disk, 1
	}
	keeper := entity.New(options)
	w.lease = keeper.Assign(kafka.Partition{Topic: "orders", Index: 3})
	opened, err := w.lease.Open(w.ctx, w.key)
	require.NoError(w.t, err)
	w.entity = opened
}

// evict lets another key take the place in memory.
func (w *world) evict() {
	w.entity.Close()
	other, err := w.lease.Open(w.ctx, "other")
	require.NoError(w.t, err)
	other.Close()
	w.entity, err = w.lease.Open(w.ctx, w.key)
	require.NoError(w.t, err)
}

func (w *world) message() *event.Event {
	w.offset++
	record := &kafka.Record{Topic: "orders", Partition: 3, Offset: w.offset, Key: []byte("k"), Value: []byte(`{"n":1}`), Timestamp: 1}
	w.records[w.offset] = record
	made, invalid := event.Decode(record, w.clock.Now())
	if invalid != nil {
		w.t.Errorf("%s", invalid.Reason)
		w.t.FailNow()
	}
	return made
}

// broken is a store whose writes fail while it is told so: before or after they are done.
type broken struct {
	store.Store
	fails, lost, flaky bool
}

// Apply writes, or fails.
func (b *broken) Apply(ctx context.Context, key store.Key, batch store.Batch) error {
	if b.fails && !b.lost {
		return fault.New(fault.Store, "down")
	}
	err := b.Store.Apply(ctx, key, batch)
	if err == nil && b.fails {
		return fault.New(fault.Store, "lost")
	}
	return err
}

// Get reads, or fails.
func (b *broken) Get(ctx context.Context, key store.Key, slots []store.Slot) ([][]byte, error) {
	if b.flaky {
		return nil, fault.New(fault.Store, "down")
	}
	return b.Store.Get(ctx, key, slots)
}

// Scan reads, or fails.
func (b *broken) Scan(ctx context.Context, key store.Key, span store.Range, backward bool, limit int) ([]store.Row, bool, error) {
	if b.flaky {
		return nil, false, fault.New(fault.Store, "down")
	}
	return b.Store.Scan(ctx, key, span, backward, limit)
}

// attempt is one run of a handler.
type attempt struct {
	w       *world
	ctx     context.Context
	event   *event.Event
	txn     *entity.Txn
	session *state.Session
}

func (w *world) begin() *attempt {
	a := &attempt{w: w, ctx: w.ctx, event: w.message()}
	a.txn = w.entity.Begin(a.event)
	a.session = w.registry.Begin(a.txn, a.event)
	return a
}

func (a *attempt) succeed() {
	require.NoError(a.w.t, a.session.End(a.w.ctx, true))
	require.NoError(a.w.t, a.txn.Commit(a.w.ctx, entity.Mark{Event: a.event}))
}

func (a *attempt) fail() {
	require.NoError(a.w.t, a.session.End(a.w.ctx, false))
	a.txn.Discard()
}

func (w *world) run(work func(a *attempt)) {
	a := w.begin()
	work(a)
	a.succeed()
}

func bind[H state.Handle](a *attempt, kind, payload, name string) H {
	handle, err := a.session.Bind(state.Identity{Name: name, Kind: kind, Payload: payload})
	require.NoError(a.w.t, err)
	return handle.(H)
}

func (a *attempt) value(name string) *state.Value {
	return bind[*state.Value](a, "value", "json", name)
}
func (a *attempt) mapping(name string) *state.Map { return bind[*state.Map](a, "map", "json", name) }
func (a *attempt) set(name string) *state.Set     { return bind[*state.Set](a, "set", "", name) }
func (a *attempt) deque(name string) *state.Deque {
	return bind[*state.Deque](a, "deque", "json", name)
}

func js(text string) state.Item { return state.Item{JSON: []byte(text)} }

// all is what is left of a scan.
func all(t testing.TB, ctx context.Context, scan *state.Scan, err error) (entries []state.Entry) {
	require.NoError(t, err)
	for {
		some, err := scan.Next(ctx, 7)
		require.NoError(t, err)
		if len(some) == 0 {
			return entries
		}
		entries = append(entries, some...)
	}
}

func markOf(a *attempt) entity.Mark { return entity.Mark{Event: a.event} }
