package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDurationGrammar(t *testing.T) {
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"1s": time.Second, "100ms": 100 * time.Millisecond, "1h 30m": 90 * time.Minute, "1h30m": 90 * time.Minute,
		"2days": 2 * day, "5 s": 5 * time.Second, " 5s ": 5 * time.Second, "1.5s": 1500 * time.Millisecond, "0": 0,
		" 0 ": 0, "0s": 0, "5m 3s": 5*time.Minute + 3*time.Second, "7d": 7 * day, "1y": 31_557_600 * time.Second,
		"1M": 2_630_016 * time.Second, "1m": time.Minute, "2weeks": 14 * day, "3us": 3 * time.Microsecond,
		"3µs": 3 * time.Microsecond, "7nsec": 7, "1.000000001s": time.Second + 1, "0.0000000001s": 0, "5s 500ms": 5500 * time.Millisecond,
		"1s 1s": 2 * time.Second, "9223372036854775807ns": math.MaxInt64, "0.123456789012345678999s": 123456789,
	}
	for text, want := range good {
		value, rule := duration(text)
		require.Empty(t, rule, text)
		assert.Equal(t, want, value, text)
	}
	bad := map[string]string{
		"30": "unit needed", "": "numbers with units", " ": "numbers with units", "1S": "unknown time unit", "-1s": "numbers with units",
		"none": "numbers with units", "1 0s": "unit needed", ".5s": "numbers with units", "1.s": "numbers with units", "1s,": "numbers with units",
		"5s 3": "unit needed", "0 0": "unit needed", "9223372036854775808ns": "too large", "99999999999999999999s": "too large", "300y": "too large",
		"292y 292y": "too large", "١s": "numbers with units", "1e3s": "unknown time unit", "inf": "numbers with units", "NaN": "numbers with units",
		"18446744073709551615ns 1ns": "too large",
	}
	for text, want := range bad {
		_, rule := duration(text)
		assert.Contains(t, rule, want, "%q", text)
	}
}

func TestSizeGrammar(t *testing.T) {
	good := map[string]int64{
		"64 MiB": 64 << 20, "500 MB": 500e6, "500MB": 500e6, "1": 1, "0": 0, "1.5 KiB": 1536, "1kb": 1000, "3 gib": 3 << 30,
		"12 B": 12, " 5 k ": 5000, "2TB": 2e12, "1TiB": 1 << 40, "9223372036854775807": math.MaxInt64,
	}
	for text, want := range good {
		value, rule := size(text)
		require.Empty(t, rule, text)
		assert.Equal(t, want, value, text)
	}
	for _, text := range []string{"abc", "", "MiB", "-1", "1.5", "1.5 B", "1 XB", "1 MiB 2", "9223372036854775808", "9000000TiB", "1e3", "NaN"} {
		_, rule := size(text)
		assert.Contains(t, rule, "byte size", "%q", text)
	}
}

