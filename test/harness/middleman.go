package harness

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Fault is what a Middleman does to watches.
type Fault struct {
	// WithholdMarker: the marker that ends the initial events is never sent, as many aggregated API servers and
	// proxies do that take the parameters of WatchList all the same.
	WithholdMarker bool

	// Lag is how late everything after that marker comes.
	Lag time.Duration
}

// Middleman is a server in front of the cluster's API server that does something to watches and leaves all else to it.
// It speaks plain HTTP and lets everybody do everything.
type Middleman struct {
	fault    Fault
	server   *httptest.Server
	withheld atomic.Int64
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
	m := &Middleman{fault: fault}
	m.server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: client.Transport,
		ModifyResponse: func(response *http.Response) error {
			if response.Request.URL.Query().Get("watch") != "" {
				response.Body = m.frames(response.Body)
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

// frame is a line of a watch response that is to be passed on, and not before it is due.
type frame struct {
	line []byte
	due  time.Time
	err  error
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

func (m *Middleman) frames(body io.ReadCloser) io.ReadCloser {
	r := &frameReader{body: body, frames: make(chan frame, readAhead), closed: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		lines, live := bufio.NewReader(body), false
		for {
			line, err := lines.ReadBytes('\n')
			next := frame{line: line, err: err}
			if live {
				next.due = time.Now().Add(m.fault.Lag)
			}
			if endsInitialEvents(line) {
				live = true
				if m.fault.WithholdMarker {
					m.withheld.Add(1)
					continue
				}
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

func endsInitialEvents(frame []byte) bool {
	return bytes.HasPrefix(frame, []byte(`{"type":"BOOKMARK"`)) && bytes.Contains(frame, []byte(`"k8s.io/initial-events-end":"true"`))
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
			r.rest = next.line
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
