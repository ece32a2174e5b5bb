package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// decode reads definitions of collections given as text: a JSON array of objects.
func (r *resolver) decode(option Option, set entry) []Collection {
	var objects []map[string]json.RawMessage
	if set.kind != plain || json.Unmarshal([]byte(set.text), &objects) != nil {
		r.add(Fault{Option: option.Name, Value: set.shown(), Rule: "must be a JSON array of objects", Class: Malformed})
		return nil
	}
	collections := make([]Collection, 0, len(objects))
	for i, object := range objects {
		names := make([]string, 0, len(object))
		for name := range object {
			names = append(names, name)
		}
		slices.Sort(names)
		collection := Collection{}
		for _, name := range names {
			raw := object[name]
			if string(raw) == "null" {
				continue
			}
			rule, class := collection.set(name, raw)
			if rule != "" {
				collection.broken = true
				r.add(Fault{Option: fmt.Sprintf("%s[%d].%s", option.Name, i, name), Value: string(raw), Rule: rule, Class: class})
			}
		}
		collections = append(collections, collection)
	}
	return collections
}

// set reads one attribute of a definition.
func (c *Collection) set(name string, raw json.RawMessage) (rule string, class Class) {
	text := func(field *string) string {
		if json.Unmarshal(raw, field) != nil {
			return "must be text"
		}
		return ""
	}
	truth := func(field *bool) string {
		if json.Unmarshal(raw, field) != nil {
			return "must be true or false"
		}
		return ""
	}
	whole := func(field **int64, rule string) string {
		value, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return rule
		}
		*field = &value
		return ""
	}
	switch name {
	case "name":
		return text(&c.Name), WrongType
	case "kind":
		return text(&c.Kind), WrongType
	case "payload":
		return text(&c.Payload), WrongType
	case "read_uncommitted":
		return truth(&c.ReadUncommitted), WrongType
	case "published":
		return truth(&c.Published), WrongType
	case "ttl_seconds":
		return whole(&c.TTLSeconds, "must be a whole number of seconds"), Malformed
	case "keyset_limit":
		return whole(&c.KeysetLimit, "must be a non-negative whole number"), Malformed
	case "capacity":
		return whole(&c.Capacity, "must be a positive whole number"), Malformed
	case "read_cache":
		return c.cache(raw), Malformed
	default:
		return "unknown attribute", UnknownName
	}
}

// cache reads seconds, a duration as text, or false.
func (c *Collection) cache(raw json.RawMessage) string {
	var value time.Duration
	var seconds float64
	var words string
	switch {
	case bytes.Equal(raw, []byte("true")):
		return "true is ambiguous; use a duration or false"
	case bytes.Equal(raw, []byte("false")):
	case json.Unmarshal(raw, &seconds) == nil:
		if seconds*float64(time.Second) >= math.MaxInt64 {
			return "duration too large"
		}
		if value = time.Duration(seconds * float64(time.Second)); value <= 0 {
			return "must be more than 0, or false for no cache"
		}
	case json.Unmarshal(raw, &words) == nil:
		read, rule := Option{Type: ReadCache, Optional: true}.parse(words)
		if rule != "" {
			return rule
		}
		if _, none := read.(off); !none {
			if value = read.(time.Duration); value <= 0 {
				return "must be more than 0, or false for no cache"
			}
		}
	default:
		return "must be seconds, a duration or false"
	}
	c.ReadCache = &value
	return ""
}
