package entity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"prosody/core/store"
)

func TestIDs(t *testing.T) {
	assert.NotEqual(t, identify("1", "2x"), identify("12", "x"), "where the version ends matters")
	assert.NotEqual(t, identify("1", "x"), identify("2", "x"))
	again := identify("1", "x")
	assert.Equal(t, again, identify("1", "x"))
	assert.Len(t, identify("1", "x").slot().Coordinate, 16)
}

// An id that is not in a complete set was never remembered, or is over.
func TestTheSetOfIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s idset
		model := map[string]int64{}
		now := int64(1000)
		for range rapid.IntRange(0, 20).Draw(t, "rounds") {
			now += rapid.Int64Range(0, 500).Draw(t, "pass")
			for range rapid.IntRange(0, 600).Draw(t, "many") {
				name := fmt.Sprint(len(model))
				model[name] = now + 800
				s.add(identify("", name), now+800, now)
			}
			for name, until := range model {
				has := s.has(identify("", name), now)
				if has && until <= now || !has && until > now && !s.more {
					t.Fatalf("%s until %d at %d: %t, more %t", name, until, now, has, s.more)
				}
			}
			assert.LessOrEqual(t, len(s.until), maxIDs)
			assert.LessOrEqual(t, len(s.order), 2*maxIDs+2)
		}
	})
}

func TestASetIsFilledFromRows(t *testing.T) {
	var s idset
	var rows []store.Row
	for n := range 10 {
		rows = append(rows, identify("", fmt.Sprint(n)).put(int64(100+n), int64(n), 0).Row)
	}
	rows = append(rows, store.Row{Slot: store.Slot{Coordinate: "odd"}})
	assert.EqualValues(t, 9, s.fill(rows, 104), "the highest stamp")
	for n := range 10 {
		assert.Equal(t, n > 4, s.has(identify("", fmt.Sprint(n)), 104))
	}
}
