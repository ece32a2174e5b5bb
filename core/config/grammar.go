package config

import (
	"errors"
	"math"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// decimal holds the characters of floats: no hexadecimal, no underscores, neither NaN nor infinity.
const decimal = "0123456789.eE+-"

// parse reads text in the grammar of the option. It returns the value in the type of the option's
// field, or the rule that the text breaks.
func (o Option) parse(text string) (value any, rule string) {
	if !utf8.ValidString(text) {
		return nil, "must be valid UTF-8"
	}
	if strings.ContainsRune(text, 0) {
		return nil, "must not contain a NUL character"
	}
	if o.Optional && (isNone(text) || o.Type == ReadCache && text == "false") {
		return off{}, ""
	}
	switch o.Type {
	case List:
		return split(text), ""
	case Bool:
		if text == "true" || text == "false" {
			return text == "true", ""
		}
		return nil, "must be true or false"
	case Int, Port:
		return integer(text)
	case Float:
		return float(text)
	case Duration:
		return duration(text)
	case ReadCache:
		if text == "true" {
			return nil, "true is ambiguous; use a duration, or none for no cache"
		}
		return duration(text)
	case Size:
		return size(text)
	case Enum:
		for _, allowed := range o.Values {
			if text == allowed {
				return text, ""
			}
		}
		return nil, "must be " + either(o.Values)
	case Address:
		if _, err := netip.ParseAddrPort(text); err != nil {
			return nil, "must be an IP address and a port, such as 0.0.0.0:9099 or [::]:9099"
		}
		return text, ""
	default:
		return text, ""
	}
}

// off is the value of an option that is switched off; no text of a number reads as it.
type off struct{}

// off returns the value of a field whose option is switched off.
func (o Option) off() any {
	if o.Type == Port {
		return -1
	}
	return time.Duration(0)
}

func isNone(text string) bool { return strings.EqualFold(strings.TrimSpace(text), "none") }

// split reads a list: items between commas, trimmed; empty items are dropped.
func split(text string) []string {
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func integer(text string) (any, string) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, "must be a whole number"
	}
	value, err := strconv.ParseInt(text, 10, strconv.IntSize)
	if err != nil {
		return nil, "number too large"
	}
	return int(value), ""
}

func float(text string) (any, string) {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case strings.Trim(text, decimal) != "" || errors.Is(err, strconv.ErrSyntax):
		return nil, "must be a decimal number"
	case err != nil:
		return nil, "number too large"
	default:
		return value, ""
	}
}

// duration reads number and unit pairs such as "1h 30m", "750ms", "1.5s"; "0" alone needs no unit.
func duration(text string) (any, string) {
	const form = "must be numbers with units, such as 5s, 750ms or 1h 30m"
	rest := strings.TrimSpace(text)
	if rest == "0" {
		return time.Duration(0), ""
	}
	if rest == "" {
		return nil, form
	}
	var total uint64
	for rest != "" {
		whole, fraction, after, ok := number(rest)
		if !ok {
			return nil, form
		}
		after = strings.TrimLeftFunc(after, unicode.IsSpace)
		end := strings.IndexFunc(after, func(r rune) bool { return !unicode.IsLetter(r) })
		if end < 0 {
			end = len(after)
		}
		if end == 0 {
			return nil, "time unit needed, such as 5s, 750ms or 1h 30m"
		}
		unit := unit(after[:end])
		if unit == 0 {
			return nil, "unknown time unit; use ns, us, ms, s, m, h, d, w, M (month) or y"
		}
		value, fits := scale(whole, fraction, uint64(unit))
		sum, carry := bits.Add64(total, value, 0)
		if !fits || carry != 0 || sum > math.MaxInt64 {
			return nil, "duration too large"
		}
		total = sum
		rest = strings.TrimLeftFunc(after[end:], unicode.IsSpace)
	}
	return time.Duration(total), ""
}

// unit returns the length of a time unit, 0 when there is no such unit. Case matters: m and M differ.
func unit(name string) time.Duration {
	const day = 24 * time.Hour
	switch name {
	case "nsec", "ns":
		return time.Nanosecond
	case "usec", "us", "µs", "μs":
		return time.Microsecond
	case "msec", "ms":
		return time.Millisecond
	case "seconds", "second", "sec", "s":
		return time.Second
	case "minutes", "minute", "min", "mins", "m":
		return time.Minute
	case "hours", "hour", "hrs", "hr", "h":
		return time.Hour
	case "days", "day", "d":
		return day
	case "weeks", "week", "wks", "wk", "w":
		return 7 * day
	case "months", "month", "M":
		return 2_630_016 * time.Second
	case "years", "year", "yrs", "yr", "y":
		return 31_557_600 * time.Second
	default:
		return 0
	}
}

// size reads a number of bytes with an optional unit, such as "64 MiB" or "500 MB".
func size(text string) (any, string) {
	const form = "invalid byte size; write it like 64 MiB, 500 MB or 1048576"
	whole, fraction, after, ok := number(strings.TrimSpace(text))
	if !ok {
		return nil, form
	}
	unit := multiple(strings.ToLower(strings.TrimSpace(after)))
	if unit == 0 || unit == 1 && fraction != "" {
		return nil, form
	}
	value, fits := scale(whole, fraction, unit)
	if !fits || value > math.MaxInt64 {
		return nil, "byte size too large"
	}
	return int64(value), ""
}

// multiple returns the length of a unit of size, 0 when there is no such unit. Case does not matter.
func multiple(name string) uint64 {
	switch name {
	case "", "b":
		return 1
	case "k", "kb":
		return 1e3
	case "m", "mb":
		return 1e6
	case "g", "gb":
		return 1e9
	case "t", "tb":
		return 1e12
	case "ki", "kib":
		return 1 << 10
	case "mi", "mib":
		return 1 << 20
	case "gi", "gib":
		return 1 << 30
	case "ti", "tib":
		return 1 << 40
	default:
		return 0
	}
}

// number takes an unsigned decimal number off the front of text, as its digits.
func number(text string) (whole, fraction, rest string, ok bool) {
	digit := func(r rune) bool { return r < '0' || r > '9' }
	cut := func(text string) (string, string) {
		end := strings.IndexFunc(text, digit)
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:]
	}
	whole, rest = cut(text)
	if whole == "" {
		return "", "", text, false
	}
	if strings.HasPrefix(rest, ".") {
		if fraction, rest = cut(rest[1:]); fraction == "" {
			return "", "", text, false
		}
	}
	return whole, fraction, rest, true
}

// scale multiplies a decimal number by a unit, rounding down. It reports false on overflow.
func scale(whole, fraction string, unit uint64) (uint64, bool) {
	const precision = 18
	count, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, false
	}
	high, value := bits.Mul64(count, unit)
	if high != 0 {
		return 0, false
	}
	if fraction == "" {
		return value, true
	}
	if len(fraction) > precision {
		fraction = fraction[:precision]
	}
	part, _ := strconv.ParseUint(fraction, 10, 64) // at most 18 digits always fit
	divisor := uint64(1)
	for range fraction {
		divisor *= 10
	}
	high, low := bits.Mul64(part, unit)
	quotient, _ := bits.Div64(high, low, divisor) // part < divisor, so the quotient is below unit
	sum, carry := bits.Add64(value, quotient, 0)
	return sum, carry == 0
}

// either joins words as "a, b or c".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
