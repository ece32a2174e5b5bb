package client

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"prosody/core/health"
	"prosody/core/observe"
)

// number counts the clients of the process.
var number atomic.Int64

// label names a client among those of its process.
func label() string { return fmt.Sprintf("prosody-%d", number.Add(1)) }

// Facts tells what the client knows of itself.
func (c *Client) Facts() *observe.Facts {
	facts := &observe.Facts{
		Client: c.label, Stalled: c.Stalled(), Outages: health.Texts(c.Outages()), Port: -1,
		Producer: c.producer.Stats(), Sends: c.producer.Times(), Store: c.times.calls.Snapshot(),
	}
	facts.Requests, facts.Peers = c.requests.Stats(), c.link.Stats()
	if c.answers != nil {
		answers := c.answers.Stats()
		facts.Answers = &answers
	}
	if c.records != nil {
		told := c.records.Snapshot()
		facts.Telemetry = &told
	}
	state, err := c.State()
	facts.State = state.String()
	if err != nil {
		facts.State = "configuration failed"
	}
	running := c.current()
	if running == nil {
		return facts
	}
	if running.site != nil {
		facts.Port = running.site.probe.Port()
	}
	events, chain, member := running.chain.Counts.Snapshot(), running.chain.Snapshot(), running.consumer.Snapshot()
	timers, keys := running.keep.timers.Snapshot(), running.keep.Keeper.Snapshot()
	cells, records := running.keep.state.Snapshot(), running.keep.loader.Snapshot()
	facts.Pipeline, facts.Chain, facts.Consumer = &events, &chain, &member
	facts.Timers, facts.Keys, facts.Cells, facts.Records = &timers, &keys, &cells, &records
	return facts
}

// last gives the facts of a client that is over, with those of its last consumer.
func (c *Client) last() *observe.Facts {
	now := c.Facts()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.past == nil {
		return now
	}
	last := *c.past
	last.State, last.Producer, last.Sends, last.Store = now.State, now.Producer, now.Sends, now.Store
	last.Requests, last.Answers, last.Peers, last.Telemetry = now.Requests, now.Answers, now.Peers, now.Telemetry
	return &last
}

// Stats gives counters and the state of each partition as JSON.
func (c *Client) Stats() ([]byte, error) { return json.Marshal(c.Facts()) }

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
