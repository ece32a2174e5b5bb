package client

import (
	"fmt"
	"time"

	"prosody/core/health"
	"prosody/core/kafka"
)

// Stalled gives a reason for each thing of the consumer that stands still.
func (c *Client) Stalled() []string { return health.Texts(c.Stuck()) }

// Stuck gives a reason for each thing of the consumer that stands still, and that a restart
// may help.
func (c *Client) Stuck() []health.Reason {
	running := c.current()
	if running == nil {
		return nil
	}
	reasons := running.consumer.Reasons()
	for _, late := range running.chain.Late() {
		if over := time.Since(late.Since); over > c.plan.config.StallThreshold {
			at := kafka.Partition{Topic: late.Event.Topic, Index: late.Event.Partition}
			reasons = append(reasons, health.At(health.Handler, at, fmt.Sprintf("%s:%d: the %s handler of key %q has ignored its time-out for %s",
				at.Topic, at.Index, late.Event.Kind, late.Event.Key, over.Round(time.Second))))
		}
	}
	return reasons
}

// Outages gives a reason for each thing that waits for something outside: the store, the
// broker, or what the handlers need. A restart does not help.
func (c *Client) Outages() []health.Reason {
	var reasons []health.Reason
	if trouble := c.producer.Trouble(); trouble != "" {
		reasons = append(reasons, health.Of(health.Broker, "the Kafka client reports: "+trouble))
	}
	running := c.current()
	if running == nil {
		return reasons
	}
	reasons = append(reasons, running.keep.timers.Reasons(c.plan.config.StallThreshold)...)
	for _, gate := range running.chain.Snapshot().Gates {
		if !gate.Open {
			reasons = append(reasons, health.Reason{Part: health.Topic, Topic: gate.Topic, Text: fmt.Sprintf(
				"%s: %.0f %% of the events fail, so none is deferred; what they need may be down", gate.Topic, gate.Rate*100)})
		}
	}
	return reasons
}