func TestNumberGrammar(t *testing.T) {
	cases := []struct {
		kind Type
		text string
		want any // nil: refused
	}{
		{Int, "5", 5}, {Int, "-5", -5}, {Int, "007", 7}, {Int, "+5", nil}, {Int, "1_000", nil}, {Int, " 5", nil}, {Int, "5.0", nil},
		{Int, "0x5", nil}, {Int, "", nil}, {Int, "-", nil}, {Int, "many", nil}, {Int, "99999999999999999999", nil}, {Int, "none", nil},
		{Float, "0.5", 0.5}, {Float, "-0.1", -0.1}, {Float, "1e-3", 0.001}, {Float, "200", 200.0}, {Float, ".5", .5}, {Float, "5.", 5.0},
		{Float, "NaN", nil}, {Float, "nan", nil}, {Float, "inf", nil}, {Float, "-Infinity", nil}, {Float, "0x1p4", nil}, {Float, "1_0", nil},
		{Float, "1e999", nil}, {Float, "", nil}, {Float, " 1", nil}, {Float, "e", nil},
		{Bool, "true", true}, {Bool, "false", false}, {Bool, "True", nil}, {Bool, "1", nil}, {Bool, "", nil}, {Bool, "yes", nil},
		{Address, "0.0.0.0:9099", "0.0.0.0:9099"}, {Address, "[::1]:1", "[::1]:1"}, {Address, "localhost:9099", nil}, {Address, "x", nil},
		{Address, "1.2.3.4", nil}, {Address, "1.2.3.4:65536", nil},
		{List, "a, b,,c ,", []string{"a", "b", "c"}}, {List, ",", []string{}}, {String, "a\x00b", nil}, {String, "a\xff", nil}, {String, " a ", " a "},
		{ReadCache, "5s", 5 * time.Second}, {ReadCache, "true", nil},
	}
	for _, c := range cases {
		value, rule := Option{Type: c.kind}.parse(c.text)
		assert.Equal(t, c.want, value, "%s %q", c.kind, c.text)
		assert.Equal(t, c.want == nil, rule != "", "%s %q: %s", c.kind, c.text, rule)
	}
	for _, text := range []string{"none", "NONE", " None "} {
		value, _ := Option{Type: Duration, Optional: true}.parse(text)
		assert.Equal(t, off{}, value)
	}
	value, _ := Option{Type: ReadCache, Optional: true}.parse("false")
	assert.Equal(t, off{}, value)
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Min(0).Draw(t, "nanoseconds"))
		value, rule := duration(Format(want))
		require.Empty(t, rule)
		require.Equal(t, want, value)
		value, rule = duration(fmt.Sprintf("%dns", int64(want)))
		require.Empty(t, rule)
		require.Equal(t, want, value)
	})
}

func TestDurationIsTheSumOfItsParts(t *testing.T) {
	names := []string{"ns", "us", "msec", "s", "minutes", "h", "day", "w", "M", "years"}
	rapid.Check(t, func(t *rapid.T) {
		var want time.Duration
		var text strings.Builder
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			name := rapid.SampledFrom(names).Draw(t, "unit")
			count := rapid.Int64Range(0, 20).Draw(t, "count")
			space := rapid.SampledFrom([]string{"", " ", "  "})
			text.WriteString(space.Draw(t, "before") + strconv.FormatInt(count, 10) + space.Draw(t, "within") + name)
			want += time.Duration(count) * unit(name)
		}
		value, rule := duration(text.String())
		require.Empty(t, rule, text.String())
		require.Equal(t, want, value)
	})
}

func TestFractionOfSecondsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "nanoseconds"))
		value, rule := duration(fmt.Sprintf("%d.%09ds", want/time.Second, want%time.Second))
		require.Empty(t, rule)
		require.Equal(t, want, value)
	})
}

func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Uint64Range(0, 1<<22).Draw(t, "count")
		name := rapid.SampledFrom([]string{"", "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"}).Draw(t, "unit")
		value, rule := size(fmt.Sprintf("%d %s", count, name))
		require.Empty(t, rule)
		require.Equal(t, int64(count*multiple(strings.ToLower(name))), value)
	})
}

func TestNoTextPanicsOrEscapesItsRange(t *testing.T) {
	options := Options()
	rapid.Check(t, func(t *rapid.T) {
		option := rapid.SampledFrom(options).Draw(t, "option")
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`-?[0-9]{0,25}(\.[0-9]{0,20})? ?[a-zA-Zµ]{0,4}`)).Draw(t, "text")
		value, rule := option.parse(text)
		require.Equal(t, value == nil, rule != "")
		if value != nil {
			option.limit(value)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"1s", "1h 30m", "1.5s", "0", "30", "-1s", "9223372036854775807ns", "300y", "1.s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, rule := duration(text)
		if rule != "" {
			return
		}
		again, rule := duration(Format(value.(time.Duration)))
		require.Empty(t, rule)
		require.Equal(t, value, again)
		require.GreaterOrEqual(t, value, time.Duration(0))
	})
}

func FuzzSize(f *testing.F) {
	for _, seed := range []string{"64 MiB", "500 MB", "1", "1.5 KiB", "abc", "9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if value, rule := size(text); rule == "" {
			require.GreaterOrEqual(t, value, int64(0))
		}
	})
}
