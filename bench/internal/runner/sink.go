package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
)

// sink is an OTLP server that counts records, requests and the bytes that arrive, and keeps the arrival times of changes.
type sink struct {
	*library.Sink
	server   *otlp.Sink
	progress *contender.Progress
	address  string

	bytes, requests atomic.Int64
	last            atomic.Int64  // when the last request came, by clock.Now
	held            chan struct{} // no request is answered before it is closed; nil: all are at once
}

func startSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for OTLP: %w", err)
	}
	progress := contender.NewProgress(1)
	s := &sink{Sink: library.NewSink(progress), progress: progress, address: listener.Addr().String()}
	s.server = otlp.Serve(countedListener{listener, &s.bytes}, s.receive)
	return s, nil
}

func (s *sink) stop() { _ = s.server.Stop() } // if it had failed, records would be missing

func (s *sink) receive(ctx context.Context, logs plog.Logs) error {
	if s.held != nil {
		select {
		case <-s.held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.requests.Add(1)
	s.last.Store(int64(clock.Now()))
	return s.ConsumeLogs(ctx, logs)
}

// await waits until a counter of the sink's progress is at least n.
func (s *sink) await(ctx context.Context, counter *atomic.Int64, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stallTimeout, errors.New("it has stalled"))
	defer cancel()
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for counter.Load() < int64(n) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the sink has %d of %d records: %w", counter.Load(), n, context.Cause(ctx))
		}
	}
	return nil
}

// countedListener counts the bytes that are read from its connections.
type countedListener struct {
	net.Listener
	bytes *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{c, l.bytes}, nil
}

type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}
