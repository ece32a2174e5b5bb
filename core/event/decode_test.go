package event

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/fault"
	"prosody/core/kafka"
)

var now = time.UnixMilli(1_700_000_000_123)

func record(value string) *kafka.Record {
	return &kafka.Record{Topic: "t", Partition: 2, Offset: 7, Timestamp: 5, Key: []byte("k"), Value: []byte(value)}
}

func TestDecodeMessage(t *testing.T) {
	from := record(`{"id":"1","type":"made"}`)
	from.Headers = []kafka.Header{{Name: "Source-System", Value: []byte("x")}, {Name: SourceHeader, Value: []byte("shop")}, {Name: "odd"}}
	got, invalid := Decode(from, now)
	require.Nil(t, invalid)
	assert.Equal(t, &Event{Kind: Message, Topic: "t", Partition: 2, Offset: 7, Timestamp: 5, Key: "k",
		Payload: from.Value, Source: "shop", HasSource: true, Headers: from.Headers,
		ID: "1", HasID: true, Type: "made", HasType: true}, got)
}

func TestDecodeExcise(t *testing.T) {
	from := record("")
	from.Value = nil
	got, invalid := Decode(from, now)
	require.Nil(t, invalid)
	assert.Equal(t, &Event{Kind: Excise, Topic: "t", Partition: 2, Offset: 7, Timestamp: 5, Key: "k"}, got)
}

func TestDecodeKeys(t *testing.T) {
	long := strings.Repeat("😀", MaxKey/4)
	for _, key := range []string{"", "a\x00b", "\x00", "日本", long} {
		from := record("1")
		from.Key = []byte(key)
		got, invalid := Decode(from, now)
		require.Nil(t, invalid, "%.20q", key)
		assert.Equal(t, key, got.Key)
	}
	for reason, key := range map[string][]byte{
		"key: is null":            nil,
		"key: is not valid UTF-8": {0xff, 0xfe},
		"key: has 32769 bytes; at most 32768 are allowed": []byte(long + "a"),
		"key: has 65536 bytes; at most 32768 are allowed": []byte(long + long),
	} {
		from := record("1")
		from.Key = key
		got, invalid := Decode(from, now)
		assert.Nil(t, got)
		assert.Equal(t, &Invalid{Reason: reason}, invalid)
		from.Value = nil
		_, invalid = Decode(from, now)
		assert.Equal(t, &Invalid{Reason: reason}, invalid, "an excise record needs a key too")
	}
	assert.Equal(t, fault.Invalid, fault.Of(CheckKey("\xff")))
}

func TestDecodePayloads(t *testing.T) {
	for _, value := range []string{
		`null`, `""`, `0`, `-0.0`, `1.0`, `9007199254740993`, `18446744073709551616`, `1e400`, `123456789012345678901234567890`,
		`[]`, `{}`, `"text"`, `true`, " \t\r\n1 \n", `"\ud800"`, `"\ud83d\ude00"`, `{"":{"":[]}}`, "\"\u2028\x7f\"",
		nested(MaxDepth, 0), nested(0, MaxDepth), `[` + strings.Repeat(`[],`, 5000) + `{}]`,
	} {
		got, invalid := Decode(record(value), now)
		require.Nil(t, invalid, "%.40q: %v", value, invalid)
		assert.Equal(t, Message, got.Kind)
		assert.Equal(t, value, string(got.Payload), "bytes stay as they are")
	}
	for value, reason := range map[string]string{
		"":                               "payload: is empty",
		"\xff":                           "payload: is not valid UTF-8",
		"\"\xed\xa0\x80\"":               "payload: is not valid UTF-8",
		" ":                              "payload: is not valid JSON: it ends too early",
		`{"a":1`:                         "payload: is not valid JSON: it ends too early",
		`"a`:                             "payload: is not valid JSON: it ends too early",
		nested(MaxDepth+1, 0):            "payload: is nested more than 500 deep",
		nested(0, MaxDepth+1):            "payload: is nested more than 500 deep",
		nested(10000, 0):                 "payload: is nested more than 500 deep",
		strings.Repeat("[", 20000):       "payload: is nested more than 500 deep",
		strings.Repeat("[", 1000000):     "payload: is nested more than 500 deep",
		strings.Repeat(`{"a":`, 1000000): "payload: is nested more than 500 deep",
		"1 2":                            "payload: is not valid JSON: something follows the value",
	} {
		got, invalid := Decode(record(value), now)
		assert.Nil(t, got)
		assert.Equal(t, &Invalid{Reason: reason}, invalid, "%.40q", value)
	}
	for _, value := range []string{
		"NaN", `{"a":NaN}`, "Infinity", "-Infinity", "nan", "'a'", "{a:1}", `{"a":1,}`, "[1,]", "[,1]", "[1 2]", "01", "+1", ".5", "1.",
		"1e", "0x10", "tru", "nulll", "True", "\ufeff1", "\"a\tb\"", "\"a\x00b\"", `"\x41"`, `"\u12g4"`, "1//", "{} []", "]", "}", `{"a"}`,
		`{"a":}`, `{1:2}`, "\"a\"x", `{"id":tru}`, `{"id":"a}`, `{"type":"\q"}`, strings.Repeat("[", 500) + "]",
	} {
		got, invalid := Decode(record(value), now)
		assert.Nil(t, got, "%q", value)
		if assert.NotNil(t, invalid, "%q", value) {
			assert.True(t, strings.HasPrefix(invalid.Reason, "payload: is not valid JSON: "), "%q: %s", value, invalid.Reason)
			assert.Less(t, len(invalid.Reason), 200, "%q: %s", value, invalid.Reason)
		}
	}
}

