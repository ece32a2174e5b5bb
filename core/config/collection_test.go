package config

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func pointer[T any](value T) *T { return &value }

func TestCollectionsThatAreRefused(t *testing.T) {
	cases := []struct {
		collection Collection
		field      string
		stage      Stage
	}{
		{Collection{Kind: KindValue}, "name", Subscribe},
		{Collection{Name: "a\x00", Kind: KindValue}, "name", Value},
		{Collection{Name: "a", Kind: "list"}, "kind", Value},
		{Collection{Name: "a", Kind: KindValue, Payload: "xml"}, "payload", Value},
		{Collection{Name: "a", Kind: KindSet, Payload: "message"}, "payload", Value},
		{Collection{Name: "a", Kind: KindValue, TTLSeconds: pointer[int64](0)}, "ttl_seconds", Subscribe},
		{Collection{Name: "a", Kind: KindValue, TTLSeconds: pointer[int64](630_720_001)}, "ttl_seconds", Subscribe},
		{Collection{Name: "a", Kind: KindValue, TTLSeconds: pointer[int64](-1)}, "ttl_seconds", Value},
		{Collection{Name: "a", Kind: KindValue, TTLSeconds: pointer[int64](math.MaxUint32 + 1)}, "ttl_seconds", Value},
		{Collection{Name: "a", Kind: KindMap, KeysetLimit: pointer[int64](4097)}, "keyset_limit", Subscribe},
		{Collection{Name: "a", Kind: KindMap, KeysetLimit: pointer[int64](-1)}, "keyset_limit", Value},
		{Collection{Name: "a", Kind: KindDeque, KeysetLimit: pointer[int64](1)}, "keyset_limit", Value},
		{Collection{Name: "a", Kind: KindDeque, Capacity: pointer[int64](0)}, "capacity", Value},
		{Collection{Name: "a", Kind: KindMap, Capacity: pointer[int64](1)}, "capacity", Value},
		{Collection{Name: "a", Kind: KindMap, ReadCache: pointer(time.Duration(-1))}, "read_cache", Value},
		{Collection{Name: "a", Kind: KindMap, Published: true}, "published", Subscribe},
	}
	for _, c := range cases {
		source := enough()
		require.NoError(t, source.AddCollection(Collection{Name: "fine", Kind: KindValue}))
		require.NoError(t, source.AddCollection(c.collection))
		config, faults := Resolve(source, nil)
		require.Len(t, faults, 1, "%+v", c.collection)
		assert.Equal(t, "state_collections[1]."+c.field, faults[0].Option)
		assert.Equal(t, c.stage, faults[0].Stage, "%+v", c.collection)
		assert.Len(t, config.Collections, 1)
		assert.Len(t, faults.Of("state_collections"), 1)
	}
}

func TestCollectionsWithOneName(t *testing.T) {
	source := enough()
	_ = source.AddCollection(Collection{Name: "a", Kind: KindValue})
	_ = source.AddCollection(Collection{Name: "a", Kind: KindValue, Payload: PayloadJSON})
	_ = source.AddCollection(Collection{Name: "a", Kind: KindDeque})
	c, faults := Resolve(source, nil)
	require.Len(t, faults, 1)
	assert.Equal(t, "state_collections[2].name", faults[0].Option)
	assert.Equal(t, Subscribe, faults[0].Stage)
	assert.Len(t, c.Collections, 1, "the same definition twice is one collection")
}

func TestMessagesCannotBePublished(t *testing.T) {
	source := enough()
	_ = source.Set("subsystem", "billing")
	_ = source.AddCollection(Collection{Name: "a", Kind: KindMap, Published: true})
	_ = source.AddCollection(Collection{Name: "b", Kind: KindMap, Payload: PayloadMessage, Published: true})
	_, faults := Resolve(source, nil)
	require.Len(t, faults, 1)
	assert.Equal(t, "state_collections[1].published", faults[0].Option)
}

