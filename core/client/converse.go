package client

import (
	"context"
	"sync/atomic"

	"prosody/core/clock"
	"prosody/core/fault"
	"prosody/core/peer"
	"prosody/core/request"
	"prosody/core/respond"
	"prosody/core/store"
)

// link is the way of answers from and to other clients.
type link interface {
	request.Link
	Deliver(ctx context.Context, answer peer.Answer) error
	Stats() peer.Stats
	Close(ctx context.Context) error
}

// converse makes what requests and answers need. Nothing listens before the first request.
func (c *Client) converse(opened backend) error {
	var requests atomic.Pointer[request.Requester]
	receive := func(answer peer.Answer) peer.Verdict { return requests.Load().Deliver(answer) }
	if c.plan.config.Mock {
		c.link = c.deps.Peers.Join(receive)
	} else if err := c.network(opened, receive); err != nil {
		return err
	}
	c.requests = request.New(request.Options{Send: c.producer.Send, Link: c.link, Clock: clock.Real{}, Fault: c.deps.Fault, Tracer: c.plan.tracer(c.deps.Tracer)})
	requests.Store(c.requests)
	if c.plan.config.Subsystem != "" {
		c.answers = respond.New(respond.Options{
			Subsystem: c.plan.config.Subsystem, Deliver: c.link.Deliver, Clock: clock.Real{}, Log: c.target("prosody.respond"), Fault: c.deps.Fault,
		})
	}
	return nil
}

// network makes the link of a client in the network.
func (c *Client) network(opened backend, receive func(peer.Answer) peer.Verdict) error {
	directory, ok := opened.(store.Directory)
	if !ok {
		return fault.New(fault.Internal, "the store keeps no directory")
	}
	settings := c.plan.config
	options := peer.Options{
		Directory: directory, Receive: receive, Bind: settings.PeerBindAddress, Advertised: settings.PeerAdvertisedConnect,
		Network: settings.PeerNetworkName, Capacity: settings.PeerCacheCapacity, Lease: settings.PeerRegistrationTTL,
		Clock: clock.Real{}, Log: c.target("prosody.peer"), Fault: c.deps.Fault,
	}
	if settings.PeerTLS {
		options.TLS = &peer.TLS{CA: settings.PeerTLSCA, Cert: settings.PeerTLSCert, Key: settings.PeerTLSKey, Verify: settings.PeerTLSVerify}
	}
	made, err := peer.New(options)
	if err != nil {
		return fault.Wrap(fault.Of(err), err, "failed to initialize requests")
	}
	c.link = made
	return nil
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
