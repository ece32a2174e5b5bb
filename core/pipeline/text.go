package pipeline

import (
	"log/slog"
	"strings"
	"unicode/utf8"

	"prosody/core/event"
)

// MaxText is the most bytes of a failure's text that the chain carries.
const MaxText = 4096

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Clip makes a text of at most limit bytes: valid UTF-8, cut between two runes, and
// with an ellipsis where something is missing.
func Clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	if end < 0 {
		return ""
	}
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Fields are the log fields that name an event: no payload.
func Fields(e *event.Event) []any {
	return []any{
		slog.String("kind", e.Kind.String()),
		slog.String("topic", e.Topic),
		slog.Int("partition", int(e.Partition)),
		slog.Int64("offset", e.Offset),
		slog.String("key", Clip(e.Key, 256)),
	}
}
