package harness

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Front is an HTTP proxy in front of the cluster's API server, like an ingress or a load balancer: with TLS and HTTP/2,
// and forwarding credentials. It can be made to misbehave.
type Front struct {
	server *httptest.Server

	mu      sync.Mutex
	page    *Page
	cut     chan struct{}            // closed when all streams have to end
	late    map[string]time.Duration // by path, for the next watch
	idle    time.Duration
	spoil   func(*Stream) Spoiling
	rewrite func(url.Values)
	counted map[string]int
}

// Page is the answer of a proxy that cannot reach the API server.
type Page struct {
	Status      int
	ContentType string
	Body        string
}

// NotFoundPage is the answer of an ingress's default backend.
var NotFoundPage = Page{Status: http.StatusNotFound, ContentType: "text/html", Body: "<html><body><h1>404 Not Found</h1></body></html>"}

// StartFront starts such a proxy. It ends with the test.
func StartFront(t testing.TB, c *Cluster) *Front {
	t.Helper()
	upstream, err := url.Parse("https://" + c.Address())
	if err != nil {
		t.Fatal(err)
	}
	// Clients are identified by their bearer token, which is forwarded.
	transport, err := rest.TransportFor(&rest.Config{Host: upstream.String(), TLSClientConfig: rest.TLSClientConfig{CAData: c.RESTConfig().CAData}})
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{cut: make(chan struct{}), late: map[string]time.Duration{}, counted: map[string]int{}}
	silent := log.New(io.Discard, "", 0) // it would only log the faults that it is made to cause
	proxy := &httputil.ReverseProxy{
		ErrorLog: silent,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			f.rewriteQuery(r.Out.URL)
		},
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: f.passOn,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "no server is available to handle this request", http.StatusBadGateway)
		},
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		page := f.page
		if page != nil {
			f.counted["pages"]++
		}
		f.mu.Unlock()
		if page == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", page.ContentType)
		w.WriteHeader(page.Status)
		_, _ = io.WriteString(w, page.Body) // whether or not the client is still there
	}))
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = silent
	f.server.StartTLS()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		if closer, ok := transport.(interface{ CloseIdleConnections() }); ok {
			closer.CloseIdleConnections()
		}
	})
	return f
}

// Address returns host:port.
func (f *Front) Address() string { return f.server.Listener.Addr().String() }

// CAs returns the certificates for a client that sometimes connects through the front and sometimes directly.
func (f *Front) CAs(c *Cluster) []byte {
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	return append(own, c.RESTConfig().CAData...)
}

// Count returns how often a fault was applied to an answer: pages, late, idle, lagging, cut.
func (f *Front) Count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counted[what]
}

// Serve answers every request with a page from now on, and ends open streams. Nil ends that.
func (f *Front) Serve(page *Page) {
	f.mu.Lock()
	f.page = page
	f.mu.Unlock()
	if page != nil {
		f.CutStreams()
	}
}

// CutStreams ends all open streams.
func (f *Front) CutStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cut)
	f.cut = make(chan struct{})
}

// DelayFirst delays the headers of the answer to the next watch of each path.
func (f *Front) DelayFirst(delays map[string]time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = delays
}

// CutIdle normally ends every stream that is idle for that long. 0 means never.
func (f *Front) CutIdle(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = after
}

// Stream is a watch that is about to be forwarded.
type Stream struct {
	Path    string
	Initial bool // it begins with the existing objects
}

// Spoiling is the faults of a stream.
type Spoiling struct {
	Lag      time.Duration // everything is that late
	CutAfter int64         // the stream ends after that many bytes; 0: it does not
	Abort    bool          // it ends like a lost connection, not normally
}

// Spoil makes a function choose the faults of each stream from now on. Nil means none.
func (f *Front) Spoil(choose func(*Stream) Spoiling) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = choose
}

// Rewrite makes a function change the query of each request from now on, as for an API server that ignores a parameter. It is
// called by several goroutines. Nil means none.
func (f *Front) Rewrite(rewrite func(url.Values)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rewrite = rewrite
}

func (f *Front) rewriteQuery(u *url.URL) {
	f.mu.Lock()
	rewrite := f.rewrite
	f.mu.Unlock()
	if rewrite == nil {
		return
	}
	query := u.Query()
	rewrite(query)
	u.RawQuery = query.Encode()
}