func TestCollectionsAsText(t *testing.T) {
	source := enough()
	_ = source.Set("subsystem", "billing")
	require.NoError(t, source.Set("state_collections", `[
		{"name": "v", "kind": "value", "payload": "json", "ttl_seconds": 60, "read_uncommitted": true, "published": true, "read_cache": 1.5, "capacity": null},
		{"name": "s", "kind": "set", "payload": null, "keyset_limit": 0, "read_cache": false},
		{"name": "m", "kind": "map", "read_cache": "2s"},
		{"name": "d", "kind": "deque", "payload": "message", "capacity": 3}]`))
	require.NoError(t, source.AddCollection(Collection{Name: "last", Kind: KindMap}))
	c, faults := Resolve(source, nil)
	require.Empty(t, faults)
	require.Len(t, c.Collections, 5)
	v, s, m, d, last := c.Collections[0], c.Collections[1], c.Collections[2], c.Collections[3], c.Collections[4]
	assert.True(t, v.ReadUncommitted && v.Published)
	assert.Equal(t, time.Minute, v.TTL())
	assert.Equal(t, 1500*time.Millisecond, v.Cache(time.Hour))
	assert.Equal(t, time.Duration(0), s.Cache(time.Hour))
	assert.Equal(t, 2*time.Second, m.Cache(time.Hour))
	assert.Equal(t, time.Hour, last.Cache(time.Hour))
	assert.Equal(t, 0, s.Keys())
	assert.Equal(t, 128, m.Keys())
	assert.Equal(t, 3, d.Bound())
	assert.Zero(t, m.Bound())
	assert.Zero(t, m.TTL())
	assert.Empty(t, s.Payload)
	assert.Equal(t, PayloadMessage, d.Payload)
	assert.Equal(t, PayloadJSON, last.Payload)
	assert.Contains(t, c.String(), `state_collections="v,s,m,d,last"`)
}

func TestTextsOfCollectionsThatAreRefused(t *testing.T) {
	cases := []struct{ text, option, rule string }{
		{`[{"name":"a","kind":"value","ttl_seconds":1.5}]`, "state_collections[0].ttl_seconds", "whole number of seconds"},
		{`[{"name":"a","kind":"value"},{"name":"b","kind":"map","keyset_limit":"x"}]`, "state_collections[1].keyset_limit", "non-negative whole number"},
		{`[{"name":"a","kind":"deque","capacity":1e2}]`, "state_collections[0].capacity", "positive whole number"},
		{`[{"name":5,"kind":"value"}]`, "state_collections[0].name", "text"},
		{`[{"name":"a","kind":"value","published":1}]`, "state_collections[0].published", "true or false"},
		{`[{"name":"a","kind":"value","read_cache":true}]`, "state_collections[0].read_cache", "ambiguous"},
		{`[{"name":"a","kind":"value","read_cache":0}]`, "state_collections[0].read_cache", "more than 0"},
		{`[{"name":"a","kind":"value","read_cache":1e300}]`, "state_collections[0].read_cache", "too large"},
		{`[{"name":"a","kind":"value","read_cache":"5"}]`, "state_collections[0].read_cache", "unit"},
		{`[{"name":"a","kind":"value","read_cache":[]}]`, "state_collections[0].read_cache", "seconds"},
		{`[{"name":"a","kind":"value","color":1}]`, "state_collections[0].color", "unknown"},
		{`{"name":"a"}`, "state_collections", "JSON array"},
		{`x`, "state_collections", "JSON array"},
	}
	for _, c := range cases {
		source := enough()
		require.NoError(t, source.Set("state_collections", c.text))
		_, faults := Resolve(source, nil)
		require.Len(t, faults, 1, c.text)
		assert.Equal(t, c.option, faults[0].Option)
		assert.Equal(t, Value, faults[0].Stage)
		assert.Contains(t, faults[0].Rule, c.rule)
	}
}
