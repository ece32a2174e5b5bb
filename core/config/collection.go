package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// Kinds and payloads of collections.
const (
	KindValue      = "value"
	KindMap        = "map"
	KindSet        = "set"
	KindDeque      = "deque"
	PayloadJSON    = "json"
	PayloadMessage = "message"
)

const (
	defaultKeys = 128 // keyset_limit where none is given
	mostKeys    = 4096
	longestTTL  = 630_720_000 // seconds
)

// Collection is the definition of a collection of keyed state. Nil means not given.
type Collection struct {
	Name            string
	Kind            string
	Payload         string // empty: PayloadJSON; for a set always empty
	TTLSeconds      *int64
	ReadUncommitted bool
	Published       bool
	ReadCache       *time.Duration // 0: published values are read anew each time; nil: as state_read_cache says
	KeysetLimit     *int64
	Capacity        *int64

	broken bool // its faults were reported while it was read; the rest is not judged
}

// TTL returns the time to live, 0 when values do not expire.
func (c Collection) TTL() time.Duration {
	if c.TTLSeconds == nil {
		return 0
	}
	return time.Duration(*c.TTLSeconds) * time.Second
}

// Keys returns the greatest number of keys that are kept beside the record of a map or set.
func (c Collection) Keys() int {
	if c.KeysetLimit == nil {
		return defaultKeys
	}
	return int(*c.KeysetLimit)
}

// Bound returns the capacity of a deque, 0 when it has none.
func (c Collection) Bound() int {
	if c.Capacity == nil {
		return 0
	}
	return int(*c.Capacity)
}

// Cache returns how long published values of the collection may be reused, 0 when never.
func (c Collection) Cache(inherited time.Duration) time.Duration {
	if c.ReadCache == nil {
		return inherited
	}
	return *c.ReadCache
}

func titles(collections []Collection) []string {
	names := make([]string, len(collections))
	for i, collection := range collections {
		names[i] = collection.Name
	}
	return names
}

// definitions checks all collections, those given as text first.
func (r *resolver) definitions(option Option) {
	var all []Collection
	if set, ok := r.source.get(option.Name); ok {
		all = append(all, r.decode(option, set)...)
	}
	all = append(all, r.source.collections...)
	seen := map[string]Collection{}
	for i, collection := range all {
		if collection.broken {
			continue
		}
		before := len(r.faults)
		collection = r.definition(fmt.Sprintf("%s[%d]", option.Name, i), collection)
		first, repeated := seen[collection.Name]
		switch {
		case len(r.faults) > before:
		case !repeated:
			seen[collection.Name] = collection
			r.config.Collections = append(r.config.Collections, collection)
		case !reflect.DeepEqual(first, collection):
			r.add(Fault{Option: fmt.Sprintf("%s[%d].name", option.Name, i), Value: collection.Name,
				Rule: "another definition has the same name", Stage: Subscribe, Class: OutOfRange})
		}
	}
	if len(all) > 0 {
		r.config.given[option.Name] = Explicit
	}
}

// definition checks one collection and fills in what follows from its kind.
func (r *resolver) definition(at string, c Collection) Collection {
	fault := func(field, value, rule string, stage Stage, class Class) {
		r.add(Fault{Option: at + "." + field, Value: value, Rule: rule, Stage: stage, Class: class})
	}
	keyed := c.Kind == KindMap || c.Kind == KindSet
	switch {
	case strings.TrimSpace(c.Name) == "":
		fault("name", c.Name, "must not be empty", Subscribe, OutOfRange)
	case !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0):
		fault("name", c.Name, "must be valid UTF-8 without NUL characters", Value, Malformed)
	}
	switch c.Kind {
	case KindValue, KindMap, KindDeque:
		if c.Payload == "" {
			c.Payload = PayloadJSON
		}
		if c.Payload != PayloadJSON && c.Payload != PayloadMessage {
			fault("payload", c.Payload, "must be json or message", Value, Malformed)
		}
	case KindSet:
		if c.Payload != "" && c.Payload != "presence" {
			fault("payload", c.Payload, "a set has no payload", Value, Malformed)
		}
		c.Payload = ""
	default:
		fault("kind", c.Kind, "must be value, map, set or deque", Value, Malformed)
		return c
	}
	if c.TTLSeconds != nil {
		ttl := *c.TTLSeconds
		switch text := fmt.Sprint(ttl); {
		case ttl < 0 || ttl > math.MaxUint32:
			fault("ttl_seconds", text, "must be a whole number of seconds", Value, Malformed)
		case ttl == 0 || ttl > longestTTL:
			fault("ttl_seconds", text, fmt.Sprintf("must be between 1 and %d", longestTTL), Subscribe, OutOfRange)
		}
	}
	if c.KeysetLimit != nil {
		limit := *c.KeysetLimit
		switch text := fmt.Sprint(limit); {
		case !keyed:
			fault("keyset_limit", text, "is for maps and sets only", Value, WrongType)
		case limit < 0:
			fault("keyset_limit", text, "must be a non-negative whole number", Value, Malformed)
		case limit > mostKeys:
			fault("keyset_limit", text, fmt.Sprintf("must be between 0 and %d", mostKeys), Subscribe, OutOfRange)
		}
	}
	if c.Capacity != nil {
		capacity := *c.Capacity
		switch text := fmt.Sprint(capacity); {
		case c.Kind != KindDeque:
			fault("capacity", text, "is for deques only", Value, WrongType)
		case capacity < 1 || capacity > math.MaxInt32:
			fault("capacity", text, fmt.Sprintf("must be a positive whole number, at most %d", math.MaxInt32), Value, Malformed)
		}
	}
	if c.ReadCache != nil && *c.ReadCache < 0 {
		fault("read_cache", c.ReadCache.String(), "must be more than 0, or false for no cache", Value, Malformed)
	}
	if c.Published && c.Payload == PayloadMessage {
		fault("published", "true", "collections of messages cannot be published", Subscribe, OutOfRange)
	}
	if c.Published && r.config.Subsystem == "" {
		fault("published", "true", "needs the option subsystem", Subscribe, OutOfRange)
	}
	return c
}
