package watchlist

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/watch"
)

type openerFunc func(context.Context) (io.ReadCloser, error)

func (f openerFunc) Open(ctx context.Context, _ Request) (io.ReadCloser, error) { return f(ctx) }

// readAll reads a stream to its end and returns its lines.
func readAll(t *testing.T, body io.Reader) (lines []string, end error) {
	t.Helper()
	s := openStream(t.Context(), openerFunc(func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(body), nil
	}), Request{})
	defer s.close()
	for {
		if err := s.take(<-s.chunks); err != nil {
			return lines, err
		}
		for line, ok := s.next(); ok; line, ok = s.next() {
			lines = append(lines, string(line))
		}
	}
}

func TestStreamCutsLines(t *testing.T) {
	large := strings.Repeat("x", 3*minReadBytes)
	f := func(body string, want ...string) {
		t.Helper()
		for _, reader := range []io.Reader{strings.NewReader(body), iotest.OneByteReader(strings.NewReader(body)), iotest.DataErrReader(strings.NewReader(body))} {
			lines, err := readAll(t, reader)
			assert.ErrorIs(t, err, io.EOF)
			assert.Equal(t, want, lines)
		}
	}
	f("")
	f("\n\n \n")
	f("a\n", "a")
	f("a\nb\n", "a", "b")
	f("a\nthis was cut", "a")
	f("this was cut")
	f("a\n"+large+"\nb\n", "a", large, "b")
	f(large+"\n"+large+"\n", large, large)
}

func TestReadBuffersFollowTheServer(t *testing.T) {
	assert.Equal(t, minReadBytes, nextReadBytes(minReadBytes, 8<<10), "a live change")
	assert.Equal(t, maxReadBytes, nextReadBytes(minReadBytes, minReadBytes), "there is more")
	assert.Equal(t, maxReadBytes, nextReadBytes(maxReadBytes, maxReadBytes/4))
	assert.Equal(t, minReadBytes, nextReadBytes(maxReadBytes, 8<<10))

	small := bufferFor(nil, minReadBytes, 0)
	assert.Equal(t, minReadBytes, cap(small))
	assert.Equal(t, minReadBytes, cap(keptBuffer(small)))
	large := bufferFor(small, maxReadBytes, 100)
	assert.Equal(t, maxReadBytes, cap(large))
	assert.Nil(t, keptBuffer(large), "an idle stream does not keep a large one")
	grown := bufferFor(nil, minReadBytes, 3*maxReadBytes)
	assert.Equal(t, 6*maxReadBytes, cap(grown))
	assert.Nil(t, keptBuffer(grown))
}

func TestStreamManySmallLines(t *testing.T) {
	var want []string
	for range 50_000 {
		want = append(want, "a line")
	}
	lines, err := readAll(t, strings.NewReader(strings.Join(want, "\n")+"\n"))
	assert.ErrorIs(t, err, io.EOF)
	assert.Equal(t, want, lines)
}

// Streams share large buffers. Once a chunk was taken, another stream may write into its buffer.
func TestStreamsShareBuffers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the stream goes on only when this goroutine waits
	const lines = 100
	line := strings.Repeat("a", 300_000)
	body := strings.NewReader(strings.Repeat(line+"\n", lines))
	s := openStream(t.Context(), openerFunc(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(body), nil }), Request{})
	defer s.close()
	got := 0
	for {
		for range 100 {
			runtime.Gosched() // until the stream waits with its chunk
		}
		if err := s.take(<-s.chunks); err != nil {
			assert.ErrorIs(t, err, io.EOF)
			break
		}
		for l, ok := s.next(); ok; l, ok = s.next() {
			got++
			if string(l) != line {
				t.Fatalf("line %d is damaged", got)
			}
		}
		other := largeBuffers.Get().(*[maxReadBytes]byte)
		copy(other[:], bytes.Repeat([]byte("x"), maxReadBytes))
		largeBuffers.Put(other)
	}
	assert.Equal(t, lines, got)
}

func TestStreamBoundsFrames(t *testing.T) {
	_, err := readAll(t, io.LimitReader(neverEnding('x'), 2*MaxFrameBytes))
	assert.ErrorIs(t, err, ErrFrameTooLarge)
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(b)}, len(p)))
	return len(p), nil
}

func TestStreamPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	lines, err := readAll(t, io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	assert.Equal(t, []string{"a"}, lines, "complete lines before the fault count")
	assert.ErrorIs(t, err, broken)

	s := openStream(t.Context(), openerFunc(func(context.Context) (io.ReadCloser, error) { return nil, broken }), Request{})
	defer s.close()
	assert.ErrorIs(t, s.take(<-s.chunks), broken)
	assert.False(t, s.opened)
}

// A stream without a reader waits, and its goroutine ends with close.
func TestStreamClosedWhileItWaits(t *testing.T) {
	s := openStream(t.Context(), openerFunc(func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(neverEnding('\n')), nil
	}), Request{})
	s.close()
	s.close()
}

func TestParseFrame(t *testing.T) {
	f := func(line string, event watch.EventType, object string) {
		t.Helper()
		got, err := parseFrame([]byte(line))
		assert.NoError(t, err)
		assert.Equal(t, event, got.event)
		assert.Equal(t, object, string(got.object))
	}
	f(`{"type":"ADDED","object":{"a":1}}`, watch.Added, `{"a":1}`)
	f(`{"type":"ADDED","object":{"a":1}}`+"\r", watch.Added, `{"a":1}`)
	f(` {"type": "MODIFIED", "object": {"a":1} } `, watch.Modified, `{"a":1}`)
	f(`{"object":{"a":1},"type":"DELETED"}`, watch.Deleted, `{"a":1}`)
	f(`{"type":"NEW","object":{}}`, "NEW", `{}`)

	bad := func(line string) {
		t.Helper()
		_, err := parseFrame([]byte(line))
		assert.ErrorIs(t, err, errNotAFrame)
		assert.NotContains(t, err.Error(), "secret", "an error never quotes the input")
	}
	bad(`secret`)
	bad(`{}`)
	bad(`{"type":"ADDED"}`)
	bad(`{"type":"ADDED","object":null}`)
	bad(`{"type":"ADDED","object":"secret"}`)
	bad(`{"type":7,"object":{"secret":1}}`)
	bad(`{"type":"`)
	bad(`{"type":"ADDED","object":{"secret"`)
	bad(`[]`)
}
