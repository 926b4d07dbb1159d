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

// Fault is what a Middleman does to watches.
type Fault struct {
	// WithholdMarker: the marker that ends the initial events is never sent, as many aggregated API servers and
	// proxies do that take the parameters of WatchList all the same.
	WithholdMarker bool

	// Lag is how late everything after that marker comes.
	Lag time.Duration

	// Unseen is how the names of objects begin of which watches never tell, once they have sent what exists. Metadata
	// are passed on as they come.
	Unseen string
}

// Middleman is a server in front of the cluster's API server that does something to watches and leaves all else to it.
// It speaks plain HTTP and lets everybody do everything.
type Middleman struct {
	fault    Fault
	server   *httptest.Server
	withheld atomic.Int64

	mu      sync.Mutex
	answers map[string][]string
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

// Withheld is how many markers were withheld.
func (m *Middleman) Withheld() int64 { return m.withheld.Load() }

// MetadataAnswers are the content types of the answers so far to watches of a path that asked for metadata.
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

// frame is an event of a watch response that is to be passed on, and not before it is due.
type frame struct {
	bytes []byte
	due   time.Time
	err   error
}

// frameReader is a watch response under the fault. A goroutine reads ahead, so that frames come late and no slower.
type frameReader struct {
	body   io.ReadCloser
	frames chan frame
	rest   []byte // of the frame under way
	closed chan struct{}
	once   sync.Once
	done   chan struct{}
}

// readAhead is more frames than come in any lag.
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
			if (live || resumed) && !isProtobuf && m.isUnseen(content) {
				continue
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

// endsInitialEvents goes by the type, which comes first in both forms, and the annotation's name.
func endsInitialEvents(event []byte) bool {
	return bytes.Contains(event[:min(len(event), 32)], []byte("BOOKMARK")) && bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey))
}

func (m *Middleman) isUnseen(line []byte) bool {
	return m.fault.Unseen != "" && bytes.Contains(line, []byte(`"name":"`+m.fault.Unseen))
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
				return 0, next.err // what was read before it is no whole frame
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
