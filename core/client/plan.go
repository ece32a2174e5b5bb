package client

import (
	"errors"
	"strings"

	otel "go.opentelemetry.io/otel/trace"

	"prosody/core/config"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/kafka/confluent"
	"prosody/core/kafka/memory"
	"prosody/core/observe/trace"
)

// Plan is a configuration that a client can be made from.
type Plan struct {
	config *config.Config
	faults config.Faults
}

// Prepare resolves what the host set and the environment. Faults that only the
// consumer minds stay in the plan; the others are the error.
func Prepare(source *config.Source, environ config.Environ) (*Plan, error) {
	resolved, faults := config.Resolve(source, environ)
	if err := faults.Err(config.Value); err != nil {
		return nil, &fault.Error{Kind: fault.Argument, Text: err.Error(), Cause: err}
	}
	if err := faults.Err(config.Create); err != nil {
		return nil, &fault.Error{Kind: fault.Config, Text: err.Error(), Cause: err}
	}
	return &Plan{config: resolved, faults: faults}, nil
}

// Log is the filter of the log, as the option says.
func (p *Plan) Log() string { return p.config.Log }

// Mock tells whether the plan is for mock mode, and the servers that name its embedded Kafka.
func (p *Plan) Mock() (servers []string, mock bool) {
	return p.config.BootstrapServers, p.config.Mock
}

// tracer makes the tracer of the plan's client.
func (p *Plan) tracer(inner otel.Tracer) *trace.Tracer {
	return trace.New(inner, p.config.MessageSpans, p.config.TimerSpans)
}

// consuming tells why the plan does not allow to consume, or nil.
func (p *Plan) consuming() error {
	if err := p.faults.Err(config.Consumer); err != nil {
		return &fault.Error{Kind: fault.Config, Text: err.Error(), Cause: err}
	}
	return nil
}

// subscribing tells why a consumer cannot start, or nil.
func (p *Plan) subscribing() error {
	if err := errors.Join(p.consuming(), p.faults.Err(config.Subscribe)); err != nil {
		return &fault.Error{Kind: fault.Config, Text: err.Error(), Cause: err}
	}
	if len(p.config.SubscribedTopics) == 0 {
		return fault.New(fault.Config, "failed to initialize consumer: subscribed_topics: at least one topic is needed")
	}
	return nil
}

// cluster gives the Kafka of the plan: the embedded one in mock mode, which clients
// with the same servers share, and else a real one.
func (p *Plan) cluster(embedded *memory.Registry) kafka.Cluster {
	if p.config.Mock {
		return embedded.Cluster(strings.Join(p.config.BootstrapServers, ","))
	}
	return confluent.Cluster{}
}

// NewAdmin makes an admin client. It needs bootstrap_servers only.
func NewAdmin(source *config.Source, environ config.Environ, embedded *memory.Registry) (kafka.Admin, error) {
	resolved, faults := config.Resolve(source, environ)
	if err := faults.Err(config.Value); err != nil {
		return nil, &fault.Error{Kind: fault.Argument, Text: err.Error(), Cause: err}
	}
	if wrong := faults.Of("bootstrap_servers", "mock"); len(wrong) > 0 {
		return nil, &fault.Error{Kind: fault.Config, Text: wrong.Error(), Cause: wrong}
	}
	plan := &Plan{config: resolved, faults: faults}
	admin, err := plan.cluster(embedded).Admin(resolved.BootstrapServers, resolved.Kafka)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "failed to initialize admin client")
	}
	return admin, nil
}
