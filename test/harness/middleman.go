package harness

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Fault is how a Middleman changes watches.
type Fault struct {
	// WithholdMarker withholds the end marker of the initial events, like many aggregated API servers and proxies that
	// accept the parameters of WatchList.
	WithholdMarker bool

	// Lag delays everything after the end marker.
	Lag time.Duration

	// Unseen is the name prefix of objects whose live events are withheld. Metadata is forwarded unchanged.
	Unseen string

	// Large and Deep are name prefixes of objects that kube-apiserver would never store: more than 32 MiB of JSON, and nested
	// 20,000 levels deep. Metadata is forwarded unchanged.
	Large, Deep string
}

// Middleman is a server in front of the cluster's API server that changes watches and forwards everything else. It uses
// plain HTTP and allows everything to everyone.
type Middleman struct {
	fault    Fault
	server   *httptest.Server
	withheld atomic.Int64

	mu      sync.Mutex
	answers map[string][]string
	alter   func(line []byte) []byte
}

// Alter makes a function change each live event in JSON from now on. It returns one line, several, or none.
func (m *Middleman) Alter(alter func(line []byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alter = alter
}

// altered returns what is forwarded instead of a live event.
func (m *Middleman) altered(line []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alter == nil {
		return line
	}
	return m.alter(line)
}

// StartMiddleman starts such a server. It ends with the test.
func StartMiddleman(t testing.TB, c *Cluster, fault Fault) *Middleman {
	t.Helper()
	upstream, err := url.Parse("https://" + c.Address())
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	m := &Middleman{fault: fault, answers: map[string][]string{}}
	m.server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: client.Transport,
		ModifyResponse: func(response *http.Response) error {
			if response.Request.URL.Query().Get("watch") != "" {
				m.note(response)
				response.Body = m.frames(response)
			}
			return nil
		},
	})
	t.Cleanup(func() {
		m.server.CloseClientConnections()
		m.server.Close()
		client.CloseIdleConnections()
	})
	return m
}

// Address is host:port.
func (m *Middleman) Address() string { return m.server.Listener.Addr().String() }

// Withheld returns how many markers were withheld.
func (m *Middleman) Withheld() int64 { return m.withheld.Load() }

// MetadataAnswers returns the content types of the answers so far to metadata watches of a path.
func (m *Middleman) MetadataAnswers(path string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.answers[path])
}

func (m *Middleman) note(response *http.Response) {
	if !strings.Contains(response.Request.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	path := response.Request.URL.Path
	m.answers[path] = append(m.answers[path], response.Header.Get("Content-Type"))
}

// frame is an event of a watch response, to be forwarded when it is due.
type frame struct {
	bytes []byte
	due   time.Time
	err   error
}

// frameReader is a watch response with the fault. A goroutine reads ahead, so that frames are delayed but not slower.
type frameReader struct {
	body   io.ReadCloser
	frames chan frame
	rest   []byte // of the current frame
	closed chan struct{}
	once   sync.Once
	done   chan struct{}
}

// readAhead is more frames than arrive during any lag.
const readAhead = 1 << 14

func (m *Middleman) frames(response *http.Response) io.ReadCloser {
	r := &frameReader{body: response.Body, frames: make(chan frame, readAhead), closed: make(chan struct{}), done: make(chan struct{})}
	read := readLine
	isProtobuf := strings.HasPrefix(response.Header.Get("Content-Type"), runtime.ContentTypeProtobuf)
	if isProtobuf {
		read = readMessage
	}
	resumed := response.Request.URL.Query().Get("sendInitialEvents") == ""
	go func() {
		defer close(r.done)
		body, live := bufio.NewReader(r.body), false
		for {
			content, err := read(body)
			next := frame{bytes: content, err: err}
			if live {
				next.due = time.Now().Add(m.fault.Lag)
			}
			if endsInitialEvents(content) {
				live = true
				if m.fault.WithholdMarker {
					m.withheld.Add(1)
					continue
				}
			}
			if (live || resumed) && !isProtobuf && err == nil {
				if isNamed(content, m.fault.Unseen) {
					continue
				}
				next.bytes = m.altered(content)
			}
			if !isProtobuf {
				next.bytes = m.exaggerate(next.bytes)
			}
			select {
			case r.frames <- next:
			case <-r.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return r
}

// readLine reads an event in JSON.
func readLine(body *bufio.Reader) ([]byte, error) { return body.ReadBytes('\n') }

// readMessage reads an event in protobuf, with the length before it.
func readMessage(body *bufio.Reader) ([]byte, error) {
	head, err := body.Peek(4)
	if err != nil {
		return nil, err
	}
	content := make([]byte, 4+int(binary.BigEndian.Uint32(head)))
	_, err = io.ReadFull(body, content)
	return content, err
}

// endsInitialEvents checks the type, which comes first in both forms, and the annotation's name.
func endsInitialEvents(event []byte) bool {
	return bytes.Contains(event[:min(len(event), 32)], []byte("BOOKMARK")) && bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey))
}

// isNamed reports whether the name of an event's object has the prefix, which is not "".
func isNamed(line []byte, prefix string) bool {
	return prefix != "" && bytes.Contains(line, []byte(`"name":"`+prefix))
}

// exaggerate makes objects large and deep.
func (m *Middleman) exaggerate(line []byte) []byte {
	switch {
	case isNamed(line, m.fault.Large): // whose name, but not UID, is in what is kept of such an event
		return bytes.Replace(line, []byte(`"uid":`), []byte(`"padding":"`+strings.Repeat("0123456789abcdef", 33<<16)+`","uid":`), 1)
	case isNamed(line, m.fault.Deep):
		const levels = 20_000
		return bytes.Replace(line, []byte(`"metadata":`), []byte(`"deep":`+strings.Repeat("[", levels)+strings.Repeat("]", levels)+`,"metadata":`), 1)
	}
	return line
}

func (r *frameReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		select {
		case next := <-r.frames:
			if wait := time.Until(next.due); wait > 0 {
				select {
				case <-time.After(wait):
				case <-r.closed:
					return 0, io.ErrClosedPipe
				}
			}
			if next.err != nil {
				return 0, next.err // the rest is not a complete frame
			}
			r.rest = next.bytes
		case <-r.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *frameReader) Close() error {
	err := r.body.Close()
	r.once.Do(func() { close(r.closed) })
	<-r.done
	return err
}
