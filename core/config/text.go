package config

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	hidden  = "[redacted]"
	longest = 200 // bytes of a value that are shown in a text
)

// redact returns a value as it may be shown: secrets are hidden, also private keys in the wrong place,
// and long values are cut.
func redact(value string, secret bool) string {
	if value != "" && (secret || strings.Contains(value, "PRIVATE KEY")) {
		return hidden
	}
	if len(value) > longest {
		cut := longest
		for cut > 0 && !utf8.RuneStart(value[cut]) {
			cut--
		}
		return value[:cut] + "…"
	}
	return value
}

type pair struct{ name, text string }

// pairs lists what differs from the defaults, as it may be shown.
func (c Config) pairs() []pair {
	var list []pair
	for _, option := range Options() {
		if option.Type == Definitions {
			if len(c.Collections) > 0 {
				list = append(list, pair{option.Name, strings.Join(titles(c.Collections), ",")})
			}
			continue
		}
		text := option.show(&c)
		var usual string
		if option.Default != "" {
			fresh := Config{}
			value, _ := option.parse(option.Default)
			option.fill(&fresh, value)
			usual = option.show(&fresh)
		} else {
			usual = option.show(&Config{})
		}
		if text != usual {
			list = append(list, pair{option.Name, redact(text, option.Secret)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Kafka)) {
		list = append(list, pair{kafkaPrefix + name, redact(c.Kafka[name], secretive(name))})
	}
	return list
}

// show writes the option's field in the grammar of the option.
func (o Option) show(c *Config) string {
	switch field := o.field(c).(type) {
	case *string:
		return *field
	case *[]string:
		return strings.Join(*field, ",")
	case *bool:
		return strconv.FormatBool(*field)
	case *int:
		if o.Type == Port && *field < 0 {
			return "none"
		}
		return strconv.Itoa(*field)
	case *int64:
		return strconv.FormatInt(*field, 10)
	case *float64:
		return strconv.FormatFloat(*field, 'g', -1, 64)
	case *time.Duration:
		if o.Optional && *field == 0 {
			return "none"
		}
		return Format(*field)
	default:
		return ""
	}
}

// Format writes a duration in the grammar of the options.
func Format(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	var parts []string
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
		{"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond}} {
		if count := d / unit.length; count > 0 {
			parts = append(parts, strconv.FormatInt(int64(count), 10)+unit.name)
			d %= unit.length
		}
	}
	return strings.Join(parts, " ")
}

// String shows what differs from the defaults, without secrets.
func (c Config) String() string {
	var text strings.Builder
	for i, pair := range c.pairs() {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(pair.name + "=" + strconv.Quote(pair.text))
	}
	return text.String()
}

// GoString is String, so that no verb of fmt shows a secret.
func (c Config) GoString() string { return c.String() }

// LogValue is String as attributes.
func (c Config) LogValue() slog.Value {
	pairs := c.pairs()
	attributes := make([]slog.Attr, len(pairs))
	for i, pair := range pairs {
		attributes[i] = slog.String(pair.name, pair.text)
	}
	return slog.GroupValue(attributes...)
}

// MarshalJSON is String as an object.
func (c Config) MarshalJSON() ([]byte, error) {
	object := map[string]string{}
	for _, pair := range c.pairs() {
		object[pair.name] = pair.text
	}
	return json.Marshal(object)
}
