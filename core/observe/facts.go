package observe

import (
	"prosody/core/consumer"
	"prosody/core/entity"
	"prosody/core/loader"
	"prosody/core/observe/topic"
	"prosody/core/peer"
	"prosody/core/pipeline"
	"prosody/core/pipeline/mode"
	"prosody/core/producer"
	"prosody/core/request"
	"prosody/core/respond"
	"prosody/core/state"
	"prosody/core/tally"
	"prosody/core/timer"
)

// Facts are what a client knows of itself at one moment. The metrics, the status page and
// the statistics of the API are all made of them. What only a consumer has is nil without one.
type Facts struct {
	Client    string               `json:"client"` // tells the clients of a process apart
	State     string               `json:"state"`
	Port      int                  `json:"probe_port"` // of the probe server; -1: none
	Stalled   []string             `json:"stalled"`
	Outages   []string             `json:"outages"` // what waits for something outside
	Producer  producer.Stats       `json:"producer"`
	Sends     map[string]Durations `json:"-"` // by their end: producer.Done, or the kind of fault
	Asked     Durations            `json:"-"` // from a request to its outcomes
	Requests  request.Stats        `json:"requests"`
	Answers   *respond.Stats       `json:"answers,omitempty"` // of a subsystem
	Peers     peer.Stats           `json:"peers"`
	Store     map[Call]Durations   `json:"-"`
	Pipeline  *pipeline.Snapshot   `json:"pipeline,omitempty"`
	Chain     *mode.Facts          `json:"chain,omitempty"`
	Consumer  *consumer.Snapshot   `json:"consumer,omitempty"`
	Timers    *timer.Facts         `json:"timers,omitempty"`
	Keys      *entity.Facts        `json:"keys,omitempty"`
	Cells     *state.Facts         `json:"state_cells,omitempty"`
	Records   *loader.Facts        `json:"records,omitempty"`
	Telemetry *topic.Facts         `json:"telemetry,omitempty"`
}

// Durations is how long something took.
type Durations = tally.Durations

// Call is a kind of call of the store. Fault is the kind of error that it ended with.
type Call struct{ Operation, Fault string }
