package watchlist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Request asks the API server for one response: a watch, or one page of a LIST.
type Request struct {
	Scope scope.Scope
	API   scope.API

	// List asks for a page of a LIST instead of a watch.
	List bool

	// SendInitialEvents makes the watch begin with the objects that exist (WatchList):
	// sendInitialEvents=true&resourceVersionMatch=NotOlderThan.
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
	SendInitialEvents bool

	// MetadataOnly asks for the metadata of the objects instead of the objects (PartialObjectMetadata), which
	// costs the server a fraction. A server that does not know how sends the objects. Of metadata, no more need
	// come than identifies the objects.
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
	MetadataOnly bool

	// ResourceVersion is where the watch resumes, or how old the snapshot may be. "" leaves it out.
	ResourceVersion string

	// Limit and Continue page a LIST. Zero and "" leave them out.
	Limit    int
	Continue string

	// Timeout is how long the server should keep a watch open (timeoutSeconds). Zero leaves it to the
	// server.
	Timeout time.Duration

	// FreshConnection opens the response on a new TCP connection, so that a bad API server behind a load
	// balancer can be left.
	FreshConnection bool

	// OnSent, if set, is called once, from Open, when the request is about to be sent: after it has waited for the
	// rate limit and its turn. Clocks that judge the server start here.
	OnSent func()
}

// Opener opens one response body of the API server. It is safe for concurrent use.
//
// An error for an answer outside 2xx wraps an *apierrors.StatusError (k8s.io/apimachinery/pkg/api/errors) if Kubernetes
// gave it, or if its status only asks for another attempt (429, 5xx). Other answers, and bodies that are neither a
// watch nor a list, are a [*ForeignAnswerError]. Every other error is one of the transport, or ctx's.
//
// The body is JSON, of a watch one event on each line. Ending ctx ends the body. The caller closes the body.
type Opener interface {
	Open(ctx context.Context, req Request) (io.ReadCloser, error)
}

// MaxFrameBytes bounds a frame. etcd limits an object to about 1.5 MiB, and the JSON of what is stored as protobuf
// can be several times that.
const MaxFrameBytes = 32 << 20

// ErrFrameTooLarge ends a stream of which a frame is larger than that. An [Opener]'s bodies may return it too.
var ErrFrameTooLarge = fmt.Errorf("frame is larger than %d bytes", MaxFrameBytes)

// stream is one response being read. Its goroutine does nothing but read: frames wait in two buffers, and
// when both are full the server has to wait. The owner calls close, which waits for the goroutine.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}

	sent   chan struct{} // closed when the server has the request
	chunks chan chunk
	free   chan []byte

	// Of the owner's side.
	listed  bool // a LIST, in the form of a stream
	opened  bool
	current []byte  // frames not yet taken
	buffer  []byte  // whose memory current is in
	frames  int     // taken so far
	reached version // how far it has come: where it began, or the latest version that it has delivered
}

// chunk is what the reading goroutine hands over: first that the response has begun, then whole frames,
// and at last why there are no more.
type chunk struct {
	opened bool
	frames []byte
	buffer []byte
	head   []byte // the beginning of a frame that was passed over, since it is too large
	err    error
}

func openStream(ctx context.Context, opener Opener, req Request) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{
		cancel: cancel,
		done:   make(chan struct{}),
		sent:   make(chan struct{}),
		chunks: make(chan chunk),
		free:   make(chan []byte, 2),
	}
	if !req.List && !req.SendInitialEvents {
		s.reached = parseVersion(req.ResourceVersion)
	}
	for range cap(s.free) {
		s.free <- nil // made at first use
	}
	onSent := req.OnSent
	req.OnSent = sync.OnceFunc(func() {
		if onSent != nil {
			onSent()
		}
		close(s.sent)
	})
	go func() {
		defer close(s.done)
		err := s.read(ctx, opener, req)
		if ctx.Err() != nil {
			err = ctx.Err() // whatever the transport makes of our own end, it is not the server's
		}
		s.send(ctx, chunk{err: err})
	}()
	return s
}

// close ends the stream and waits until its goroutine has returned. It may be called twice.
func (s *stream) close() {
	s.cancel()
	<-s.done
}

