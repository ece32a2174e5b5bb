package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"prosody/core/peer/wire"
)

// attempt bounds one call.
const attempt = 5 * time.Second

// dialer keeps the ways to other clients and the connections to them: as many as its
// capacity says, the least used go first.
type dialer struct {
	secure *secure

	mutex  sync.Mutex
	closed bool
	ways   *simplelru.LRU[ID, way]
	lines  *simplelru.LRU[route, *line]
}

// way is a route and how long it is believed.
type way struct {
	route
	until time.Time
}

// line is a connection. It closes when the last call of it is over.
type line struct {
	*grpc.ClientConn
	calls   int
	dropped bool
}

func newDialer(capacity int, secure *secure) *dialer {
	d := &dialer{secure: secure}
	capacity = max(capacity, 1)
	// The only error is a capacity below 1.
	d.ways, _ = simplelru.NewLRU[ID, way](capacity, nil)
	d.lines, _ = simplelru.NewLRU(capacity, func(_ route, l *line) { l.drop() })
	return d
}

// known gives the way to a client that was found lately.
func (d *dialer) known(id ID, now time.Time) (route, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	found, ok := d.ways.Get(id)
	return found.route, ok && now.Before(found.until)
}

func (d *dialer) learn(id ID, to route, until time.Time) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.ways.Add(id, way{to, until})
}

func (d *dialer) forget(id ID) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.ways.Remove(id)
}

// call makes one call; nil: the answer is there.
func (d *dialer) call(ctx context.Context, to route, in *wire.DeliverResultRequest) *Failure {
	held, err := d.take(to)
	if err != nil {
		return &Failure{Unreachable, to.address + ": " + err.Error()}
	}
	defer d.give(held)
	ctx, cancel := context.WithTimeout(ctx, attempt) // the peer refuses calls without one
	defer cancel()
	_, err = wire.NewPeerServiceClient(held).DeliverResult(ctx, in)
	if err == nil {
		return nil
	}
	return &Failure{judge(status.Code(err)), to.address + ": " + err.Error()}
}

// judge says what a status means for the next attempt.
func judge(code codes.Code) FailureKind {
	switch code {
	case codes.ResourceExhausted, codes.OutOfRange:
		return TooLarge
	case codes.FailedPrecondition, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.AlreadyExists:
		return Unwanted
	}
	return Unreachable
}

// take gives the connection of a route; it is made when there is none.
func (d *dialer) take(to route) (*line, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.closed {
		return nil, errors.New("the client is shut down")
	}
	held, ok := d.lines.Get(to)
	if !ok {
		credentials := insecure.NewCredentials()
		if to.secure {
			credentials = d.secure.client(to)
		}
		made, err := grpc.NewClient("passthrough:///"+to.address,
			grpc.WithTransportCredentials(credentials),
			grpc.WithNoProxy(),
			grpc.WithDisableServiceConfig(),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: 3 * time.Second,
			}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: alive, Timeout: silent}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<10)),
		)
		if err != nil {
			return nil, err
		}
		held = &line{ClientConn: made}
		d.lines.Add(to, held)
	}
	held.calls++
	return held, nil
}

func (d *dialer) give(held *line) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	held.calls--
	held.end()
}

// drop closes the connection, now or with its last call. The lock is held.
func (l *line) drop() {
	l.dropped = true
	l.end()
}

func (l *line) end() {
	if l.dropped && l.calls == 0 {
		_ = l.Close()
	}
}

// size tells how many connections there are.
func (d *dialer) size() int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.lines.Len()
}

func (d *dialer) close() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.closed = true
	d.lines.Purge()
}
