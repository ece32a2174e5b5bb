package deferral

import (
	"testing"

	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/observe/trace"
)

func TestADeferredTimerKeepsItsTrace(t *testing.T) {
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, text := range []string{"", parent, parent + "\nb=c"} {
		e := &event.Event{Kind: event.Timer, Timestamp: 7000, Headers: trace.Headers(trace.Read(text))}
		r, err := decode(encode(e))
		require.NoError(t, err)
		made, err := r.event("topic", "key", 3)
		require.NoError(t, err)
		require.Equal(t, text, trace.Text(made.Trace()))
		require.Equal(t, int64(7000), made.Timestamp)
	}
}
