// Command docs writes docs/configuration.md to standard output, from the table of options.
//
//	go run ./core/config/docs > docs/configuration.md
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"prosody/core/config"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprint(out, page())
}

// page renders the whole document.
func page() string {
	var text strings.Builder
	text.WriteString(head)
	area := config.Area("")
	for _, option := range config.Options() {
		if option.Area != area {
			area = option.Area
			fmt.Fprintf(&text, "\n## %s\n\n", area)
			text.WriteString("| option | environment | type | default | allowed | meaning |\n|---|---|---|---|---|---|\n")
		}
		text.WriteString(row(option))
	}
	text.WriteString(tail)
	return text.String()
}

func row(o config.Option) string {
	name, env, kind := "`"+o.Name+"`", "–", strings.ReplaceAll(o.Type.String(), "_", " ")
	if o.EnvOnly {
		name = "–"
	}
	if o.Env != "" {
		env = "`" + o.Env + "`"
	}
	if o.Type == config.ReadCache {
		kind = "duration"
	}
	usual := o.Derived
	if o.Default != "" {
		usual = "`" + o.Default + "`"
	}
	if usual == "" {
		usual = "–"
	}
	cells := []string{name, env, kind, usual, allowed(o), o.Help}
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// allowed says which values the option takes.
func allowed(o config.Option) string {
	var parts []string
	switch {
	case len(o.Values) > 0:
		parts = append(parts, "`"+strings.Join(o.Values, "`, `")+"`")
	case o.Type == config.String && o.Min != "":
		parts = append(parts, "not empty")
	case o.Type == config.List && o.Min != "":
		parts = append(parts, "one item or more")
	case o.Min != "" && o.Max != "":
		parts = append(parts, o.Min+" to "+o.Max)
	case o.Min != "":
		parts = append(parts, "at least "+o.Min)
	}
	if o.Whole {
		parts = append(parts, "whole seconds")
	}
	if o.Optional {
		parts = append(parts, "`none`")
	}
	if o.Secret {
		parts = append(parts, "never shown")
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, "; ")
}

const head = `<!-- Written by go run ./core/config/docs; do not edit. -->
# Configuration

Every option is set explicitly (a keyword of the Python client, a key of the Ruby client, ` + "`prosody_config_set`" + ` in C) or by its
environment variable. An explicit value wins over the environment, the environment over the default. Where an option is given
explicitly, its variable is not even looked at. A variable that is empty counts as unset. The environment is read when a client is created.

## How values are written

These rules hold for the environment and for ` + "`prosody_config_set`" + `. The Python and Ruby clients take the host's own types and convert them.

| type | rule |
|---|---|
| string | As it is. Valid UTF-8 without NUL characters. |
| list | Items between commas, trimmed; empty items are dropped. An explicit list of items is not split at commas (except host lists). |
| bool | ` + "`true` or `false`" + `, nothing else. |
| int, port | Decimal digits. No ` + "`_`" + `, no spaces, no suffix. |
| float | A decimal number such as ` + "`0.9`, `200` or `1e-3`" + `; neither NaN nor infinity. |
| duration | Numbers with units, added up: ` + "`5s`, `750ms`, `1h 30m`, `1.5s`" + `. Spaces may stand between numbers and units. Only a bare ` + "`0`" + ` needs no unit. |
| size | Bytes with an optional unit: ` + "`64 MiB`, `500 MB`, `1048576`" + `. |
| enum | One of the words, exactly. |
| address | An IP address and a port: ` + "`0.0.0.0:9099`, `[::]:9099`" + `. |

Units of time, where case matters: ` + "`ns nsec`, `us µs usec`, `ms msec`, `s sec second seconds`, `m min mins minute minutes`, `h hr hrs hour hours`, `d day days`, `w wk wks week weeks`, `M month months` (30.44 days), `y yr yrs year years` (365.25 days)" + `.
Units of size, where case does not matter: ` + "`B`, `K KB`, `M MB`, `G GB`, `T TB` (powers of 1000), `Ki KiB`, `Mi MiB`, `Gi GiB`, `Ti TiB` (powers of 1024)" + `.

` + "`none`" + ` (any case) switches an option off where the table allows it.

## When a mistake shows

All faults of a configuration are found at once; ` + "`prosody_config_check`" + ` reports them without creating a client. Each names the option (or
the variable that the value came from), the value (hidden where it is secret) and the rule. A client shows them in four stages:

| stage | what | shown by |
|---|---|---|
| value | the caller's value cannot be read, or an option is unknown | creating the client |
| create | the client cannot be built, such as without bootstrap servers | creating the client |
| consumer | the consumer cannot be configured, such as without a group | consumer state and subscribe; sending works |
| subscribe | a consumer setting is out of range | subscribe; the client stays configured |

A variable of the environment that cannot be read and that only the consumer uses is a fault of the stage consumer.
`

const tail = `
The slab size must be at least a minute, as timers are loaded a minute ahead, and all members of a group should agree on it.

## Collections

` + "`state_collections`" + ` is set through the definitions of the Python and Ruby packages or ` + "`prosody_config_add_collection`" + `. As text
it is a JSON array of objects with these attributes:

| attribute | meaning |
|---|---|
| name | not empty, unique |
| kind | ` + "`value`, `map`, `set` or `deque`" + ` |
| payload | ` + "`json` (default) or `message`" + `; a set has none |
| ttl_seconds | time to live, 1 to 630720000 whole seconds; default none |
| read_uncommitted | whether changes are applied as soon as the handler succeeds, before its event is recorded as done; default false |
| published | whether other groups may read it; needs ` + "`subsystem`" + `, not for messages |
| read_cache | seconds, a duration as text, or false; default as ` + "`state_read_cache`" + ` says |
| keyset_limit | maps and sets: 0 to 4096, default 128 |
| capacity | deques: 1 or more; default none |

## Kafka properties

Any property of librdkafka can be set as ` + "`kafka.<property>`, such as `kafka.sasl.mechanism`, or by `PROSODY_KAFKA_<PROPERTY>`" + ` with an
underscore for each dot, such as ` + "`PROSODY_KAFKA_SASL_MECHANISM`" + `. Values of properties that hold passwords, keys or tokens are never
shown. Properties that Prosody itself sets are refused, and the fault names the option to use instead:
` + "`bootstrap.servers`, `group.id`, `auto.commit.interval.ms`, `statistics.interval.ms`, `message.timeout.ms`, `enable.auto.commit`, `enable.auto.offset.store`, `auto.offset.reset`, `partition.assignment.strategy`, `enable.idempotence`, `acks`, `transactional.id`" + `
and those of the client's own machinery (` + "`go.*`, callbacks, `log_level`" + `).
`
