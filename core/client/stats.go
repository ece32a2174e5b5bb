package client

import (
	"encoding/json"

	"prosody/core/consumer"
	"prosody/core/peer"
	"prosody/core/pipeline"
	"prosody/core/producer"
	"prosody/core/request"
	"prosody/core/respond"
	"prosody/core/timer"
)

// Stats is what a client can tell about itself.
type Stats struct {
	State    string             `json:"state"`
	Stalled  []string           `json:"stalled"`
	Producer producer.Stats     `json:"producer"`
	Requests request.Stats      `json:"requests"`
	Answers  *respond.Stats     `json:"answers,omitempty"` // of a subsystem
	Peers    peer.Stats         `json:"peers"`
	Pipeline *pipeline.Snapshot `json:"pipeline,omitempty"`
	Consumer *consumer.Snapshot `json:"consumer,omitempty"`
	Timers   *timer.Facts       `json:"timers,omitempty"`
	Keys     *Keys              `json:"keys,omitempty"`
}

// Stats gives counters and the state of each partition as JSON.
func (c *Client) Stats() ([]byte, error) {
	stats := Stats{Stalled: c.Stalled(), Producer: c.producer.Stats(), Requests: c.requests.Stats(), Peers: c.link.Stats()}
	if c.answers != nil {
		answers := c.answers.Stats()
		stats.Answers = &answers
	}
	state, err := c.State()
	stats.State = state.String()
	if err != nil {
		stats.State = "configuration failed"
	}
	if running := c.current(); running != nil {
		pipeline, consumer, timers := running.chain.Counts.Snapshot(), running.consumer.Snapshot(), running.keep.timers.Snapshot()
		stats.Pipeline, stats.Consumer, stats.Timers, stats.Keys = &pipeline, &consumer, &timers, running.keep.keys()
	}
	return json.Marshal(stats)
}

func (s State) String() string {
	switch s {
	case Configured:
		return "configured"
	case Running:
		return "running"
	case ShutDown:
		return "shut_down"
	}
	return "unknown"
}
