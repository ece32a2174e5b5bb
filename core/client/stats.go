package client

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"prosody/core/consumer"
	"prosody/core/health"
	"prosody/core/kafka"
	"prosody/core/observe"
	"prosody/core/observe/page"
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
	facts.Requests, facts.Asked, facts.Peers = c.requests.Stats(), c.requests.Times(), c.link.Stats()
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
	running.keep.deferred(member.Partitions)
	facts.Pipeline, facts.Chain, facts.Consumer = &events, &chain, &member
	facts.Timers, facts.Keys, facts.Cells, facts.Records = &timers, &keys, &cells, &records
	return facts
}

// deferred fills in how many keys are deferred: those that were noted, or those whose
// retry is loaded.
func (k *keep) deferred(partitions []consumer.Partition) {
	noted, loaded := k.board.Counts(), k.timers.Retries()
	for i := range partitions {
		at := kafka.Partition{Topic: partitions[i].Topic, Index: partitions[i].Partition}
		partitions[i].Deferred = max(noted[at], loaded[at])
	}
}

// shown is how many keys of each kind the status page shows.
const shown = 50

// Status is the facts with some keys.
func (c *Client) Status() *page.Status {
	status := &page.Status{Facts: c.Facts(), Now: c.deps.Clock.Now().UnixMilli(), Shown: shown}
	if running := c.current(); running != nil {
		status.Running, status.Waiting = running.consumer.Keys(shown)
		status.Deferred, status.Due = running.keep.board.Snapshot(shown), running.keep.timers.Next(shown)
	}
	status.Running, status.Waiting = listed(status.Running), listed(status.Waiting)
	status.Deferred, status.Due = listed(status.Deferred), listed(status.Due)
	return status
}

// listed makes a list of none an empty one, which JSON tells from null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
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
	last.Requests, last.Asked, last.Answers, last.Peers, last.Telemetry = now.Requests, now.Asked, now.Answers, now.Peers, now.Telemetry
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
