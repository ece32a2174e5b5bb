package peer

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"prosody/core/peer/wire"
)

// The limits of what arrives. A call holds one frame.
const (
	maxConnections = 1024
	maxCalls       = 128
	handshake      = 10 * time.Second
	alive          = 30 * time.Second
	silent         = 20 * time.Second
)

// server takes the answers of other clients.
type server struct {
	wire.UnimplementedPeerServiceServer
	endpoint *Endpoint
	grpc     *grpc.Server
	calls    chan struct{} // one token for each call at work
}

// serve begins to serve.
func (e *Endpoint) serve(listener net.Listener) *server {
	s := &server{endpoint: e, calls: make(chan struct{}, maxCalls)}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxFrame),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.MaxHeaderListSize(16 << 10),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: alive, Timeout: silent}),
		grpc.InTapHandle(s.admit),
		grpc.StatsHandler(meter{s}),
	}
	if e.secure != nil {
		options = append(options, grpc.Creds(e.secure.server))
	}
	s.grpc = grpc.NewServer(options...)
	wire.RegisterPeerServiceServer(s.grpc, s)
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		_ = s.grpc.Serve(netutil.LimitListener(listener, e.lines))
	}()
	return s
}

// close ends the calls at work, or cuts them off when ctx ends.
func (s *server) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	s.grpc.GracefulStop()
}

// admit takes a call before its frame is read, when there is room for it.
func (s *server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != wire.PeerService_DeliverResult_FullMethodName {
		return ctx, status.Error(codes.Unimplemented, "no such method")
	}
	select {
	case s.calls <- struct{}{}:
		return ctx, nil
	default:
		s.endpoint.counts.overload.Add(1)
		return ctx, status.Errorf(codes.Unavailable, "%d answers arrive at the same time already", maxCalls)
	}
}

// meter gives the room of a call back when it ends.
type meter struct{ server *server }

func (meter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (m meter) HandleRPC(_ context.Context, event stats.RPCStats) {
	if _, ended := event.(*stats.End); ended {
		<-m.server.calls
	}
}
func (meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (meter) HandleConn(context.Context, stats.ConnStats)                       {}

// DeliverResult takes an answer to this client.
func (s *server) DeliverResult(_ context.Context, in *wire.DeliverResultRequest) (out *wire.DeliverResultResponse, err error) {
	e := s.endpoint
	defer func() {
		if thrown := recover(); thrown != nil {
			err = status.Error(codes.Internal, "fault")
			if e.options.Fault != nil {
				e.options.Fault(fmt.Errorf("an answer: %v\n%s", thrown, debug.Stack()))
			}
		}
	}()
	answer, problem := unframe(in)
	if problem != "" {
		e.counts.malformed.Add(1)
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	if answer.Target != e.id {
		e.counts.misdirected.Add(1)
		return nil, status.Error(codes.NotFound, "the answer is for another client")
	}
	if e.options.Receive(answer) == Refused {
		return nil, status.Error(codes.FailedPrecondition, "nobody waits for the answer")
	}
	return &wire.DeliverResultResponse{}, nil
}

// frame packs an answer.
func frame(answer Answer) *wire.DeliverResultRequest {
	made := &wire.DeliverResultRequest{TargetPeer: answer.Target[:], RequestId: answer.Request[:], Subsystem: answer.Subsystem}
	if answer.Error != nil {
		category := wire.ErrorCategory_ERROR_CATEGORY_TRANSIENT
		if answer.Error.Category == Permanent {
			category = wire.ErrorCategory_ERROR_CATEGORY_PERMANENT
		}
		made.Result = &wire.DeliverResultRequest_HandlerError{HandlerError: &wire.HandlerError{Category: category, Message: answer.Error.Text}}
		return made
	}
	made.Result = &wire.DeliverResultRequest_Success{Success: &wire.Success{Format: answer.Format, Payload: answer.Payload}}
	return made
}

// unframe reads an answer, or says what is wrong with it.
func unframe(in *wire.DeliverResultRequest) (answer Answer, problem string) {
	if len(in.GetTargetPeer()) != len(answer.Target) || len(in.GetRequestId()) != len(answer.Request) {
		return answer, "target_peer and request_id must have 16 bytes"
	}
	if size := len(in.GetRelayPeer()); size != 0 && size != len(answer.Target) {
		return answer, "relay_peer must have 16 bytes, or none"
	}
	copy(answer.Target[:], in.GetTargetPeer())
	copy(answer.Request[:], in.GetRequestId())
	answer.Subsystem = in.GetSubsystem()
	switch result := in.GetResult().(type) {
	case *wire.DeliverResultRequest_Success:
		answer.Format, answer.Payload = result.Success.GetFormat(), result.Success.GetPayload()
	case *wire.DeliverResultRequest_HandlerError:
		answer.Error = &Error{Category: Transient, Text: result.HandlerError.GetMessage()}
		if result.HandlerError.GetCategory() == wire.ErrorCategory_ERROR_CATEGORY_PERMANENT {
			answer.Error.Category = Permanent
		}
	default:
		return answer, "result: there is none"
	}
	return answer, ""
}
