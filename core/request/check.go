package request

import (
	"math"
	"strings"
	"time"

	"prosody/core/fault"
)

// The limits of a request.
const (
	maxSubsystems = 64
	maxName       = 1024
	maxTimeout    = 366 * 24 * time.Hour
)

// check gives the names of the subsystems without blanks around them.
func check(ask Ask) ([]string, error) {
	switch {
	case len(ask.Subsystems) == 0:
		return nil, fault.New(fault.Invalid, "a request must name at least one subsystem")
	case len(ask.Subsystems) > maxSubsystems:
		return nil, fault.New(fault.Invalid, "a request names %d subsystems; at most %d are possible", len(ask.Subsystems), maxSubsystems)
	case ask.Timeout < 0 || ask.Timeout > maxTimeout:
		return nil, fault.New(fault.Argument, "timeout: must be between 0 and %d days", int64(math.Round(maxTimeout.Hours()/24)))
	}
	names := make([]string, len(ask.Subsystems))
	for i, given := range ask.Subsystems {
		// A header holds the name, and the caller's bytes may go.
		name := strings.Clone(strings.TrimSpace(given))
		switch {
		case name == "":
			return nil, fault.New(fault.Argument, "subsystem name must not be empty")
		case len(name) > maxName:
			return nil, fault.New(fault.Argument, "subsystem name has %d bytes; at most %d are allowed", len(name), maxName)
		case strings.ToValidUTF8(name, "") != name:
			return nil, fault.New(fault.Argument, "subsystem name is not valid UTF-8")
		}
		for _, other := range names[:i] {
			if other == name {
				return nil, fault.New(fault.Invalid, "subsystem %q occurs more than once", name)
			}
		}
		names[i] = name
	}
	return names, nil
}
