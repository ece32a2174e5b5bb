package entity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/entity"
	"prosody/core/fault"
	"prosody/core/store"
)

// faulty fails writes at random, before or after they happen.
type faulty struct {
	store.Store
	mutex  sync.Mutex
	random *rand.Rand
	rate   float64
	lost   int
}

// Limits are small, so that large changes are frequent.
func (f *faulty) Limits() store.Limits { return store.Limits{MaxBatch: 4096, MaxValue: 2048} }

func (f *faulty) draw() (fails, lost bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	fails = f.random.Float64() < f.rate
	if lost = fails && f.random.IntN(2) == 0; lost {
		f.lost++
	}
	return fails, lost
}

func (f *faulty) trouble(call func() error) error {
	fails, lost := f.draw()
	if !fails {
		return call()
	}
	if lost {
		if err := call(); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Store, errDown, "injected")
}

func (f *faulty) Apply(ctx context.Context, at store.Key, batch store.Batch) error {
	return f.trouble(func() error { return f.Store.Apply(ctx, at, batch) })
}

func (f *faulty) AddHint(ctx context.Context, shard store.Shard, slab store.Slab, key string, stamp int64, ttl time.Duration) error {
	return f.trouble(func() error { return f.Store.AddHint(ctx, shard, slab, key, stamp, ttl) })
}

// effect is a change of a transaction and of the model.
type effect struct {
	do    func(*entity.Txn)
	model func(*facts)
}

func (m *machine) effects(most int) []effect {
	var list []effect
	ok := func(err error) { require.NoError(m.t, err) }
	for range m.random.IntN(most) {
		second := m.clock.Now().Unix() + int64(m.random.IntN(300))
		name, data := fmt.Sprint(m.random.IntN(20)), fmt.Sprint(m.random.Int())
		switch m.random.IntN(8) {
		case 0, 1:
			list = append(list, effect{
				func(txn *entity.Txn) { ok(txn.Schedule(m.t.Context(), second, false)) },
				func(f *facts) { f.timers[second] = true },
			})
		case 2:
			list = append(list, effect{
				func(txn *entity.Txn) { ok(txn.Replace(m.t.Context(), second, false)) },
				func(f *facts) { clear(f.timers); f.timers[second] = true },
			})
		case 3:
			list = append(list, effect{
				func(txn *entity.Txn) { ok(txn.Put(cell(name, []byte(data)))) },
				func(f *facts) { f.cells[name] = data },
			})
		case 4:
			list = append(list, effect{
				func(txn *entity.Txn) { txn.Delete(cell(name, nil).Slot) },
				func(f *facts) { delete(f.cells, name) },
			})
		case 5: // more than fits in a batch
			big := fmt.Sprintf("%0900d", m.random.Int())
			for n := range 8 {
				name := fmt.Sprint(n)
				list = append(list, effect{
					func(txn *entity.Txn) { ok(txn.Put(cell(name, []byte(big)))) },
					func(f *facts) { f.cells[name] = big },
				})
			}
		case 6:
			list = append(list, effect{
				func(txn *entity.Txn) {
					_, err := txn.Append([]byte(data))
					ok(err)
				},
				func(f *facts) { f.queue = append(f.queue, data) },
			})
		case 7:
			list = append(list, effect{
				func(txn *entity.Txn) { txn.Erase(store.Range{Kind: store.Cell, Name: "cells"}) },
				func(f *facts) { clear(f.cells) },
			})
		}
	}
	return list
}
