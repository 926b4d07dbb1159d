package kubeclient

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countingConn returns what has arrived, and counts its reads.
type countingConn struct {
	net.Conn
	arrived bytes.Buffer
	reads   int
}

func (c *countingConn) Read(p []byte) (int, error) {
	c.reads++
	return c.arrived.Read(p)
}

func TestReadingAheadReadsEverythingAvailable(t *testing.T) {
	const records, size = 30, 2000
	sent := bytes.Repeat([]byte("k"), records*size)
	inner := &countingConn{arrived: *bytes.NewBuffer(sent)}
	conn, err := readingAhead(func(context.Context, string, string) (net.Conn, error) { return inner, nil })(t.Context(), "tcp", "")
	require.NoError(t, err)

	got, record := []byte(nil), make([]byte, size)
	for range records {
		_, err := io.ReadFull(conn, record)
		require.NoError(t, err)
		got = append(got, record...)
	}
	assert.Equal(t, sent, got)
	assert.Equal(t, 1, inner.reads)
}

func TestReadingAheadReturnsDialErrors(t *testing.T) {
	_, err := readingAhead(func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe })(t.Context(), "tcp", "")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
