package client

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// journal keeps log lines.
type journal struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.Write(line)
}

// last gives the lines that tell of the end of an event.
func (j *journal) last(t *testing.T) (list []map[string]any) {
	t.Helper()
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for line := range strings.Lines(j.text.String()) {
		var made map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &made))
		switch text := made["msg"].(string); {
		case strings.HasPrefix(text, "discarding "), text == "copying record to the failure topic", text == "skipping invalid record",
			text == "record filtered":
			list = append(list, made)
		}
	}
	return list
}

// put writes a record as another service might.
func put(t *testing.T, p *Plan, record *kafka.Record) {
	t.Helper()
	writer, err := p.cluster(registry).Producer(kafka.ProducerConfig{Servers: p.config.BootstrapServers})
	require.NoError(t, err)
	ended := make(chan kafka.Delivery, 1)
	require.NoError(t, writer.Produce(record, func(end kafka.Delivery) { ended <- end }))
	require.NoError(t, (<-ended).Err)
	require.NoError(t, writer.Close(t.Context()))
}

// I7: whatever way an event ends without having been handled, one line tells where it was and
// why, and the next event of its partition goes on.
func TestEachEventThatIsGivenUpHasOneLine(t *testing.T) {
	const key = "customer\n\"4711\""
	low := map[string]string{"mode": "low-latency", "failure_topic": "failures", "max_retries": "2", "retry_base": "1ms", "max_retry_delay": "2ms"}
	fails := pipeline.Outcome{Class: pipeline.Transient, Text: "the bank does not answer"}
	never := pipeline.Outcome{Class: pipeline.Permanent, Text: "no such account"}
	for _, way := range []struct {
		name    string
		options map[string]string
		record  kafka.Record
		end     pipeline.Outcome
		text    string
		fields  map[string]any
	}{
		{"permanent", nil, kafka.Record{Value: []byte(`{}`)}, never, "discarding message", map[string]any{"reason": never.Text, "class": "permanent", "level": "ERROR"}},
		{"excise", nil, kafka.Record{}, never, "discarding excise", map[string]any{"reason": never.Text}},
		{"best effort", map[string]string{"mode": "best-effort"}, kafka.Record{Value: []byte(`{}`)}, fails, "discarding message",
			map[string]any{"reason": fails.Text, "class": "transient"}},
		{"exhausted", low, kafka.Record{Value: []byte(`{}`)}, fails, "copying record to the failure topic",
			map[string]any{"reason": fails.Text, "failure_topic": "failures", "kind": "message", "level": "ERROR"}},
		{"permanent in low latency", low, kafka.Record{Value: []byte(`{}`)}, never, "copying record to the failure topic", map[string]any{"reason": never.Text}},
		{"invalid", nil, kafka.Record{Value: []byte(`{"a":`)}, never, "skipping invalid record", map[string]any{"level": "ERROR"}},
		{"invalid as dead letter", map[string]string{"invalid_records": "dead-letter", "failure_topic": "failures"}, kafka.Record{Value: []byte(`{"a":`)}, never,
			"copying record to the failure topic", map[string]any{"kind": "invalid"}},
		{"event type", map[string]string{"allowed_events": "wanted"}, kafka.Record{Value: []byte(`{"type":"other"}`)}, never,
			"record filtered", map[string]any{"reason": "event_type", "level": "DEBUG"}},
		{"loop", nil, kafka.Record{Value: []byte(`{}`), Headers: []kafka.Header{{Name: "source-system", Value: []byte("group")}}}, never,
			"record filtered", map[string]any{"reason": "source_system", "level": "DEBUG"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			lines, handled := &journal{}, make(chan struct{}, 1)
			p := plan(t, way.options)
			p.config.BootstrapServers = []string{uuid.NewString()} // nobody was here before
			client, err := New(p, Deps{Memory: registry, Log: slog.New(slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			require.NoError(t, err)
			way.record.Topic, way.record.Key = "orders", []byte(key)
			put(t, p, &way.record)
			put(t, p, &kafka.Record{Topic: "orders", Key: []byte(key), Value: []byte(`{"type":"wanted","n":1}`)})
			require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(func(_ context.Context, i *pipeline.Invocation) pipeline.Outcome {
				if i.Event.Offset == 0 {
					return way.end
				}
				handled <- struct{}{}
				return pipeline.Outcome{Class: pipeline.Success}
			})))
			select {
			case <-handled:
			case <-time.After(30 * time.Second):
				t.Fatal("the next event was not handled")
			}
			require.NoError(t, client.Shutdown(t.Context()))
			last := lines.last(t)
			require.Len(t, last, 1)
			assert.Equal(t, way.text, last[0]["msg"])
			assert.Equal(t, "orders", last[0]["topic"])
			assert.Contains(t, last[0], "partition")
			assert.EqualValues(t, 0, last[0]["offset"])
			assert.NotEmpty(t, last[0]["reason"])
			if !strings.HasPrefix(way.text, "skipping") {
				assert.Equal(t, key, last[0]["key"])
			}
			for name, value := range way.fields {
				assert.Contains(t, last[0][name], value, name)
			}
		})
	}
}

// A timer has no place in the log.
func TestATimerThatIsGivenUpHasALine(t *testing.T) {
	lines, failed := &journal{}, make(chan struct{}, 1)
	p := plan(t, map[string]string{"bootstrap_servers": uuid.NewString()})
	client, err := New(p, Deps{Memory: registry, Log: slog.New(slog.NewJSONHandler(lines, nil))})
	require.NoError(t, err)
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
		if i.Event.Kind == event.Timer {
			failed <- struct{}{}
			return pipeline.Outcome{Class: pipeline.Permanent, Text: "too late"}
		}
		assert.NoError(t, i.Txn.Schedule(ctx, time.Now().Unix(), false))
		return pipeline.Outcome{Class: pipeline.Success}
	})))
	send(t, client, "k", `{}`)
	<-failed
	require.NoError(t, client.Shutdown(t.Context()))
	last := lines.last(t)
	require.Len(t, last, 1)
	for name, value := range map[string]any{"msg": "discarding timer", "topic": "orders", "offset": -1.0, "key": "k", "reason": "too late"} {
		assert.Equal(t, value, last[0][name], name)
	}
}
