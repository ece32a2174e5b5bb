package client

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"prosody/core/event"
	"prosody/core/kafka"
	"prosody/core/pipeline"
)

// told reads all records of the telemetry topic, by key.
func told(t *testing.T, p *Plan) map[string][]string {
	t.Helper()
	member, err := p.cluster(registry).Consumer(kafka.ConsumerConfig{Servers: p.config.BootstrapServers, Group: "reader"})
	require.NoError(t, err)
	defer func() { require.NoError(t, member.Close()) }()
	require.NoError(t, member.Subscribe([]string{p.config.TelemetryTopic}))
	made := map[string][]string{}
	for quiet := 0; quiet < 10; {
		events := member.Poll(50*time.Millisecond, 1000)
		if quiet++; len(events.Records) > 0 {
			quiet = 0
		}
		for _, record := range events.Records {
			var fields map[string]any
			require.NoError(t, json.Unmarshal(record.Value, &fields))
			text := fmt.Sprint(fields["type"])
			for _, name := range []string{"timerType", "demandType", "errorCategory"} {
				if value, there := fields[name]; there {
					text += fmt.Sprint(" ", value)
				}
			}
			made[string(record.Key)] = append(made[string(record.Key)], text[len("prosody."):])
		}
	}
	return made
}

// The records of each key tell its story, in its order, and what failed leaves no timers.
func TestTelemetryRecordsTellTheStoryOfEachEvent(t *testing.T) {
	p := plan(t, map[string]string{"telemetry_topic": "told", "commit_interval": "20ms"})
	p.config.TelemetryEnabled = true
	client, err := New(p, Deps{Memory: registry, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var timers, retries atomic.Int64
	far := time.Now().Unix() + 3600
	require.NoError(t, client.Subscribe(t.Context(), pipeline.Func(
		func(ctx context.Context, i *pipeline.Invocation) pipeline.Outcome {
			switch {
			case i.Event.Kind == event.Timer:
				timers.Add(1)
			case i.Event.Key == "timers":
				require.NoError(t, i.Txn.Schedule(ctx, far, false))
				require.NoError(t, i.Txn.Unschedule(ctx, far, false))
				require.NoError(t, i.Txn.Schedule(ctx, far+1, false))
				require.NoError(t, i.Txn.Replace(ctx, time.Now().Unix(), false))
			case i.Event.Key == "bad":
				return pipeline.Outcome{Class: pipeline.Permanent, Text: "no"}
			case i.Event.Key == "later" && retries.Add(1) == 1:
				require.NoError(t, i.Txn.Schedule(ctx, far, false)) // comes to nothing
				return pipeline.Outcome{Class: pipeline.Transient, Text: "not yet"}
			}
			return pipeline.Outcome{Class: pipeline.Success}
		})))
	for _, key := range []string{"timers", "bad", "later", "good"} {
		send(t, client, key, `{}`)
	}
	require.Eventually(t, func() bool { return timers.Load() == 1 && retries.Load() == 2 }, 2*time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return client.Facts().Consumer.Running == 0 }, 2*time.Minute, time.Millisecond)
	require.NoError(t, client.Shutdown(t.Context()))

	facts := client.records.Snapshot()
	require.Zero(t, facts.Waiting+int(facts.Dropped+facts.Failed), "%+v", facts)
	require.Equal(t, map[string][]string{
		"good": {"message.sent", "message.dispatched normal", "message.succeeded normal"},
		"bad":  {"message.sent", "message.dispatched normal", "message.failed normal permanent"},
		"timers": {
			"message.sent", "message.dispatched normal", "message.succeeded normal",
			"timer.scheduled application", "timer.cancelled application", "timer.scheduled application",
			"timer.cancelled application", "timer.scheduled application",
			"timer.dispatched application normal", "timer.succeeded application normal",
		},
		"later": {
			"message.sent", "message.dispatched normal", "message.failed normal transient", "timer.scheduled deferredMessage",
			"timer.dispatched deferredMessage failure", "message.dispatched failure", "message.succeeded failure",
			"timer.succeeded deferredMessage failure",
		},
	}, sorted(told(t, p)))
}

// sorted puts what the producer tells first: its acknowledgement races with the handler.
func sorted(by map[string][]string) map[string][]string {
	for key, list := range by {
		made := []string{"message.sent"}
		for _, each := range list {
			if each != made[0] {
				made = append(made, each)
			}
		}
		by[key] = made
	}
	return by
}

func TestMockModeHasNoTelemetryRecords(t *testing.T) {
	client := open(t, map[string]string{"telemetry_enabled": "true"})
	require.Nil(t, client.records)
	require.Nil(t, client.Facts().Telemetry)
}
