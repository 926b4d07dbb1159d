package kubeclient

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// defaultHeaderTimeout bounds the wait for an answer to begin: a new connection, credentials, and the API
// server's own queue (up to a minute, its --request-timeout) lie before it.
const defaultHeaderTimeout = 60 * time.Second

// Client sends requests to one API server. It is safe for concurrent use.
type Client struct {
	tracker       *connrotation.ConnectionTracker // of all connections
	requests      *Pacer
	openings      *Pacer // may be nil
	headerTimeout time.Duration
	watchGrace    time.Duration
	logger        *zap.Logger

	mu      sync.Mutex
	session *session
	source  *kubeconfigSource // nil if the credentials are in no kubeconfig
}

var _ watchlist.Opener = (*Client)(nil)

// Option changes a client that is being made.
type Option func(*Client)

// WithHeaderTimeout bounds the wait for an answer to begin, but not the answer itself. Default: 60s.
func WithHeaderTimeout(d time.Duration) Option {
	return func(c *Client) { c.headerTimeout = d }
}

// WithOpenings paces the opening of streams together with other clients. Default: only the client's own rate limit
// paces it.
func WithOpenings(p *Pacer) Option {
	return func(c *Client) { c.openings = p }
}

// WithLogger logs when other credentials are used than before, and when a changed kubeconfig is of no use.
// Default: nowhere.
func WithLogger(logger *zap.Logger) Option {
	return func(c *Client) { c.logger = logger }
}

// Connect returns a client for the API server and the credentials that o describes. It reads files and the environment
// and does not use the network. A kubeconfig is read again when its content changes.
func Connect(o Options, options ...Option) (*Client, error) {
	if o.AuthType != AuthKubeConfig {
		cfg, err := RESTConfig(o)
		if err != nil {
			return nil, err
		}
		return New(cfg, options...)
	}
	source, cfg, err := newKubeconfigSource(o)
	if err != nil {
		return nil, err
	}
	c, err := New(cfg, options...)
	if err != nil {
		return nil, err
	}
	c.source = source
	return c, nil
}

// New returns a client for the API server and the credentials of cfg. It reads certificate files and does not use
// the network.
func New(cfg *rest.Config, options ...Option) (*Client, error) {
	if cfg.Transport != nil {
		return nil, errors.New("cannot use a REST config that brings its own transport")
	}
	c := &Client{
		tracker:       connrotation.NewConnectionTracker(),
		requests:      NewPacer(float64(cfg.QPS), cfg.Burst),
		headerTimeout: defaultHeaderTimeout,
		watchGrace:    defaultWatchGrace,
		logger:        zap.NewNop(),
	}
	for _, option := range options {
		option(c)
	}
	var err error
	c.session, err = newSession(cfg, c.tracker)
	return c, err
}

// current is the session that the next request belongs to. It looks at the kubeconfig with every request, as
// connections does at certificate files.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		return c.session
	}
	cfg, err := c.source.changed()
	if err == nil && cfg == nil {
		return c.session
	}
	var renewed *session
	if err == nil {
		renewed, err = newSession(cfg, c.tracker)
	}
	if err != nil { // half-written, perhaps
		if c.source.isNews(err) {
			c.logger.Warn("cannot use the changed kubeconfig, keeping what was read from it before", zap.Error(err))
		}
		return c.session
	}
	c.source.accept()
	c.session.connections.closeIdle() // the others close when they have been idle for a while
	if renewed.base.String() != c.session.base.String() {
		c.logger.Info("kubeconfig names another API server, using it from now on", zap.String("api_server", renewed.base.Host))
	} else {
		c.logger.Info("kubeconfig has changed, using its credentials from now on", zap.String("api_server", renewed.base.Host))
	}
	c.session = renewed
	return c.session
}

// Close ends every connection, the ones with open responses too.
func (c *Client) Close() {
	c.tracker.CloseAll()
}
