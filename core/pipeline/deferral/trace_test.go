package deferral

import (
	"testing"

	"github.com/stretchr/testify/require"

	"prosody/core/event"
)

func TestADeferredTimerKeepsItsTrace(t *testing.T) {
	for _, trace := range []string{"", "00-a", "00-a\nb=c"} {
		e := &event.Event{Kind: event.Timer, Timestamp: 7000, Headers: event.Traced(trace)}
		r, err := decode(encode(e))
		require.NoError(t, err)
		made, err := r.event("topic", "key", 3)
		require.NoError(t, err)
		require.Equal(t, trace, made.Trace())
		require.Equal(t, int64(7000), made.Timestamp)
	}
}
