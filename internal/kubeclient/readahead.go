package kubeclient

import (
	"bufio"
	"context"
	"net"
)

// readAheadBytes is how much a connection reads at once, if available. crypto/tls reads one record at a time, and an
// API server sends every watch event in records of its own: without this, each costs a system call or two.
const readAheadBytes = 64 << 10

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// readingAhead wraps dial so that its connections read ahead.
func readingAhead(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &readAheadConn{conn, bufio.NewReaderSize(conn, readAheadBytes)}, nil
	}
}

// readAheadConn is a connection whose reads are buffered. Like any connection it is read by one goroutine at a time.
type readAheadConn struct {
	net.Conn
	buffered *bufio.Reader
}

func (c *readAheadConn) Read(p []byte) (int, error) { return c.buffered.Read(p) }
