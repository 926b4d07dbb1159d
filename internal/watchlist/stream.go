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

	// MetadataOnly asks for the objects' metadata (PartialObjectMetadata) instead of the objects, at a fraction of the
	// cost for the server. A server that does not support it sends the objects. The opener may reduce metadata to what
	// identifies the objects.
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
	MetadataOnly bool

	// ResourceVersion is where the watch resumes, or the minimum version of the snapshot. "" leaves it out. With Exact it
	// is the version of the LIST.
	ResourceVersion string
	Exact           bool

	// Limit and Continue page a LIST. Zero and "" leave them out.
	Limit    int
	Continue string

	// Timeout is how long the server should keep a watch open (timeoutSeconds). Zero leaves that to the server.
	Timeout time.Duration

	// FreshConnection sends the request over a new TCP connection, to get away from a bad API server behind a load
	// balancer.
	FreshConnection bool

	// OnSent, if set, is called once, from Open, when the request is about to be sent, after it has waited for the rate
	// limit and its turn. Timers that judge the server start here.
	OnSent func()
}

// Opener opens one response body of the API server. It is safe for concurrent use.
//
// An error for an answer outside 2xx wraps an *apierrors.StatusError (k8s.io/apimachinery/pkg/api/errors) if it came
// from Kubernetes, or if its status only calls for a retry (429, 5xx). Other answers, and bodies that are neither a
// watch nor a list, are a [*ForeignAnswerError]. Every other error comes from the transport or from ctx.
//
// The body is JSON; a watch has one event on each line. Ending ctx ends the body. The caller closes the body.
type Opener interface {
	Open(ctx context.Context, req Request) (io.ReadCloser, error)
}

// MetadataOpener requests only metadata.
type MetadataOpener struct{ Opener }

// Open implements Opener.
func (o MetadataOpener) Open(ctx context.Context, req Request) (io.ReadCloser, error) {
	req.MetadataOnly = true
	return o.Opener.Open(ctx, req)
}

// MaxFrameBytes bounds a frame. etcd limits an object to about 1.5 MiB, but the JSON of an object stored as protobuf
// can be several times larger.
const MaxFrameBytes = 32 << 20

// ErrFrameTooLarge ends a stream with a frame larger than [MaxFrameBytes]. An [Opener]'s bodies may return it too.
var ErrFrameTooLarge = fmt.Errorf("frame is larger than %d bytes", MaxFrameBytes)

// stream is one response being read. Its goroutine only reads: frames wait in two buffers, and when both are full the
// server has to wait. The owner calls close, which waits for the goroutine.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}

	sent   chan struct{} // closed once the server has the request
	chunks chan chunk
	free   chan []byte

	// Used by the owner only.
	listed  bool // a LIST, in the form of a stream
	opened  bool
	current []byte  // frames not yet taken
	buffer  []byte  // the memory that current points into
	frames  int     // taken so far
	bytes   int64   // of frames received so far
	reached version // the version that it has reached: where it began, or the latest that it has delivered
}

// chunk is a message of the reading goroutine: first that the response has begun, then whole frames, and finally why
// there are no more.
type chunk struct {
	opened bool
	frames []byte
	buffer []byte
	head   []byte // the beginning of a frame that was skipped because it is too large
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
		s.free <- nil // allocated at first use
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
			err = ctx.Err() // we ended it, whatever error the transport returns
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
	defer body.Close() //nolint:errcheck // the response is finished, so an error does not matter
	if !s.send(ctx, chunk{opened: true}) {
		return ctx.Err()
	}

	size := minReadBytes
	var tail []byte // the beginning of a frame that is not complete yet
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
		if err == nil {
			// Before the chunk is sent: once it is taken, its buffer may be in the pool, and another stream write into it.
			tail = append(tail[:0], buffer[whole:]...)
		}
		if whole > 0 && !s.send(ctx, chunk{frames: buffer[:whole], buffer: buffer}) {
			return ctx.Err()
		}
		var large *frameTooLargeError
		if req.SendInitialEvents && errors.As(err, &large) {
			// The rest of a snapshot is useful without it.
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
			// What follows the last newline is a frame that was cut: it is useless.
			return err
		}
	}
}

// readFrames reads until the buffer holds at least one newline, and returns how many of its bytes are whole frames.
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

// take accepts a chunk received from chunks, and returns the error that ended the stream, if it did.
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
		s.bytes += int64(len(c.frames))
	}
	return nil
}

// next returns the next line of the last chunk, and returns the buffer after the last line. The line is valid until the
// next call.
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

// laterOf returns the later of rv and the version that the stream has reached: some servers send deletions with an old
// version.
func (s *stream) laterOf(rv version) version {
	if rv.before(s.reached) {
		return s.reached
	}
	return rv
}

// drained reports whether every frame received so far has been taken.
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

// A stream reads at most this much at once. Most streams carry little, and an idle one keeps the smaller buffers.
//
// While a server sends faster than we read, much has arrived by the time of the next read. Reading it in one piece
// saves more than calls: HTTP/2 lets the server send as much as was read, and in small pieces each costs both ends a
// frame, a TLS record and a wake-up.
const (
	minReadBytes = 64 << 10
	maxReadBytes = 512 << 10
)

// nextReadBytes returns the size of the next read, after a read of up to size returned that many bytes.
func nextReadBytes(size, read int) int {
	if size == minReadBytes && read >= size/2 || size == maxReadBytes && read >= size/8 {
		return maxReadBytes
	}
	return minReadBytes
}

// largeBuffers holds buffers of maxReadBytes that no stream is using.
var largeBuffers = sync.Pool{New: func() any { return new([maxReadBytes]byte) }}

// bufferFor returns an empty buffer of that size, reusing the given one if possible. It is larger if a long tail has to
// fit.
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

// keptBuffer returns the buffer if a stream should keep it while idle. A large one goes back to the pool, and nil is
// returned.
func keptBuffer(buffer []byte) []byte {
	if cap(buffer) == minReadBytes {
		return buffer
	}
	if cap(buffer) == maxReadBytes {
		largeBuffers.Put((*[maxReadBytes]byte)(buffer[:maxReadBytes]))
	}
	return nil
}
