// Package lines owns the way of log lines to the host: a slog.Handler that filters by
// level and target and makes records of what passes.
package lines

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"prosody/capi/internal/record"
)

// Trace is a level below debug.
const Trace = slog.LevelDebug - 4

// The target of lines that name none, and the attribute that names one.
const (
	root   = "prosody"
	target = "target"
)

// Filter says which lines pass: a level, and levels of targets.
type Filter struct {
	level   slog.Level
	targets []directive
}

type directive struct {
	target string
	level  slog.Level
}

const off = slog.Level(1 << 20)

var levels = map[string]slog.Level{
	"off": off, "error": slog.LevelError, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"info": slog.LevelInfo, "debug": slog.LevelDebug, "trace": Trace,
}

// Parse reads directives such as "warn,prosody.consumer=debug". What it cannot read
// counts as info.
func Parse(text string) Filter {
	filter := Filter{level: slog.LevelInfo}
	for part := range strings.SplitSeq(text, ",") {
		name, level, targeted := strings.Cut(strings.TrimSpace(part), "=")
		if !targeted {
			name, level = "", name
		}
		value, known := levels[strings.ToLower(strings.TrimSpace(level))]
		if !known {
			value = slog.LevelInfo
		}
		if targeted {
			name = strings.ReplaceAll(strings.TrimSpace(name), "::", ".")
			filter.targets = append(filter.targets, directive{name, value})
		} else if strings.TrimSpace(part) != "" {
			filter.level = value
		}
	}
	return filter
}

// Level gives the least level that passes for a target: that of the longest directive
// that is a prefix of it.
func (f Filter) Level(target string) slog.Level {
	level, longest := f.level, -1
	for _, d := range f.targets {
		within := target == d.target || strings.HasPrefix(target, d.target+".")
		if within && len(d.target) >= longest {
			level, longest = d.level, len(d.target)
		}
	}
	return level
}

// Handler makes lines. Handlers that come from one by With share its sink.
type Handler struct {
	filter Filter
	target string
	least  slog.Level
	depth  int // of groups
	shared *shared
	inner  slog.Handler
	beside slog.Handler // nil: none
}

type shared struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
	sink   func(*record.Log)
}

// New makes a handler. sink gets each line that passes, and must not block; beside, which
// may be nil, gets the same ones.
func New(filter Filter, sink func(*record.Log), beside slog.Handler) *Handler {
	common := &shared{sink: sink}
	inner := slog.NewJSONHandler(&common.buffer, &slog.HandlerOptions{Level: Trace, ReplaceAttr: strip})
	return &Handler{filter: filter, target: root, least: filter.Level(root), shared: common, inner: inner, beside: beside}
}

// strip takes out what the record has fields for, and gives durations their unit.
func strip(groups []string, attribute slog.Attr) slog.Attr {
	if attribute.Value.Kind() == slog.KindDuration {
		attribute.Value = slog.StringValue(attribute.Value.Duration().String())
	}
	if len(groups) > 0 {
		return attribute
	}
	switch attribute.Key {
	case slog.LevelKey:
		if _, own := attribute.Value.Any().(slog.Level); own {
			return slog.Attr{}
		}
	case slog.MessageKey:
		if attribute.Value.Kind() == slog.KindString && attribute.Value.String() == "" {
			return slog.Attr{}
		}
	case target:
		return slog.Attr{}
	}
	return attribute
}

// Enabled tells whether a line of the level can pass.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }

// Handle makes a line.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	line := &record.Log{
		Time: r.Time.UnixNano(), Level: number(r.Level), Target: h.target, Text: record.Clip(r.Message),
	}
	if h.depth == 0 {
		r.Attrs(func(attribute slog.Attr) bool {
			if attribute.Key == target {
				line.Target = attribute.Value.String()
			}
			return true
		})
	}
	if r.Level < h.filter.Level(line.Target) {
		return nil
	}
	bare := slog.NewRecord(time.Time{}, r.Level, "", 0)
	r.Attrs(func(attribute slog.Attr) bool { bare.AddAttrs(attribute); return true })
	var err error
	line.Fields, err = h.fields(ctx, bare)
	h.shared.sink(line)
	if h.beside != nil {
		err = errors.Join(err, h.beside.Handle(ctx, r))
	}
	return err
}

func (h *Handler) fields(ctx context.Context, bare slog.Record) (string, error) {
	h.shared.mutex.Lock()
	defer h.shared.mutex.Unlock()
	h.shared.buffer.Reset()
	err := h.inner.Handle(ctx, bare)
	return strings.TrimSuffix(h.shared.buffer.String(), "\n"), err
}

// WithAttrs gives a handler that adds attributes to each line.
func (h *Handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	with := *h
	if h.depth == 0 {
		for _, attribute := range attributes {
			if attribute.Key == target {
				with.target = attribute.Value.String()
				with.least = with.filter.Level(with.target)
			}
		}
	}
	with.inner = h.inner.WithAttrs(attributes)
	if h.beside != nil {
		with.beside = h.beside.WithAttrs(attributes)
	}
	return &with
}

// WithGroup gives a handler whose attributes go into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.depth++
	with.inner = h.inner.WithGroup(name)
	if h.beside != nil {
		with.beside = h.beside.WithGroup(name)
	}
	return &with
}

// number gives the level of the ABI.
func number(level slog.Level) int32 {
	switch {
	case level >= slog.LevelError:
		return 40
	case level >= slog.LevelWarn:
		return 30
	case level >= slog.LevelInfo:
		return 20
	case level >= slog.LevelDebug:
		return 10
	}
	return 5
}

// Name gives the word for a level of the ABI.
func Name(level int32) string {
	switch {
	case level >= 40:
		return "ERROR"
	case level >= 30:
		return "WARN"
	case level >= 20:
		return "INFO"
	case level >= 10:
		return "DEBUG"
	}
	return "TRACE"
}
