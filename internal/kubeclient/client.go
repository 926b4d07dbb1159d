package kubeclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// defaultHeaderTimeout bounds the wait for an answer to begin: a new connection, credentials, and the API
// server's own queue (up to a minute, its --request-timeout) lie before it.
const defaultHeaderTimeout = 60 * time.Second

// Client sends requests to one API server. It is safe for concurrent use.
type Client struct {
	base          *url.URL // scheme, host and the path before /api and /apis
	connections   *connections
	http          *http.Client
	limiter       flowcontrol.RateLimiter
	headerTimeout time.Duration
	watchGrace    time.Duration
}

var _ watchlist.Opener = (*Client)(nil)

// Option changes a client that is being made.
type Option func(*Client)

// WithHeaderTimeout bounds the wait for an answer to begin, but not the answer itself. Default: 60s.
func WithHeaderTimeout(d time.Duration) Option {
	return func(c *Client) { c.headerTimeout = d }
}

// New returns a client for the API server that cfg tells of. It reads certificate files and does not use
// the network.
func New(cfg *rest.Config, options ...Option) (*Client, error) {
	if cfg.Transport != nil {
		return nil, errors.New("cannot use a REST config that brings its own transport")
	}
	base, err := baseURL(cfg)
	if err != nil {
		return nil, err
	}
	connections, err := newConnections(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare connections to %s: %w", base.Host, err)
	}
	wrapped, err := rest.HTTPWrappersForConfig(withTokenFile(cfg), connections)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare credentials for %s: %w", base.Host, err)
	}
	c := &Client{
		base:        base,
		connections: connections,
		http: &http.Client{
			Transport: wrapped,
			// The API server does not redirect. Whoever does must not be sent the credentials.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		limiter:       flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst),
		headerTimeout: defaultHeaderTimeout,
		watchGrace:    defaultWatchGrace,
	}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

func baseURL(cfg *rest.Config) (*url.URL, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare TLS for %s: %w", cfg.Host, err)
	}
	base, _, err := rest.DefaultServerURL(cfg.Host, "", schema.GroupVersion{}, tlsConfig != nil)
	if err != nil {
		return nil, fmt.Errorf("cannot use API server %q: %w", cfg.Host, err)
	}
	return base, nil
}

// Close ends every connection, the ones with open responses too.
func (c *Client) Close() {
	c.connections.close()
}
