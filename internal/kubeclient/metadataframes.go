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

// metadataFrames makes lines of JSON, as watches have them, of a watch of metadata that came as protobuf. A frame
// that makes no sense becomes a line that is no watch event, so that the reader learns of it. What is cut off at the
// end is worth nothing, as is a line without a newline.
//
// apimachinery's frame reader reads each length and each frame from the body by itself, and believes any length.
type metadataFrames struct {
	body   io.ReadCloser
	buffer []byte // of body, from the first frame that is not whole
	lines  []byte
	unread []byte // of lines
	err    error  // why nothing follows unread
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

// fill reads from the body once and makes lines of the frames that are whole by then. The buffer grows with what has
// come, and not with what a frame's length promises.
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
			m.err = watchlist.ErrFrameTooLarge // or a garbled length: where the next frame begins nobody knows
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
