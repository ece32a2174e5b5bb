package token

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New[int](Collection)
		live, dead := map[uint64]*int{}, map[uint64]bool{}
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			if len(live) == 0 || rapid.IntRange(0, 2).Draw(t, "act") > 0 {
				value := new(int)
				name := table.Issue(value)
				assert.NotContains(t, live, name)
				assert.NotContains(t, dead, name)
				live[name] = value
				continue
			}
			for name, value := range live {
				assert.Same(t, value, table.Drop(name))
				assert.Nil(t, table.Drop(name))
				delete(live, name)
				dead[name] = true
				break
			}
		}
		for name, value := range live {
			found, stale := table.Find(name)
			assert.Same(t, value, found)
			assert.False(t, stale)
		}
		for name := range dead {
			found, stale := table.Find(name)
			assert.Nil(t, found)
			assert.True(t, stale, "a name that was issued is stale, not unknown")
		}
		assert.EqualValues(t, len(live), table.Used())
	})
}

func TestForeignNames(t *testing.T) {
	collections, scans := New[int](Collection), New[int](Scan)
	name, scan := collections.Issue(new(int)), scans.Issue(new(int))
	for _, none := range []uint64{
		0, 1, 1 << 32, 1<<64 - 1, scan, name + 1, name + 1<<placeBits, name &^ uint64(Scan), uint64(Collection),
	} {
		found, stale := collections.Find(none)
		assert.Nil(t, found, "%x", none)
		assert.False(t, stale, "%x", none)
		assert.Nil(t, collections.Drop(none))
	}
	found, _ := scans.Find(name)
	assert.Nil(t, found)
}

func TestGenerationsWrap(t *testing.T) {
	table := New[int](Scan)
	first := table.Issue(new(int))
	table.Drop(first)
	cell, _ := table.cell(first)
	cell.last = most
	name := table.Issue(new(int))
	assert.NotNil(t, table.Drop(name))
	assert.Equal(t, first, name, "a generation is never 0")
}

func TestManyGoroutines(t *testing.T) {
	table := New[int](Scan)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 2000 {
				value := new(int)
				name := table.Issue(value)
				found, _ := table.Find(name)
				assert.Same(t, value, found)
				assert.Same(t, value, table.Drop(name))
			}
		})
	}
	group.Wait()
	assert.Zero(t, table.Used())
}
