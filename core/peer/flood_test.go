package peer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"prosody/core/peer/wire"
)

// connect makes a connection without the checks of a Prosody that sends.
func connect(t *testing.T, m *member) *grpc.ClientConn {
	t.Helper()
	require.NoError(t, m.Reach(t.Context()))
	connection, err := grpc.NewClient("passthrough:///"+m.self.Direct, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func raw(t *testing.T, m *member) wire.PeerServiceClient {
	t.Helper()
	return wire.NewPeerServiceClient(connect(t, m))
}

// crowd makes calls at once and counts their ends.
func crowd(count int, call func(n int) error) func() map[codes.Code]int {
	var all sync.WaitGroup
	var mutex sync.Mutex
	seen := map[codes.Code]int{}
	for n := range count {
		all.Go(func() {
			err := call(n)
			mutex.Lock()
			defer mutex.Unlock()
			seen[status.Code(err)]++
		})
	}
	return func() map[codes.Code]int { all.Wait(); return seen }
}

// rest waits until no call is at work: its room is free a little after its answer is there.
func rest(t *testing.T, m *member) {
	t.Helper()
	require.Eventually(t, func() bool { return len(m.server.calls) == 0 }, 2*time.Minute, time.Millisecond)
}

// A flood of answers is turned away before its frames are read; then others get in.
func TestAFloodIsTurnedAway(t *testing.T) {
	gate := make(chan struct{})
	m := open(t, newDirectory(), nil)
	m.options.Receive = func(Answer) Verdict { <-gate; return Accepted }
	clients := []wire.PeerServiceClient{raw(t, m), raw(t, m), raw(t, m)}
	ends := crowd(3*maxCalls, func(n int) error {
		_, err := clients[n%len(clients)].DeliverResult(t.Context(), frame(to(m)))
		return err
	})
	require.Eventually(t, func() bool { return m.Stats().Overload == 2*maxCalls }, 2*time.Minute, time.Millisecond)
	close(gate)
	assert.Equal(t, map[codes.Code]int{codes.OK: maxCalls, codes.Unavailable: 2 * maxCalls}, ends())
	rest(t, m)
	_, err := clients[0].DeliverResult(t.Context(), frame(to(m)))
	require.NoError(t, err)
	rest(t, m)
}

// One connection cannot take the room of others: what is too much for it waits at its end.
func TestAConnectionHasSoManyCalls(t *testing.T) {
	gate := make(chan struct{})
	m := open(t, newDirectory(), nil)
	m.options.Receive = func(Answer) Verdict { <-gate; return Accepted }
	client := raw(t, m)
	ends := crowd(maxCalls, func(int) error {
		_, err := client.DeliverResult(t.Context(), frame(to(m)))
		return err
	})
	require.Eventually(t, func() bool { return len(m.server.calls) == maxCalls }, 2*time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := client.DeliverResult(ctx, frame(to(m)))
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	assert.Zero(t, m.Stats().Overload)
	close(gate)
	assert.Equal(t, map[codes.Code]int{codes.OK: maxCalls}, ends())
}

// Calls of other methods take no room.
func TestOtherMethodsAreRefused(t *testing.T) {
	m := open(t, newDirectory(), nil)
	connection := connect(t, m)
	ends := crowd(2*maxCalls, func(int) error {
		return connection.Invoke(t.Context(), "/prosody.peer.v1.PeerService/Other", frame(to(m)), &wire.DeliverResultResponse{})
	})
	assert.Equal(t, map[codes.Code]int{codes.Unimplemented: 2 * maxCalls}, ends())
	rest(t, m)
	_, err := wire.NewPeerServiceClient(connection).DeliverResult(t.Context(), frame(to(m)))
	require.NoError(t, err)
}

func TestHeadersHaveABound(t *testing.T) {
	m := open(t, newDirectory(), nil)
	client := raw(t, m)
	_, err := client.DeliverResult(t.Context(), frame(to(m)))
	require.NoError(t, err)
	_, err = client.DeliverResult(metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("y", 20<<10)), frame(to(m)))
	require.Error(t, err)
	assert.Len(t, m.got(), 1)
}

// More connections than there is room for wait until others end.
func TestConnectionsHaveABound(t *testing.T) {
	m := open(t, newDirectory(), nil)
	m.lines = 2
	deliver := func(connection *grpc.ClientConn, within time.Duration) codes.Code {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := wire.NewPeerServiceClient(connection).DeliverResult(ctx, frame(to(m)), grpc.WaitForReady(true))
		return status.Code(err)
	}
	first, second, third := connect(t, m), connect(t, m), connect(t, m)
	require.Equal(t, codes.OK, deliver(first, time.Minute))
	require.Equal(t, codes.OK, deliver(second, time.Minute))
	require.Equal(t, codes.DeadlineExceeded, deliver(third, 500*time.Millisecond))
	assert.Len(t, m.got(), 2)
	second.Close()
	require.Equal(t, codes.OK, deliver(third, time.Minute))
}
