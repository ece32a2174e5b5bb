package store

import (
	"context"
	"time"
)

// Peer is where a client that makes requests can be reached.
type Peer struct {
	ID         [16]byte
	Direct     string // IP address and port, within its network
	Advertised string // URI for other networks; empty: none
	Host       string // name of its machine
	Network    string // name of its network; empty: none
}

// Directory keeps which clients can be reached. Its errors are those of a Store.
type Directory interface {
	// Enroll adds a client, or renews it, for a time.
	Enroll(ctx context.Context, peer Peer, ttl time.Duration) error
	// Withdraw removes a client.
	Withdraw(ctx context.Context, id [16]byte) error
	// Locate finds a client; false when there is none.
	Locate(ctx context.Context, id [16]byte) (Peer, bool, error)
}
