package config

import (
	"os"
	"slices"
	"strings"
)

const (
	prefix      = "PROSODY_"
	kafkaEnv    = prefix + "KAFKA_"
	kafkaPrefix = "kafka."
)

// Environ is the environment of the host at the moment when a client is configured.
type Environ interface {
	Lookup(name string) (string, bool)
	Names() []string
}

// Map is an Environ of fixed variables. Its zero value is an empty environment.
type Map map[string]string

// Lookup returns the value of a variable.
func (m Map) Lookup(name string) (string, bool) {
	value, ok := m[name]
	return value, ok
}

// Names returns the names of all variables.
func (m Map) Names() []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Process returns a copy of the environment of the Go process. In a shared library that copy may miss
// what the host set after loading; there the host's own getenv has to be used.
func Process() Environ {
	variables := Map{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok {
			variables[name] = value
		}
	}
	return variables
}

// variable reads a variable; an empty one counts as unset.
func variable(env Environ, name string) (string, bool) {
	if env == nil || name == "" {
		return "", false
	}
	value, ok := env.Lookup(name)
	return value, ok && value != ""
}

func upper(name string) string { return strings.ToUpper(name) }
