package config

import (
	"slices"
	"strings"
)

// Source holds what the host set, in order. Its zero value is ready to use. It may be read by several
// goroutines, but not while it is changed.
type Source struct {
	entries     []entry
	collections []Collection
}

type entry struct {
	name  string
	kind  kind
	text  string
	items []string
}

type kind int

const (
	plain kind = iota
	items
	none
)

// Set records the value of an option as text, in the grammar of the environment. An unknown name is an
// error at once (and a fault of Resolve); a value that cannot be read is a fault of Resolve.
func (s *Source) Set(name, value string) error {
	return s.put(entry{name: name, text: value})
}

// SetList records the items of a list as they are; commas in an item do not split it.
func (s *Source) SetList(name string, list []string) error {
	return s.put(entry{name: name, kind: items, items: slices.Clone(list)})
}

// SetNone switches an option off explicitly. Only some options can be.
func (s *Source) SetNone(name string) error {
	return s.put(entry{name: name, kind: none})
}

// AddCollection adds the definition of a collection. Its faults are reported by Resolve.
func (s *Source) AddCollection(collection Collection) error {
	s.collections = append(s.collections, collection)
	return nil
}

// Clone returns a copy that can be changed by itself.
func (s *Source) Clone() *Source {
	return &Source{entries: slices.Clone(s.entries), collections: slices.Clone(s.collections)}
}

// String names what is set, without any value.
func (s Source) String() string {
	names := make([]string, len(s.entries))
	for i, entry := range s.entries {
		names[i] = entry.name
	}
	return "options set: " + strings.Join(names, ", ")
}

// GoString is String, so that no verb of fmt shows a secret.
func (s Source) GoString() string { return s.String() }

// put replaces an earlier value of the same option.
func (s *Source) put(set entry) error {
	s.entries = slices.DeleteFunc(s.entries, func(old entry) bool { return old.name == set.name })
	s.entries = append(s.entries, set)
	if fault, bad := reject(set.name, catalogue()); bad {
		return fault
	}
	return nil
}

func (s *Source) get(name string) (entry, bool) {
	for _, entry := range s.entries {
		if entry.name == name {
			return entry, true
		}
	}
	return entry{}, false
}

// reject reports a name that no host may set.
func reject(name string, table map[string]Option) (Fault, bool) {
	fault := Fault{Option: name, Stage: Value, Class: UnknownName}
	if strings.HasPrefix(name, kafkaPrefix) {
		if rule := property(strings.TrimPrefix(name, kafkaPrefix)); rule != "" {
			fault.Rule = rule
			return fault, true
		}
		return Fault{}, false
	}
	option, known := table[name]
	switch {
	case !known:
		fault.Rule = "unknown option" + suggest(name, table)
	case option.EnvOnly:
		fault.Env, fault.Class = option.Env, WrongType
		fault.Rule = "can be set by its environment variable only"
	default:
		return Fault{}, false
	}
	return fault, true
}

// suggest returns "; did you mean …?" when a known name is close.
func suggest(name string, table map[string]Option) string {
	folded := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	folded = strings.TrimPrefix(folded, strings.ToLower(prefix))
	names := make([]string, 0, len(table))
	for known, option := range table {
		if !option.EnvOnly {
			names = append(names, known)
		}
	}
	slices.Sort(names)
	best, least := "", max(2, len(folded)/3)+1
	for _, known := range names {
		if far := distance(folded, known); far < least {
			best, least = known, far
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the Levenshtein distance of two texts, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
