package lines

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/capi/internal/record"
)

type sink struct {
	mutex sync.Mutex
	lines []*record.Log
}

func (s *sink) add(line *record.Log) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lines = append(s.lines, line)
}

func logger(filter string) (*slog.Logger, *sink) {
	s := &sink{}
	return slog.New(New(Parse(filter), s.add, nil)), s
}

func TestAHandlerBesideGetsTheSameLines(t *testing.T) {
	var text strings.Builder
	s := &sink{}
	beside := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: Trace, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(New(Parse("warn,prosody.a=debug"), s.add, beside))
	log.Info("no")
	log.With("target", "prosody.a", "x", 1).WithGroup("g").Debug("yes", "y", 2)
	log.Error("too")
	require.Len(t, s.lines, 2)
	require.Equal(t, "level=DEBUG msg=yes target=prosody.a x=1 g.y=2\nlevel=ERROR msg=too\n", text.String())
}

func TestALineHasTargetTextAndFields(t *testing.T) {
	log, s := logger("")
	log.Info("plain")
	log.With("target", "prosody.consumer").With("a", 1).WithGroup("g").Warn("grouped", "target", "inner", "b", errors.New("bad"))
	log.Error("own", "target", "prosody.own", "msg", "text", "level", 3, "time", 7)
	require.Len(t, s.lines, 3)
	assert.Equal(t, "prosody", s.lines[0].Target)
	assert.Equal(t, "plain", s.lines[0].Text)
	assert.EqualValues(t, 20, s.lines[0].Level)
	assert.Equal(t, "{}", s.lines[0].Fields)
	assert.Positive(t, s.lines[0].Time)
	assert.Equal(t, "prosody.consumer", s.lines[1].Target)
	assert.EqualValues(t, 30, s.lines[1].Level)
	assert.JSONEq(t, `{"a":1,"g":{"target":"inner","b":"bad"}}`, s.lines[1].Fields)
	assert.Equal(t, "prosody.own", s.lines[2].Target)
	assert.JSONEq(t, `{"msg":"text","level":3,"time":7}`, s.lines[2].Fields)
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		filter, target string
		least          slog.Level
	}{
		{"", "prosody", slog.LevelInfo},
		{"warn", "prosody.consumer", slog.LevelWarn},
		{"nonsense", "prosody", slog.LevelInfo},
		{"off", "prosody", off},
		{"error,prosody.consumer=debug", "prosody.consumer", slog.LevelDebug},
		{"error,prosody.consumer=debug", "prosody.consumer.poll", slog.LevelDebug},
		{"error,prosody.consumer=debug", "prosody.consumers", slog.LevelError},
		{"prosody::producer=TRACE , warn", "prosody.producer", Trace},
		{"prosody=error,prosody.consumer=info", "prosody.consumer", slog.LevelInfo},
	} {
		assert.Equal(t, c.least, Parse(c.filter).Level(c.target), "%s %s", c.filter, c.target)
	}
	log, s := logger("error,prosody.consumer=debug")
	log.Warn("dropped")
	log.With("target", "prosody.consumer").Debug("kept")
	log.With("target", "prosody.consumer").Log(t.Context(), Trace, "dropped")
	require.Len(t, s.lines, 1)
	assert.Equal(t, "kept", s.lines[0].Text)
	off, none := logger("off")
	off.Error("dropped")
	assert.Empty(t, none.lines)
}

func TestBrokenTextIsRepaired(t *testing.T) {
	log, s := logger("")
	log.Info("a\xffb", "k", "c\xffd")
	assert.Equal(t, "a\uFFFDb", s.lines[0].Text)
	assert.JSONEq(t, `{"k":"c\ufffdd"}`, s.lines[0].Fields)
}

func TestManyAtOnce(t *testing.T) {
	log, s := logger("")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			own := log.With("i", i)
			for range 100 {
				own.Info("x", "j", i)
			}
		})
	}
	group.Wait()
	require.Len(t, s.lines, 800)
	for _, line := range s.lines {
		assert.Regexp(t, `^\{"i":(\d),"j":(\d)\}$`, line.Fields)
		assert.Equal(t, line.Fields[5], line.Fields[11])
	}
}

func TestDurationsHaveTheirUnit(t *testing.T) {
	var got []string
	log := slog.New(New(Parse("info"), func(line *record.Log) { got = append(got, line.Fields) }, nil))
	log.With("delay", 20*time.Millisecond).WithGroup("g").Info("text", "wait", 1500*time.Millisecond)
	require.Equal(t, []string{`{"delay":"20ms","g":{"wait":"1.5s"}}`}, got)
}
