package handle

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

type first struct{ n int }
type second struct{ n int }

func TestKindsAndStaleHandles(t *testing.T) {
	table := New()
	one := &first{1}
	a := Open(table, "first", one)
	b := Open(table, "second", &second{2})
	assert.Same(t, one, Get[first](table, a))
	assert.Nil(t, Get[first](table, b))
	assert.Nil(t, Get[second](table, a))
	assert.Nil(t, Close[second](table, "second", a))
	assert.Same(t, one, Close[first](table, "first", a))
	assert.Nil(t, Close[first](table, "first", a))
	assert.Nil(t, Get[first](table, a))
	assert.Equal(t, map[string]int{"first": 0, "second": 1}, table.Live())
	Close[second](table, "second", b)
}

func TestFreedAddressesStayReserved(t *testing.T) {
	table := New()
	seen := map[uintptr]bool{}
	for range Reserved {
		a := Open(table, "first", &first{})
		assert.False(t, seen[a])
		seen[a] = true
		Close[first](table, "first", a)
	}
	for range 3 * Reserved { // the ring goes round
		a := Open(table, "first", &first{})
		assert.NotNil(t, Close[first](table, "first", a))
		assert.Nil(t, Get[first](table, a))
	}
}

func TestMadeUpAddresses(t *testing.T) {
	table := New()
	a := Open(table, "first", &first{})
	defer Close[first](table, "first", a)
	for range 100_000 {
		if made := uintptr(rand.Uint64()); made != a {
			assert.Nil(t, Get[first](table, made))
		}
	}
	for _, made := range []uintptr{0, 1, ^uintptr(0), 0xc000000000, a + 1, a - 1} {
		assert.Nil(t, Get[first](table, made))
	}
}

func TestOneOfManyClosesWins(t *testing.T) {
	table := New()
	for range 200 {
		a := Open(table, "first", &first{})
		var won atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				Get[first](table, a)
				if Close[first](table, "first", a) != nil {
					won.Add(1)
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, 1, won.Load())
	}
	assert.Zero(t, table.Live()["first"])
}
