package runner

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
)

// sink is an OTLP server that counts the records it is sent and keeps when those of changes came.
type sink struct {
	*library.Sink
	server   *otlp.Sink
	progress *contender.Progress
	address  string
}

func startSink() (*sink, error) {
	progress := contender.NewProgress(1)
	s := &sink{Sink: library.NewSink(progress), progress: progress}
	var err error
	if s.server, err = otlp.Listen("127.0.0.1:0", s.ConsumeLogs); err != nil {
		return nil, err
	}
	s.address = s.server.Address()
	return s, nil
}

func (s *sink) stop() { _ = s.server.Stop() } // had it ended by itself, records would be missing
