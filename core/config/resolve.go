package config

import (
	"fmt"
	"strings"
	"time"
)

type resolver struct {
	source *Source
	env    Environ
	table  map[string]Option
	config *Config
	faults Faults
}

// Resolve reads all options: from the source, else the environment, else the default. It returns every
// fault at once. The Config is usable for the stages that have no fault: an option with a fault holds
// its default. Both arguments may be nil.
func Resolve(source *Source, env Environ) (*Config, Faults) {
	if source == nil {
		source = &Source{}
	}
	r := &resolver{source: source, env: env, table: catalogue(),
		config: &Config{Kafka: map[string]string{}, given: map[string]Origin{}}}
	r.names()
	for _, option := range Options() {
		r.fallback(option)
		if option.Type == Definitions {
			r.definitions(option)
			continue
		}
		r.option(option)
	}
	r.passthrough()
	r.require()
	r.derive()
	r.notice()
	return r.config, r.faults
}

// names reports everything that was set under a name that cannot be set.
func (r *resolver) names() {
	for _, set := range r.source.entries {
		if fault, bad := reject(set.name, r.table); bad {
			r.add(fault)
		}
	}
}

// option reads one option and fills its field, or reports why it cannot.
func (r *resolver) option(option Option) {
	found := Fault{Option: option.Name, Env: option.Env}
	set, explicit := r.source.get(option.Name)
	switch {
	case explicit && option.EnvOnly: // reported by names
		return
	case !explicit:
		text, ok := variable(r.env, option.Env)
		if !ok {
			return
		}
		set, found.FromEnv = entry{text: text}, true
	}
	value, rule, class := option.read(set)
	found.Value, found.Rule, found.Class, found.Stage = set.shown(), rule, class, option.malformed(found.FromEnv)
	if rule == "" {
		found.Rule, found.Class, found.Stage = option.limit(value), OutOfRange, option.Stage
	}
	if found.Rule != "" {
		r.add(found)
		return
	}
	option.fill(r.config, value)
	r.config.given[option.Name] = Explicit
	if found.FromEnv {
		r.config.given[option.Name] = Environment
	}
}

// read turns what was set into the value of the field.
func (o Option) read(set entry) (value any, rule string, class Class) {
	switch {
	case set.kind == none && !o.Optional:
		return nil, "cannot be switched off", WrongType
	case set.kind == none:
		return off{}, "", Malformed
	case set.kind == items && o.Type != List:
		return nil, "takes one value, not a list", WrongType
	case set.kind == items:
		value, rule = o.list(set.items)
	default:
		value, rule = o.parse(set.text)
	}
	return value, rule, Malformed
}

// list checks the items of an explicit list; blank ones are dropped. Addresses never contain a comma, so
// there a list written as one item is understood.
func (o Option) list(given []string) (any, string) {
	list := []string{}
	for _, item := range given {
		if _, rule := (Option{}).parse(item); rule != "" {
			return nil, rule
		}
		switch {
		case o.Name == "bootstrap_servers" || o.Name == "cassandra_nodes":
			list = append(list, split(item)...)
		case strings.TrimSpace(item) != "":
			list = append(list, item)
		}
	}
	return list, ""
}

// limit returns the rule of range that a value breaks.
func (o Option) limit(value any) string {
	switch typed := value.(type) {
	case off:
		return ""
	case string:
		if o.Min != "" && typed == "" {
			return "must not be empty"
		}
	case []string:
		if o.Min != "" && len(typed) == 0 {
			return "must have at least one item"
		}
	case time.Duration:
		if o.Whole && typed%time.Second != 0 {
			return "must be a whole number of seconds"
		}
	}
	if rule := o.outside(value); rule != "" {
		return rule
	}
	if o.check != nil {
		return o.check(value)
	}
	return ""
}

// outside compares a number with the range of the option.
func (o Option) outside(value any) string {
	number, ok := numeric(value)
	if !ok {
		return ""
	}
	low, _ := o.parse(o.Min)
	high, _ := o.parse(o.Max)
	least, bounded := numeric(low)
	most, limited := numeric(high)
	switch {
	case bounded && limited && (number < least || number > most):
		return fmt.Sprintf("must be between %s and %s", o.Min, o.Max)
	case bounded && number < least:
		return "must be at least " + o.Min
	case limited && number > most:
		return "must be at most " + o.Max
	default:
		return ""
	}
}

// numeric returns the number in a value; every limit of the table is exact in a float64.
func numeric(value any) (float64, bool) {
	switch typed := value.(type) {
	case int:
		return float64(typed), true
	case int64:
		return float64(typed), true
	case float64:
		return typed, true
	case time.Duration:
		return float64(typed), true
	default:
		return 0, false
	}
}

// fallback fills the field with the option's default.
func (r *resolver) fallback(option Option) {
	if option.Default == "" {
		return
	}
	if value, rule := option.parse(option.Default); rule == "" {
		option.fill(r.config, value)
	}
}

// fill puts a value of the grammar into the option's field.
func (o Option) fill(c *Config, value any) {
	if _, none := value.(off); none {
		value = o.off()
	}
	switch field := o.field(c).(type) {
	case *string:
		*field = value.(string)
	case *[]string:
		*field = value.([]string)
	case *bool:
		*field = value.(bool)
	case *int:
		*field = value.(int)
	case *int64:
		*field = value.(int64)
	case *float64:
		*field = value.(float64)
	case *time.Duration:
		*field = value.(time.Duration)
	}
}

// add keeps a fault, without its value where that is secret.
func (r *resolver) add(fault Fault) {
	secret := r.table[fault.Option].Secret
	if name, ok := strings.CutPrefix(fault.Option, kafkaPrefix); ok {
		secret = secretive(name)
	}
	fault.Value = redact(fault.Value, secret)
	r.faults = append(r.faults, fault)
}

// shown is the text of what was set, for a fault.
func (e entry) shown() string {
	switch e.kind {
	case items:
		return "[" + strings.Join(e.items, ", ") + "]"
	case none:
		return "none"
	default:
		return e.text
	}
}
