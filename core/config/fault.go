package config

import (
	"fmt"
	"strings"
)

// Class is the kind of a fault; bindings choose the host's error type by it.
type Class int

// The classes of faults.
const (
	Malformed   Class = iota // "value": the text cannot be read
	WrongType                // "type": the option takes another kind of value
	OutOfRange               // "range"
	Missing                  // "missing"
	UnknownName              // "unknown"
)

// String returns the word used in reports.
func (c Class) String() string {
	return word(int(c), "value", "type", "range", "missing", "unknown")
}

// Fault is one thing wrong with the configuration.
type Fault struct {
	Option  string // name of the option, such as max_concurrency or state_collections[0].capacity
	Env     string // environment variable of the option; empty when it has none
	Value   string // the value as text; redacted when secret, empty when there is none
	Rule    string // what is broken
	Stage   Stage
	Class   Class
	FromEnv bool // the value came from the environment
}

// Error names the option, or the variable when the value came from the environment, the value and the rule.
func (f Fault) Error() string {
	switch {
	case f.Class == Missing && f.Env != "":
		return fmt.Sprintf("%s: %s (option not set, nor environment variable '$%s')", f.Option, f.Rule, f.Env)
	case f.Class == UnknownName && f.FromEnv:
		return fmt.Sprintf("environment variable '$%s' (%s): %s", f.Env, f.Option, f.Rule)
	case f.Class == Missing, f.Class == UnknownName:
		return f.Option + ": " + f.Rule
	case f.FromEnv:
		return fmt.Sprintf("environment variable '$%s' (%s) is %q: %s", f.Env, f.Option, f.Value, f.Rule)
	default:
		return fmt.Sprintf("%s is %q: %s", f.Option, f.Value, f.Rule)
	}
}

// Faults are all faults of a configuration, in the order of the table.
type Faults []Fault

// Error joins the texts of all faults.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, fault := range f {
		texts[i] = fault.Error()
	}
	return strings.Join(texts, "; ")
}

// At returns the faults that show at the given stage.
func (f Faults) At(stage Stage) Faults {
	return f.filter(func(fault Fault) bool { return fault.Stage == stage })
}

// Of returns the faults of the named options.
func (f Faults) Of(names ...string) Faults {
	return f.filter(func(fault Fault) bool {
		for _, name := range names {
			if fault.Option == name || strings.HasPrefix(fault.Option, name+"[") {
				return true
			}
		}
		return false
	})
}

// Err returns the error to show at the given stage, nil when there is none. The faults can be had
// from it with errors.As.
func (f Faults) Err(stage Stage) error {
	faults := f.At(stage)
	if len(faults) == 0 {
		return nil
	}
	switch stage {
	case Consumer:
		return fmt.Errorf("consumer configuration failed: %w", faults)
	case Subscribe:
		return fmt.Errorf("failed to initialize consumer: %w", faults)
	default:
		return faults
	}
}

func (f Faults) filter(keep func(Fault) bool) Faults {
	var kept Faults
	for _, fault := range f {
		if keep(fault) {
			kept = append(kept, fault)
		}
	}
	return kept
}
