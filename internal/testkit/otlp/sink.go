// Package otlp provides an OTLP/gRPC server for logs.
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
	_ "google.golang.org/grpc/encoding/gzip" // the default of exporters
	"google.golang.org/grpc/status"
)

// maxMessage is larger than any request: contrib's receivers send everything they have listed in one.
const maxMessage = 1 << 30

// Handle decides about the logs of one request. Nil accepts them. An error that is not a gRPC status refuses them
// temporarily, so that the sender tries again. ctx ends when the sender or the sink is gone.
// https://opentelemetry.io/docs/specs/otlp/#failures
type Handle func(ctx context.Context, logs plog.Logs) error

// Sink is a running server.
type Sink struct {
	address string
	server  *grpc.Server
	served  chan error
}

// Listen starts a sink at an address, host:port; port 0 selects a free one. The options go to its gRPC server.
func Listen(address string, handle Handle, options ...grpc.ServerOption) (*Sink, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for OTLP: %w", err)
	}
	return Serve(listener, handle, options...), nil
}

// Serve is Listen with the caller's listener, which the sink closes.
func Serve(listener net.Listener, handle Handle, options ...grpc.ServerOption) *Sink {
	s := &Sink{
		address: listener.Addr().String(),
		server:  grpc.NewServer(append([]grpc.ServerOption{grpc.MaxRecvMsgSize(maxMessage), grpc.WaitForHandlers(true)}, options...)...),
		served:  make(chan error, 1),
	}
	plogotlp.RegisterGRPCServer(s.server, &service{handle: handle})
	go func() { s.served <- s.server.Serve(listener) }()
	return s
}

// Address returns host:port.
func (s *Sink) Address() string { return s.address }

// Stop closes every connection at once, and waits for the handlers. It may be called once. If the sink had already
// failed, it returns the reason.
func (s *Sink) Stop() error {
	s.server.Stop()
	if err := <-s.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it had started
		return fmt.Errorf("the OTLP server ended unexpectedly: %w", err)
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
