package config

// Stage says when a fault shows to the caller.
type Stage int

const (
	// Value faults show when the client is created: the caller's value is malformed.
	Value Stage = iota
	// Create faults show when the client is created: it cannot be built from these settings.
	Create
	// Consumer faults are kept and shown by consumer_state and subscribe; the client can still send.
	Consumer
	// Subscribe faults show at subscribe and leave the client configured.
	Subscribe
	// Admin faults show when the admin client creates a topic; other clients do not care.
	Admin
)

// String returns the word used in reports.
func (s Stage) String() string {
	return word(int(s), "value", "create", "consumer", "subscribe", "admin")
}

// Type is the grammar of an option's text.
type Type int

// The types of options.
const (
	String Type = iota
	List
	Bool
	Int
	Float
	Duration
	Size
	Enum
	Port
	ReadCache
	Address
	Definitions
)

// String returns the word used by Describe and in the documentation.
func (t Type) String() string {
	return word(int(t), "string", "list", "bool", "int", "float", "duration", "size", "enum", "port",
		"read_cache", "address", "collections")
}

// Area groups options in the documentation.
type Area string

// The areas, in the order of the documentation.
const (
	AreaCore       Area = "Core"
	AreaRequests   Area = "Requests"
	AreaConsumer   Area = "Consumer"
	AreaProducer   Area = "Producer"
	AreaRetry      Area = "Retry"
	AreaDeferral   Area = "Deferral"
	AreaLoader     Area = "Loader"
	AreaMonopoly   Area = "Monopolization"
	AreaScheduling Area = "Scheduling"
	AreaTelemetry  Area = "Telemetry"
	AreaCassandra  Area = "Cassandra"
	AreaState      Area = "Keyed state"
	AreaTopics     Area = "Topic administration"
)

// Option is one row of the table.
type Option struct {
	Name string
	Env  string // environment variable; empty when there is none
	Area Area
	Help string
	Type Type

	Default string // text in the option's grammar; empty when there is none
	Derived string // for the documentation: what holds when neither is set and Default is empty

	Min, Max string   // range in the option's grammar; for strings and lists the least length
	Values   []string // words of an Enum

	Optional bool // `none` is allowed and means off
	Secret   bool // the value never shows in any text
	EnvOnly  bool // can be set by the environment variable alone
	Whole    bool // durations in whole seconds

	Stage Stage // when a value out of range shows

	field func(*Config) any      // the field that the option fills
	check func(value any) string // a further rule; returns its text when broken
}

// malformed returns the stage of a value that cannot be read. An explicit value is the caller's mistake;
// in the environment it spoils only the part of the client that uses it.
func (o Option) malformed(env bool) Stage {
	switch {
	case !env:
		return Value
	case o.Stage == Subscribe:
		return Consumer
	default:
		return o.Stage
	}
}

// Options returns the table in the order of the documentation.
func Options() []Option {
	var all []Option
	for _, part := range [][]Option{core(), consumer(), pipeline(), observe(), cassandra(), keyed(), topics()} {
		all = append(all, part...)
	}
	for i := range all {
		if all[i].Env == "" && all[i].Type != Definitions {
			all[i].Env = prefix + upper(all[i].Name)
		}
	}
	return all
}

// catalogue returns the table by name.
func catalogue() map[string]Option {
	table := map[string]Option{}
	for _, option := range Options() {
		table[option.Name] = option
	}
	return table
}

func word(index int, words ...string) string {
	if index < 0 || index >= len(words) {
		return "unknown"
	}
	return words[index]
}
