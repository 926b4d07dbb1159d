// Package otlp has an OTLP/gRPC server for logs.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxMessage is more than any request: contrib's receivers send all that they have listed in one.
const maxMessage = 1 << 30

// Handle decides about the logs of one request. Nil accepts them. An error that is not a gRPC status refuses them for
// the time being, so that the sender tries again. ctx ends when the sender or the sink is gone.
// https://opentelemetry.io/docs/specs/otlp/#failures
type Handle func(ctx context.Context, logs plog.Logs) error

// Sink is a running server.
type Sink struct {
	address string
	server  *grpc.Server
	served  chan error
}

// Listen starts a sink at an address, host:port, where port 0 is any that is free. The options go to its gRPC server.
func Listen(address string, handle Handle, options ...grpc.ServerOption) (*Sink, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for OTLP: %w", err)
	}
	s := &Sink{
		address: listener.Addr().String(),
		server:  grpc.NewServer(append([]grpc.ServerOption{grpc.MaxRecvMsgSize(maxMessage), grpc.WaitForHandlers(true)}, options...)...),
		served:  make(chan error, 1),
	}
	plogotlp.RegisterGRPCServer(s.server, &service{handle: handle})
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Address is host:port.
func (s *Sink) Address() string { return s.address }

// Stop closes every connection in the middle of whatever it is at, and waits for the handlers. It may be called once,
// and reports why the sink ended if it had ended by itself.
func (s *Sink) Stop() error {
	s.server.Stop()
	if err := <-s.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it had begun
		return fmt.Errorf("the OTLP server ended by itself: %w", err)
	}
	return nil
}

type service struct {
	plogotlp.UnimplementedGRPCServer
	handle Handle
}

// Export implements plogotlp.GRPCServer.
func (s *service) Export(ctx context.Context, request plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	err := s.handle(ctx, request.Logs())
	if _, isStatus := status.FromError(err); !isStatus {
		err = status.Error(codes.Unavailable, err.Error())
	}
	return plogotlp.NewExportResponse(), err
}
