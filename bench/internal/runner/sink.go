package runner

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
)

// sink is an OTLP server that counts records and keeps the arrival times of changes.
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

func (s *sink) stop() { _ = s.server.Stop() } // if it had failed, records would be missing
