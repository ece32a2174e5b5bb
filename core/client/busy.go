package client

import (
	"fmt"

	"prosody/core/fault"
	"prosody/core/publish"
	"prosody/core/state"
)

// Busy tells what the client still has to do, or nothing, and a number that grows with all
// that comes in.
func (c *Client) Busy() (moves int64, reason string) {
	c.mutex.Lock()
	phase, running := c.phase, c.run
	c.mutex.Unlock()
	if pending := c.producer.Stats().Pending; pending > 0 {
		return 0, fmt.Sprintf("%d records are being sent", pending)
	}
	switch phase {
	case starting, stopping, closing:
		return 0, "a client starts or stops"
	}
	if running == nil {
		return 0, ""
	}
	if !running.consumer.Joined() {
		return 0, "group " + c.plan.config.GroupID + ": a member has not joined"
	}
	if moves, reason = running.consumer.Busy(); reason == "" {
		reason = running.keep.timers.Busy()
	}
	return moves, reason
}

// Kept makes a reader of what the client's own group keeps for a topic, published or not:
// for tests of a client that has subscribed.
func (c *Client) Kept(topic string, identity state.Identity) (*publish.Reader, error) {
	if !c.plan.config.Mock {
		return nil, fault.New(fault.State, "the client is not in mock mode")
	}
	running := c.current()
	if running == nil {
		return nil, fault.New(fault.State, "the client is not subscribed")
	}
	return c.readers.At(c.plan.config.GroupID, topic, identity, running.keep.loader.Read)
}
