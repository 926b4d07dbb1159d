package kubeclient

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	frameLengthBytes   = 4 // big-endian
	metadataFrameBytes = 64 << 10
)

// metadataFrames converts a protobuf metadata watch to the lines of JSON of an ordinary watch. A malformed frame
// becomes a line that is not a watch event, so that the reader notices it. A frame cut off at the end is dropped, like
// a line without a newline.
//
// apimachinery's frame reader is not used: it reads each length and each frame from the body separately, and accepts
// any length.
type metadataFrames struct {
	body   io.ReadCloser
	buffer []byte // bytes of body from the first incomplete frame on
	lines  []byte
	unread []byte // rest of lines
	err    error  // returned after unread
}

func newMetadataFrames(body io.ReadCloser) io.ReadCloser { return &metadataFrames{body: body} }

func (m *metadataFrames) Close() error { return m.body.Close() }

func (m *metadataFrames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(m.unread) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fill()
	}
	n := copy(p, m.unread)
	m.unread = m.unread[n:]
	return n, nil
}

// fill reads from the body once and converts the frames that are complete by then. The buffer grows with the bytes
// received, not with the length that a frame claims.
func (m *metadataFrames) fill() {
	if len(m.buffer) == cap(m.buffer) {
		m.buffer = slices.Grow(m.buffer, max(len(m.buffer), metadataFrameBytes))
	}
	n, err := m.body.Read(m.buffer[len(m.buffer):cap(m.buffer)])
	m.buffer = m.buffer[:len(m.buffer)+n]
	m.err = err

	m.lines = m.lines[:0]
	rest := m.buffer
	for len(rest) >= frameLengthBytes {
		length := binary.BigEndian.Uint32(rest)
		if length > watchlist.MaxFrameBytes {
			m.err = watchlist.ErrFrameTooLarge // or its length is garbled: the start of the next frame is unknown
			break
		}
		end := frameLengthBytes + int(length)
		if len(rest) < end {
			break
		}
		m.lines = appendMetadataLine(m.lines, rest[frameLengthBytes:end])
		rest = rest[end:]
	}
	m.unread = m.lines
	if len(rest) < len(m.buffer) {
		m.buffer = m.buffer[:copy(m.buffer, rest)]
	}
}
