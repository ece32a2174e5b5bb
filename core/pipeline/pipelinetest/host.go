// Package pipelinetest owns the host that the tests of the middleware run against: it
// plays a script and writes a transcript.
package pipelinetest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// Step is how one attempt goes.
type Step struct {
	Take time.Duration // how long it runs
	Deaf bool          // it does not stop when its context ends
	End  pipeline.Outcome
}

// Fail is the end of an attempt that may be repeated.
func Fail(text string) pipeline.Outcome {
	return pipeline.Outcome{Class: pipeline.Transient, Text: text}
}

// Never is the end of an attempt that may not.
func Never(text string) pipeline.Outcome {
	return pipeline.Outcome{Class: pipeline.Permanent, Text: text}
}

// Done is the end of an attempt that succeeded.
func Done() pipeline.Outcome { return pipeline.Outcome{Class: pipeline.Success} }

// Host plays Script, whose last step repeats. Times are those since Play.
type Host struct {
	mutex  sync.Mutex
	script []Step
	start  time.Time
	lines  []string
}

// Play makes a host.
func Play(script ...Step) *Host { return &Host{script: script, start: time.Now()} }

// Handle plays a step.
func (h *Host) Handle(ctx context.Context, invocation *pipeline.Invocation) pipeline.Outcome {
	step := h.take()
	h.Note("start failure=%t retry=%d", invocation.Demand.Failure, invocation.Demand.Retry)
	if step.Take > 0 {
		over := time.After(step.Take)
		select {
		case <-over:
		case <-ctx.Done():
			h.Note("asked to stop: %v", context.Cause(ctx))
			if step.Deaf {
				<-over
			}
		}
	}
	h.Note("end %s", step.End.Class)
	return step.End
}

// Note writes a line with the time.
func (h *Host) Note(format string, values ...any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%s ", time.Since(h.start))+fmt.Sprintf(format, values...))
}

// Transcript is what has happened.
func (h *Host) Transcript() []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]string(nil), h.lines...)
}

func (h *Host) take() Step {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	step := h.script[0]
	if len(h.script) > 1 {
		h.script = h.script[1:]
	}
	return step
}

// Event makes a message.
func Event(key string) *event.Event {
	return &event.Event{
		Kind: event.Message, Topic: "orders", Partition: 3, Offset: 42, Timestamp: 1700000000123,
		Key: key, Payload: []byte(`{"secret":1}`), Headers: []kafka.Header{},
	}
}

// Invocation makes a first delivery of a message.
func Invocation(leaving context.Context, key string) *pipeline.Invocation {
	return &pipeline.Invocation{Event: Event(key), Leaving: leaving}
}

// Log collects log lines as text.
type Log struct {
	mutex sync.Mutex
	text  strings.Builder
}

// Write takes a line.
func (l *Log) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(line)
}

func (l *Log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// Logger makes a logger of all levels.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
