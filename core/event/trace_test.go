package event

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"prosody/core/kafka"
)

func TestATraceComesBack(t *testing.T) {
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	header := func(name, value string) kafka.Header { return kafka.Header{Name: name, Value: []byte(value)} }
	for name, test := range map[string]struct {
		headers  []kafka.Header
		expected string
	}{
		"none":          {nil, ""},
		"parent":        {[]kafka.Header{header("a", "b"), header(traceparent, parent)}, parent},
		"both":          {[]kafka.Header{header(tracestate, "a=b"), header(traceparent, parent)}, parent + "\na=b"},
		"state alone":   {[]kafka.Header{header(tracestate, "a=b")}, ""},
		"null":          {[]kafka.Header{{Name: traceparent}, header(tracestate, "a=b")}, ""},
		"last":          {[]kafka.Header{header(traceparent, "x"), header(traceparent, parent)}, parent},
		"odd parent":    {[]kafka.Header{header(traceparent, "a\nb"), header(tracestate, "a=b")}, ""},
		"odd state":     {[]kafka.Header{header(traceparent, parent), header(tracestate, "é")}, parent},
		"long parent":   {[]kafka.Header{header(traceparent, strings.Repeat("x", maxParent+1))}, ""},
		"long state":    {[]kafka.Header{header(traceparent, parent), header(tracestate, strings.Repeat("x", maxState+1))}, parent},
		"longest state": {[]kafka.Header{header(traceparent, parent), header(tracestate, strings.Repeat("x", maxState))}, parent + "\n" + strings.Repeat("x", maxState)},
	} {
		t.Run(name, func(t *testing.T) {
			trace := (&Event{Headers: test.headers}).Trace()
			assert.Equal(t, test.expected, trace)
			assert.Equal(t, trace, (&Event{Headers: Traced(trace)}).Trace())
		})
	}
}