// passOn is called with each answer of the API server.
func (f *Front) passOn(response *http.Response) error {
	query := response.Request.URL.Query()
	if query.Get("watch") == "" || response.StatusCode != http.StatusOK {
		return nil
	}
	stream := &Stream{Path: response.Request.URL.Path, Initial: query.Get("sendInitialEvents") == "true"}
	f.mu.Lock()
	delay := f.late[stream.Path]
	delete(f.late, stream.Path)
	cut, idle, spoil := f.cut, f.idle, f.spoil
	f.mu.Unlock()
	if delay > 0 {
		f.count("late")
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-cut:
			return errors.New("cut off")
		case <-response.Request.Context().Done():
			return response.Request.Context().Err()
		}
	}
	var how Spoiling
	if spoil != nil {
		how = spoil(stream)
	}
	if how.Lag > 0 {
		f.count("lagging")
	}
	response.Body = newSpoiledBody(f, response.Body, how, idle, cut)
	return nil
}

func (f *Front) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted[what]++
}

// errAborted makes the proxy end an answer like a lost connection.
var errAborted = errors.New("the connection is lost")

// chunk is a part of a stream, to be forwarded when it is due.
type chunk struct {
	bytes []byte
	due   time.Time
	err   error
}

// spoiledBody is a stream with the front's faults. A goroutine reads ahead, so that delayed data is not slower.
type spoiledBody struct {
	front *Front
	body  io.ReadCloser
	how   Spoiling
	idle  time.Duration
	cut   <-chan struct{}

	chunks chan chunk
	rest   []byte
	passed int64
	closed chan struct{}
	once   sync.Once
	done   chan struct{}
}

func newSpoiledBody(f *Front, body io.ReadCloser, how Spoiling, idle time.Duration, cut <-chan struct{}) *spoiledBody {
	s := &spoiledBody{
		front: f, body: body, how: how, idle: idle, cut: cut,
		chunks: make(chan chunk, 1), closed: make(chan struct{}), done: make(chan struct{}),
	}
	if how.Lag > 0 {
		s.chunks = make(chan chunk, readAhead)
	}
	go s.readAhead()
	return s
}

func (s *spoiledBody) readAhead() {
	defer close(s.done)
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.body.Read(buffer)
		next := chunk{bytes: append([]byte(nil), buffer[:n]...), due: time.Now().Add(s.how.Lag), err: err}
		select {
		case s.chunks <- next:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *spoiledBody) Read(p []byte) (int, error) {
	if s.how.CutAfter > 0 && s.passed >= s.how.CutAfter {
		s.front.count("cut")
		return 0, s.end()
	}
	if len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	if s.how.CutAfter > 0 {
		n = min(n, int(s.how.CutAfter-s.passed))
	}
	s.rest, s.passed = s.rest[n:], s.passed+int64(n)
	return n, nil
}

// next waits for the next bytes.
func (s *spoiledBody) next() error {
	var idle <-chan time.Time
	if s.idle > 0 {
		timer := time.NewTimer(s.idle)
		defer timer.Stop()
		idle = timer.C
	}
	for len(s.rest) == 0 {
		select {
		case next := <-s.chunks:
			timer := time.NewTimer(time.Until(next.due))
			select {
			case <-timer.C:
			case <-s.cut:
			case <-s.closed:
			}
			timer.Stop()
			if s.rest = next.bytes; len(s.rest) > 0 && next.err != nil {
				s.chunks <- chunk{err: next.err} // there is room: nothing follows an error
				return nil
			}
			if next.err != nil {
				return next.err
			}
		case <-idle:
			s.front.count("idle")
			return io.EOF
		case <-s.cut:
			return errAborted
		case <-s.closed:
			return io.ErrClosedPipe
		}
	}
	return nil
}

func (s *spoiledBody) end() error {
	if s.how.Abort {
		return errAborted
	}
	return io.EOF
}

func (s *spoiledBody) Close() error {
	err := s.body.Close()
	s.once.Do(func() { close(s.closed) })
	<-s.done
	return err
}

// PathOf returns the path of the watches of a resource, in all namespaces or in one.
func PathOf(group, version, resource, namespace string) string {
	parts := []string{"", "apis", group, version}
	if group == "" {
		parts = []string{"", "api", version}
	}
	if namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	return strings.Join(append(parts, resource), "/")
}
