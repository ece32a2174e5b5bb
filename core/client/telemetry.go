package client

import (
	"context"

	"prosody/core/kafka"
	"prosody/core/observe/topic"
)

// telemetry makes the sender of telemetry records; nil when they are off.
func telemetry(plan *Plan, deps Deps) (*topic.Emitter, error) {
	settings := plan.config
	if !settings.TelemetryEnabled {
		return nil, nil
	}
	return topic.New(topic.Options{
		Cluster: plan.cluster(deps.Memory), Servers: settings.BootstrapServers, Properties: settings.Kafka,
		Topic: settings.TelemetryTopic, Clock: deps.Clock, Log: deps.Log.With("target", "prosody.telemetry"),
	})
}

// sent tells of what the producer has sent.
func sent(records *topic.Emitter, source string) func(*kafka.Record, int32, int64) {
	if records == nil {
		return nil
	}
	return func(record *kafka.Record, partition int32, offset int64) {
		records.Tell(topic.About(record, partition, offset, source))
	}
}

// story is what the chain tells of events; nil: nothing.
func (c *Client) story() *topic.Story {
	if c.records == nil {
		return nil
	}
	return &topic.Story{Emitter: c.records, Group: c.plan.config.GroupID}
}

// expired is a context that has ended.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
