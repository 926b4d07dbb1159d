package kubeclient

import (
	"bufio"
	"context"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

// These bound the unread bytes of one response, and of all responses on one connection. Go's defaults are 4 MiB and 1
// GiB; with much less than 1 MiB the server would constantly wait for us. An API server allows 100 streams on a
// connection (--http2-max-streams-per-connection), so a stalled one does not block the others.
const (
	receiveBufferPerStream     = 1 << 20
	receiveBufferPerConnection = 64 << 20
)

// connections is the lowest layer of the HTTP client. All requests share a transport, except those that ask for a fresh
// connection.
//
// It replaces client-go's own transport, which can neither limit the buffer of an HTTP/2 stream nor open a fresh
// connection. It also handles renewed certificate files more gently: new requests get new connections, and open
// responses stay.
// https://github.com/kubernetes/client-go/blob/v0.37.2/transport/cache.go
type connections struct {
	cfg     *rest.Config
	tracker *connrotation.ConnectionTracker
	open    *openCounts

	mu     sync.Mutex
	shared *http.Transport
	files  map[string]string // contents of the certificate files that shared was created with
}

func newConnections(cfg *rest.Config, tracker *connrotation.ConnectionTracker, open *openCounts) (*connections, error) {
	c := &connections{cfg: cfg, tracker: tracker, open: open}
	var err error
	c.files = tlsFiles(cfg)
	c.shared, err = c.newTransport()
	return c, err
}

type freshKey struct{}

// withFresh makes the one request that uses the context go over a new connection, which ends with the response.
func (c *connections) withFresh(ctx context.Context) (context.Context, error) {
	t, err := c.newTransport()
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true
	return context.WithValue(ctx, freshKey{}, t), nil
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	if t, ok := req.Context().Value(freshKey{}).(*http.Transport); ok {
		return t.RoundTrip(req)
	}
	return c.sharedTransport().RoundTrip(req)
}

// sharedTransport checks the certificate files on every request. Requests are few, and one that uses a replaced
// certificate may be refused.
func (c *connections) sharedTransport() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := tlsFiles(c.cfg)
	if maps.Equal(files, c.files) {
		return c.shared
	}
	renewed, err := c.newTransport()
	if err != nil { // half-written files; checked again with the next request
		return c.shared
	}
	c.shared.CloseIdleConnections() // busy ones close after they have become idle
	c.shared, c.files = renewed, files
	return c.shared
}

// tlsFiles reads the certificate and key files. Files that cannot be read are left out.
func tlsFiles(cfg *rest.Config) map[string]string {
	files := map[string]string{}
	for _, name := range []string{cfg.CAFile, cfg.CertFile, cfg.KeyFile} {
		if name == "" {
			continue
		}
		if content, err := os.ReadFile(name); err == nil {
			files[name] = string(content)
		}
	}
	return files
}

func (c *connections) newTransport() (*http.Transport, error) {
	tc, err := c.cfg.TransportConfig() // a new one, since it caches the contents of files
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	dial := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	if tc.DialHolder != nil { // exec plugins track connections with it
		dial = tc.DialHolder.Dial
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               tc.Proxy, // nil becomes $HTTPS_PROXY and $NO_PROXY
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     tlsConfig,
		MaxIdleConnsPerHost: 25,
		DialContext:         readingAhead(c.open.counting(connrotation.NewDialerWithTracker(dial, c.tracker).DialContext)),
		DisableCompression:  tc.DisableCompression,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     receiveBufferPerStream,
			MaxReceiveBufferPerConnection: receiveBufferPerConnection,
		},
	}), nil
}

// closeIdle closes the connections without open responses.
func (c *connections) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared.CloseIdleConnections()
}

// readAheadBytes is how much a connection reads at once, if available. crypto/tls reads one record at a time, and an
// API server sends every watch event in records of its own: without this, each costs a system call or two.
const readAheadBytes = 64 << 10

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// openCounts counts what a client has open.
type openCounts struct {
	connections, streams atomic.Int64
}

// counting wraps dial so that its connections are counted until they are closed.
func (o *openCounts) counting(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		o.connections.Add(1)
		return &openConn{Conn: conn, closed: sync.OnceFunc(func() { o.connections.Add(-1) })}, nil
	}
}

// openConn is a connection that is counted until it is closed.
type openConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *openConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// readingAhead wraps dial so that its connections read ahead.
func readingAhead(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &readAheadConn{conn, bufio.NewReaderSize(conn, readAheadBytes)}, nil
	}
}

// readAheadConn is a connection whose reads are buffered. Like any connection it is read by one goroutine at a time.
type readAheadConn struct {
	net.Conn
	buffered *bufio.Reader
}

func (c *readAheadConn) Read(p []byte) (int, error) { return c.buffered.Read(p) }
