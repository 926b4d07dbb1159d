package harness

import (
	"context"
	"net"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Sink is an OTLP server on loopback that keeps what it accepts, and can be told to refuse, to block or to be slow.
type Sink struct {
	plogotlp.UnimplementedGRPCServer
	*Consumer
	address string
}

// sinkMessageBytes is more than any batch of records.
const sinkMessageBytes = 64 << 20

// StartSink starts a sink that ends with the test.
func StartSink(t testing.TB) *Sink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sink{Consumer: &Consumer{}, address: listener.Addr().String()}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(sinkMessageBytes), grpc.WaitForHandlers(true))
	plogotlp.RegisterGRPCServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("the sink ended by itself: %v", err)
		}
	})
	return s
}

// Address is host:port.
func (s *Sink) Address() string { return s.address }

// Export implements plogotlp.GRPCServer.
func (s *Sink) Export(ctx context.Context, request plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	if err := s.ConsumeLogs(ctx, request.Logs()); err != nil {
		return plogotlp.NewExportResponse(), status.Error(codes.Unavailable, err.Error())
	}
	return plogotlp.NewExportResponse(), nil
}
