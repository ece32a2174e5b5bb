package trace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/kafka"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func header(name, value string) kafka.Header { return kafka.Header{Name: name, Value: []byte(value)} }

func TestAContextComesBack(t *testing.T) {
	long := "a=" + strings.Repeat("x", 256)
	for name, test := range map[string]struct {
		headers  []kafka.Header
		expected string
	}{
		"none":        {nil, ""},
		"parent":      {[]kafka.Header{header("a", "b"), header(Parent, parent)}, parent},
		"both":        {[]kafka.Header{header(State, "a=b"), header(Parent, parent)}, parent + "\na=b"},
		"state alone": {[]kafka.Header{header(State, "a=b")}, ""},
		"null":        {[]kafka.Header{{Name: Parent}, header(State, "a=b")}, ""},
		"first":       {[]kafka.Header{header(Parent, parent), header(Parent, strings.ReplaceAll(parent, "b7", "c8"))}, parent},
		"first good":  {[]kafka.Header{header(Parent, "x"), header(Parent, parent)}, parent},
		"rubbish":     {[]kafka.Header{header(Parent, "rubbish")}, ""},
		"not UTF-8":   {[]kafka.Header{header(Parent, "\xff\xfe"), header(State, "\xff")}, ""},
		"zero trace":  {[]kafka.Header{header(Parent, "00-00000000000000000000000000000000-b7ad6b7169203331-01")}, ""},
		"zero span":   {[]kafka.Header{header(Parent, "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01")}, ""},
		"version ff":  {[]kafka.Header{header(Parent, "ff"+parent[2:])}, ""},
		"upper case":  {[]kafka.Header{header(Parent, strings.ToUpper(parent))}, ""},
		"odd parent":  {[]kafka.Header{header(Parent, parent+"\nb"), header(State, "a=b")}, ""},
		"odd state":   {[]kafka.Header{header(Parent, parent), header(State, "é")}, parent},
		"long parent": {[]kafka.Header{header(Parent, strings.Repeat("x", maxParent+1))}, ""},
		"long state":  {[]kafka.Header{header(Parent, parent), header(State, long+",b="+long[2:])}, parent},
		"whole state": {[]kafka.Header{header(Parent, parent), header(State, long)}, parent + "\n" + long},
	} {
		t.Run(name, func(t *testing.T) {
			found := Of(test.headers)
			assert.Equal(t, test.expected, Text(found))
			assert.Equal(t, test.expected != "", found.IsValid())
			assert.Equal(t, test.expected, Text(Of(Headers(found))))
			assert.Equal(t, test.expected, Text(Read(test.expected)))
		})
	}
}

func TestTheCurrentContextOfACall(t *testing.T) {
	c := Parse(parent, "")
	require.True(t, c.IsValid())
	require.Equal(t, parent, Text(From(With(t.Context(), c))))
	require.Equal(t, parent, Text(From(With(With(t.Context(), c), Context{}))), "none changes nothing")
	require.Equal(t, c, First(Context{}, c))
	require.Equal(t, c, First(c, Context{}))
	require.False(t, From(t.Context()).IsValid())
}

func FuzzParse(f *testing.F) {
	f.Add(parent, "a=b")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, p, s string) {
		c := Parse(p, s)
		if text := Text(c); (text != "") != c.IsValid() {
			t.Fatal(text)
		}
		if again := Read(Text(c)); again.IsValid() && again.TraceID() != c.TraceID() {
			t.Fatal(p, s)
		}
	})
}
