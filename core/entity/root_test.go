package entity

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

func anyRoot(t *rapid.T) root {
	r := root{
		stamp:   rapid.Int64Min(0).Draw(t, "stamp"),
		version: rapid.Uint64().Draw(t, "version"),
		timers:  rapid.Int64Min(0).Draw(t, "timers"),
		slab:    rapid.Int64Min(0).Draw(t, "slab"),
		ids:     rapid.Int64Min(0).Draw(t, "ids"),
		cells:   rapid.Bool().Draw(t, "cells"),
		queue: Queue{
			Head: rapid.Uint64().Draw(t, "head"), Tail: rapid.Uint64().Draw(t, "tail"),
			Due: rapid.Int64().Draw(t, "due"), Count: rapid.Uint32().Draw(t, "count"),
		},
		stage: stage{rapid.Int64().Draw(t, "stage"), rapid.Int64().Draw(t, "chunks"), rapid.Bool().Draw(t, "decided")},
	}
	if r.homed = rapid.Bool().Draw(t, "homed"); r.homed {
		r.home = rapid.Int32Min(0).Draw(t, "home")
	}
	for range rapid.IntRange(0, maxMarks).Draw(t, "marks") {
		r.marks = append(r.marks, mark{rapid.Int32().Draw(t, "p"), rapid.Int64().Draw(t, "o"), rapid.Int64().Draw(t, "t")})
	}
	for range rapid.IntRange(0, maxInline).Draw(t, "seconds") {
		r.seconds = append(r.seconds, rapid.Uint32().Draw(t, "s"))
	}
	return r
}

func TestARootIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRoot(t)
		got, err := decodeRoot(want.encode())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestWhatANewerVersionKnowsStays(t *testing.T) {
	r := root{stamp: 5, version: 7}
	packed := protowire.AppendTag(r.encode(), 1000, protowire.BytesType)
	packed = protowire.AppendBytes(packed, []byte("later"))
	got, err := decodeRoot(packed)
	require.NoError(t, err)
	assert.True(t, got.lasting(), "nobody knows whether it may end")
	got.stamp = 6
	again, err := decodeRoot(got.encode())
	require.NoError(t, err)
	assert.Contains(t, string(again.unknown), "later")
	assert.EqualValues(t, 6, again.stamp)
}

func TestADamagedRootIsAnError(t *testing.T) {
	for _, packed := range [][]byte{{}, {2}, {layout, 0xff}, {layout, 0x08}, {layout, byte(fieldMark)<<3 | 2, 1, 5}, {layout, 0x1a, 0x09, 1}} {
		_, err := decodeRoot(packed)
		assert.Error(t, err, "%v", packed)
	}
	rapid.Check(t, func(t *rapid.T) {
		_, _ = decodeRoot(append([]byte{layout}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)) // no panic
	})
}

// The marks know each done event, as long as its partition is among the last 16.
func TestMarksCoverWhatIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r root
		var done []mark
		next := map[int32]int64{}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			p := rapid.Int32Range(0, 20).Draw(t, "partition")
			next[p] += rapid.Int64Range(1, 3).Draw(t, "step")
			m := mark{p, next[p], rapid.Int64Range(0, 100).Draw(t, "timestamp")}
			assert.False(t, covers(r, m), "it has not been done")
			old := r.marks
			kept := append([]mark(nil), old...)
			r.note(m)
			assert.Equal(t, kept, old, "another root may share them")
			done = append(done, m)
			for _, forgotten := range old {
				if !slices.ContainsFunc(r.marks, func(m mark) bool { return m.partition == forgotten.partition }) {
					done = slices.DeleteFunc(done, func(m mark) bool { return m.partition == forgotten.partition })
				}
			}
		}
		last := map[int32]bool{}
		for _, m := range r.marks {
			last[m.partition] = true
		}
		assert.LessOrEqual(t, len(r.marks), maxMarks)
		for _, m := range done {
			assert.True(t, covers(r, m))
		}
		if len(done) > 0 {
			assert.True(t, last[done[len(done)-1].partition])
		}
	})
}

func covers(r root, m mark) bool {
	for _, old := range r.marks {
		if old.covers(m) {
			return true
		}
	}
	return false
}

func TestATopicMadeAnewIsNotDone(t *testing.T) {
	var r root
	r.note(mark{0, 1000, 500})
	assert.True(t, covers(r, mark{0, 3, 400}))
	again := mark{0, 3, 501}
	assert.False(t, covers(r, again))
	r.note(again)
	assert.True(t, covers(r, again))
	assert.False(t, covers(r, mark{0, 4, 450}), "the next one of the new topic")
}
