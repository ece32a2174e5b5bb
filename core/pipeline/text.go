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
	if len(text) <= limit && utf8.ValidString(text) {
		return text
	}
	// Replacing a byte by U+FFFD makes a text at most three times as long, so a
	// longer head than this is never needed.
	short := len(text) <= limit
	if !short {
		text = text[:limit]
		for cut := 0; cut < utf8.UTFMax && len(text) > 0; cut++ {
			if last, size := utf8.DecodeLastRuneInString(text); last != utf8.RuneError || size != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if short && len(text) <= limit {
		return text
	}
	end := max(min(len(text), limit-len(ellipsis)), 0)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	if limit < len(ellipsis) {
		return text[:end]
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