func nested(arrays, objects int) string {
	return strings.Repeat("[", arrays) + strings.Repeat(`{"a":`, objects) + "1" + strings.Repeat("}", objects) + strings.Repeat("]", arrays)
}

func TestIdentity(t *testing.T) {
	text := func(id string) Identity { return Identity{ID: id, HasID: true} }
	for payload, want := range map[string]Identity{
		`{"id":"1"}`:                                text("1"),
		`{"id":""}`:                                 text(""),
		`{"id":"a","type":""}`:                      {ID: "a", HasID: true, HasType: true},
		` { "type" : "t" , "id" : "i" } `:           {ID: "i", HasID: true, Type: "t", HasType: true},
		`{"id":1}`:                                  {},
		`{"id":null}`:                               {},
		`{"id":{"id":"x"}}`:                         {},
		`{"id":["x"],"type":true}`:                  {},
		`{"type":5}`:                                {},
		`{"id":1,"id":2}`:                           {},
		`{"id":"1","id":"2"}`:                       text("2"),
		`{"id":"1","id":2}`:                         {},
		`{"id":1,"id":"2"}`:                         text("2"),
		`{"a":{"id":"x","type":"y"}}`:               {},
		`[{"id":"x"}]`:                              {},
		`"id"`:                                      {},
		`{"ID":"x","Type":"y","id ":"z"}`:           {},
		`{"\u0069d":"x","t\u0079pe":"y"}`:           {ID: "x", HasID: true, Type: "y", HasType: true},
		`{"id":"a\"\\\n\u00e9\ud83d\ude00\u0000"}`:  text("a\"\\\né😀\x00"),
		`{"id":"\ud800"}`:                           {},
		`{"id":"\udfff\ud800","type":"\uD800\n"}`:   {},
		`{"id":"\ud800x","id":"b"}`:                 text("b"),
		`{"id":"` + "\uFFFD" + `\n"}`:               text("\uFFFD\n"),
		`{"id":"` + "\uFFFD" + `"}`:                 text("\uFFFD"),
		`{"id":"` + strings.Repeat("i", 300) + `"}`: text(strings.Repeat("i", 300)),
	} {
		got, err := CheckPayload([]byte(payload))
		require.NoError(t, err, payload)
		assert.Equal(t, want, got, payload)
		// The same where the payload has too many brackets for the short way.
		many := strings.Repeat("[],", MaxDepth)
		if strings.HasPrefix(payload, "{") {
			got, err = CheckPayload([]byte(`{"x":[` + many + `1],` + payload[1:]))
			require.NoError(t, err, payload)
			assert.Equal(t, want, got, payload)
		}
	}
	_, err := CheckPayload(nil)
	assert.Equal(t, fault.Invalid, fault.Of(err))
}

func TestIdentityIsACopy(t *testing.T) {
	payload := []byte(`{"id":"abc"}`)
	got, err := CheckPayload(payload)
	require.NoError(t, err)
	copy(payload, `{"id":"xyz"}`)
	assert.Equal(t, "abc", got.ID)
}

func TestDecodeTimestamps(t *testing.T) {
	for from, want := range map[int64]int64{
		-1: now.UnixMilli(), 0: 0, 1: 1, -2: -2, 253402300799999: 253402300799999, 253402300800000: 253402300799999,
		1 << 62: 253402300799999, -62135596800001: -62135596800000, -1 << 63: -62135596800000,
	} {
		timed := record("1")
		timed.Timestamp = from
		got, invalid := Decode(timed, now)
		require.Nil(t, invalid)
		assert.Equal(t, want, got.Timestamp)
		assert.LessOrEqual(t, time.UnixMilli(got.Timestamp).UTC().Year(), 9999)
		assert.GreaterOrEqual(t, time.UnixMilli(got.Timestamp).UTC().Year(), 1)
	}
}

