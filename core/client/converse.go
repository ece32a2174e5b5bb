package client

import (
	"context"
	"sync/atomic"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/peer"
	"prosody/core/request"
	"prosody/core/respond"
)

// link is the way of answers from and to other clients.
type link interface {
	request.Link
	Deliver(ctx context.Context, answer peer.Answer) error
	Stats() peer.Stats
	Close(ctx context.Context) error
}

// converse makes what requests and answers need. Nothing listens before the first request.
func (c *Client) converse() {
	var requests atomic.Pointer[request.Requester]
	receive := func(answer peer.Answer) peer.Verdict { return requests.Load().Deliver(answer) }
	c.link = c.deps.Peers.Join(receive)
	c.requests = request.New(request.Options{Send: c.producer.Send, Link: c.link, Clock: clock.Real{}})
	requests.Store(c.requests)
	if c.plan.config.Subsystem != "" {
		c.answers = respond.New(respond.Options{
			Subsystem: c.plan.config.Subsystem, Deliver: c.link.Deliver, Clock: clock.Real{}, Log: c.target("prosody.respond"),
		})
	}
}

// hush ends the requests and gives the answers the time to arrive.
func (c *Client) hush(ctx context.Context) {
	c.requests.Close()
	if c.answers != nil {
		c.answers.Close(ctx)
	}
}

// Request sends a record and gathers the answers to it, as request.Requester does.
func (c *Client) Request(ask request.Ask, done func(request.Result)) (request.ID, error) {
	c.mutex.Lock()
	over := c.phase >= closing
	c.mutex.Unlock()
	if over {
		return request.ID{}, fault.New(fault.Closed, "the requester is shutting down")
	}
	return c.requests.Request(ask, done)
}

// Abandon ends a request whose caller has gone. False: it is over already.
func (c *Client) Abandon(id request.ID) bool { return c.requests.Abandon(id) }
