package pipeline_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"prosody/core/pipeline"
)

func TestClipBoundsAndRepairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.SampledFrom([]byte("aé€😀\xff\xc3"))).Draw(t, "text"))
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		clipped := pipeline.Clip(text, limit)
		assert.LessOrEqual(t, len(clipped), limit)
		assert.True(t, utf8.ValidString(clipped))
		repaired := strings.ToValidUTF8(text, "\uFFFD")
		if len(repaired) <= limit {
			assert.Equal(t, repaired, clipped)
		} else if limit >= 8 {
			assert.True(t, strings.HasSuffix(clipped, "…"), clipped)
			assert.GreaterOrEqual(t, len(clipped), limit-10, "little is lost")
		}
	})
}