func (s *stream) send(ctx context.Context, c chunk) bool {
	select {
	case s.chunks <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *stream) read(ctx context.Context, opener Opener, req Request) error {
	body, err := opener.Open(ctx, req)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // nothing can be done about a response that is done with
	if !s.send(ctx, chunk{opened: true}) {
		return ctx.Err()
	}

	size := minReadBytes
	var tail []byte // of a frame whose end has not come yet
	for {
		var buffer []byte
		select {
		case buffer = <-s.free:
		case <-ctx.Done():
			return ctx.Err()
		}
		buffer = append(bufferFor(buffer, size, len(tail)), tail...)
		whole, err := readFrames(body, &buffer)
		size = nextReadBytes(size, len(buffer)-len(tail))
		if whole > 0 && !s.send(ctx, chunk{frames: buffer[:whole], buffer: buffer}) {
			return ctx.Err()
		}
		var large *frameTooLargeError
		if req.SendInitialEvents && errors.As(err, &large) {
			// The rest of a snapshot is worth having without it.
			var rest []byte
			rest, err = skipLine(body, buffer)
			tail = append(tail[:0], rest...)
			if s.free <- nil; !s.send(ctx, chunk{head: large.head}) {
				return ctx.Err()
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			// What follows the last newline is a frame that was cut: it is worth nothing.
			return err
		}
		tail = append(tail[:0], buffer[whole:]...)
	}
}

// readFrames reads until the buffer holds at least one newline, and returns how many bytes of it are whole
// frames.
func readFrames(body io.Reader, buffer *[]byte) (whole int, err error) {
	for {
		b := *buffer
		if len(b) == cap(b) {
			if len(b) >= MaxFrameBytes {
				return 0, &frameTooLargeError{head: bytes.Clone(b[:headBytes])}
			}
			grown := make([]byte, len(b), 2*cap(b))
			copy(grown, b)
			b = grown
		}
		n, err := body.Read(b[len(b):cap(b)])
		fresh := b[len(b) : len(b)+n]
		if at := bytes.LastIndexByte(fresh, '\n'); at >= 0 {
			whole = len(b) + at + 1
		}
		*buffer = b[:len(b)+n]
		if whole > 0 || err != nil {
			return whole, err
		}
	}
}

// take accepts a chunk that was received from chunks, and returns the stream's end if it is that.
func (s *stream) take(c chunk) error {
	switch {
	case c.err != nil:
		return c.err
	case c.opened:
		s.opened = true
	case c.head != nil:
		s.frames++
	default:
		s.current, s.buffer = c.frames, c.buffer
	}
	return nil
}

// next returns the next frame's line of the chunk taken last, and gives the buffer back after the last one.
// The line is valid until the next call.
func (s *stream) next() (line []byte, ok bool) {
	for len(s.current) > 0 {
		line, s.current, _ = bytes.Cut(s.current, []byte{'\n'})
		if len(bytes.TrimSpace(line)) > 0 {
			s.frames++
			return line, true
		}
	}
	if s.buffer != nil {
		s.free <- keptBuffer(s.buffer)
		s.buffer = nil
	}
	return nil, false
}

// reach notes a version that the stream has delivered.
func (s *stream) reach(rv version) {
	if !rv.none() && !rv.before(s.reached) {
		s.reached = rv
	}
}

// laterOf returns the later of a version and how far the stream has come: some servers send deletions with an old version.
func (s *stream) laterOf(rv version) version {
	if rv.before(s.reached) {
		return s.reached
	}
	return rv
}

// drained says that every frame received so far has been taken.
func (s *stream) drained() bool { return len(s.current) == 0 }

// peek returns the line that next would return, or nothing if only blank lines are left.
func (s *stream) peek() []byte {
	for rest := s.current; len(rest) > 0; {
		var line []byte
		if line, rest, _ = bytes.Cut(rest, []byte{'\n'}); len(bytes.TrimSpace(line)) > 0 {
			return line
		}
	}
	return nil
}

// A stream reads at most this much at once. Most have little, and an idle one keeps the smaller buffers.
//
// While a server sends faster than we take, much has come by the time we read again. To take it in one piece matters
// beyond the saved calls: what is read is what HTTP/2 lets the server send next, and in small pieces that costs both
// ends a frame, a TLS record and a wake-up each.
const (
	minReadBytes = 64 << 10
	maxReadBytes = 512 << 10
)

// nextReadBytes is how much to read at once, after a read of at most size that had so many bytes.
func nextReadBytes(size, read int) int {
	if size == minReadBytes && read >= size/2 || size == maxReadBytes && read >= size/8 {
		return maxReadBytes
	}
	return minReadBytes
}

// largeBuffers are those of maxReadBytes that no stream needs just now.
var largeBuffers = sync.Pool{New: func() any { return new([maxReadBytes]byte) }}

// bufferFor returns an empty buffer of that size, which is this one if it has it. Where a long tail is to be put into
// it, it is larger.
func bufferFor(buffer []byte, size, tail int) []byte {
	switch {
	case tail > size/2:
		return make([]byte, 0, 2*tail)
	case cap(buffer) == size:
		return buffer[:0]
	case size == maxReadBytes:
		return largeBuffers.Get().(*[maxReadBytes]byte)[:0]
	}
	return make([]byte, 0, size)
}

// keptBuffer returns what a stream keeps of a buffer that it has done with.
func keptBuffer(buffer []byte) []byte {
	if cap(buffer) == minReadBytes {
		return buffer
	}
	if cap(buffer) == maxReadBytes {
		largeBuffers.Put((*[maxReadBytes]byte)(buffer[:maxReadBytes]))
	}
	return nil
}
