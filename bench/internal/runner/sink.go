package runner

import (
	"context"
	"fmt"
	"net"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
)

// maxMessage is more than a batch of one large list: the peer sends all that it has listed at once.
const maxMessage = 1 << 30

// sink is an OTLP endpoint that counts the records it is sent and keeps when those of changes came.
type sink struct {
	plogotlp.UnimplementedGRPCServer
	*library.Sink
	progress *contender.Progress
	address  string

	server *grpc.Server
	done   chan struct{}
}

func startSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	progress := contender.NewProgress(1)
	s := &sink{Sink: library.NewSink(progress), progress: progress, address: listener.Addr().String(), done: make(chan struct{})}
	s.server = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	plogotlp.RegisterGRPCServer(s.server, s)
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // its error says that Stop was called
	}()
	return s, nil
}

// Export implements plogotlp.GRPCServer.
func (s *sink) Export(ctx context.Context, req plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	return plogotlp.NewExportResponse(), s.ConsumeLogs(ctx, req.Logs())
}

func (s *sink) stop() {
	s.server.Stop()
	<-s.done
}