func TestDecodeSource(t *testing.T) {
	header := func(value []byte) kafka.Header { return kafka.Header{Name: SourceHeader, Value: value} }
	many := make([]kafka.Header, 1000)
	for name, test := range map[string]struct {
		headers []kafka.Header
		source  string
		has     bool
	}{
		"none":      {nil, "", false},
		"null":      {[]kafka.Header{header(nil), header([]byte("later"))}, "", false},
		"not UTF-8": {[]kafka.Header{header([]byte("\xff")), header([]byte("later"))}, "", false},
		"empty":     {[]kafka.Header{header([]byte{})}, "", true},
		"first":     {[]kafka.Header{{Name: "a"}, header([]byte("x")), header([]byte("y"))}, "x", true},
		"other":     {[]kafka.Header{{Name: "source_system", Value: []byte("x")}}, "", false},
		"many":      {slices.Concat(many, []kafka.Header{header([]byte("x"))}), "x", true},
	} {
		from := record("1")
		from.Headers = test.headers
		got, invalid := Decode(from, now)
		require.Nil(t, invalid)
		assert.Equal(t, test.source, got.Source, name)
		assert.Equal(t, test.has, got.HasSource, name)
		assert.Len(t, got.Headers, len(test.headers))
	}
}

// deepest is how many arrays and objects are open at once in valid JSON.
func deepest(payload []byte) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(payload); i++ {
		switch c := payload[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most
}

// paired tells whether a text of JSON has no half surrogate pair: those come out of
// encoding/json as U+FFFD.
func paired(raw json.RawMessage, text string) bool {
	return !strings.Contains(text, "\uFFFD") || !strings.Contains(string(raw), `\u`)
}

// The standard library is the judge of validity, and of id and type.
func FuzzCheckPayload(f *testing.F) {
	for _, seed := range []string{
		"", "1", `{"id":"1","type":"t"}`, `{"id":"1","id":2}`, `[1,]`, `{"a":1,}`, `{"a":[{"b":null}],"id":"\ud800"}`, "\xff", "\ufeff1",
		`"\ud83d\ude00"`, `1e400`, `-`, `-0`, `01`, `{"\u0069d":"x"}`, `nul`, `[[[[]]]]`, `{"id":"\u0041\n"}`, ` {"id" : "a" } `, "1 2", "{}}", `"\ud800\u0041"`,
		nested(501, 0), nested(250, 250), `{"a":[` + strings.Repeat("[],", 501) + `1],"id":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := CheckPayload(payload)
		valid := json.Valid(payload) && utf8.Valid(payload) && deepest(payload) <= MaxDepth
		require.Equal(t, valid, err == nil, "%q: %v", payload, err)
		if !valid {
			return
		}
		want := Identity{}
		if trimmed := strings.TrimLeft(string(payload), " \t\r\n"); trimmed[0] == '{' {
			var members map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(payload, &members))
			if raw := members["id"]; len(raw) > 0 && raw[0] == '"' {
				require.NoError(t, json.Unmarshal(raw, &want.ID))
				want.HasID = paired(raw, want.ID)
			}
			if raw := members["type"]; len(raw) > 0 && raw[0] == '"' {
				require.NoError(t, json.Unmarshal(raw, &want.Type))
				want.HasType = paired(raw, want.Type)
			}
			if !want.HasID {
				want.ID = ""
			}
			if !want.HasType {
				want.Type = ""
			}
		}
		require.Equal(t, want, got, "%q", payload)
	})
}

var sample = `{"id":"0190f3c2-8c1e-7b1a-9d5e-1a2b3c4d5e6f","type":"order.created","customer":{"name":"Ada Lovelace","email":"ada@example.org"},` +
	`"total":1299.95,"items":[1,2,3],"paid":true,"note":null,"tag":"x yz"}`

func BenchmarkCheckPayload(b *testing.B) {
	for name, payload := range map[string]string{
		"200 bytes": sample,
		"brackets":  `[` + strings.Repeat(sample+",", 300) + "1]",
	} {
		b.Run(name, func(b *testing.B) {
			bytes := []byte(payload)
			b.SetBytes(int64(len(bytes)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = CheckPayload(bytes)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	from := record(sample)
	from.Headers = []kafka.Header{{Name: SourceHeader, Value: []byte("shop")}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Decode(from, now)
	}
}
