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

// defaultHeaderTimeout bounds the time until an answer begins. It includes a new connection, credentials, and the API
// server's own queue (up to a minute, its --request-timeout).
const defaultHeaderTimeout = 60 * time.Second

// Client sends requests to one API server. It is safe for concurrent use.
type Client struct {
	tracker       *connrotation.ConnectionTracker // of all connections
	requests      *Pacer
	openings      *Pacer // may be nil
	noShards      bool   // see Options.NoShardSelector
	headerTimeout time.Duration
	watchGrace    time.Duration
	logger        *zap.Logger
	observer      Observer // may be nil
	documents     documents
	open          openCounts

	mu      sync.Mutex
	session *session
	source  *kubeconfigSource // nil if the credentials are in no kubeconfig
}

var _ watchlist.Opener = (*Client)(nil)

// Option configures a [Client].
type Option func(*Client)

// WithHeaderTimeout bounds the time until an answer begins, but not the answer itself. Default: 60s.
func WithHeaderTimeout(d time.Duration) Option {
	return func(c *Client) { c.headerTimeout = d }
}

// WithOpenings makes the client share a pacer for opening streams with other clients. Default: only its own rate limit
// applies.
func WithOpenings(p *Pacer) Option {
	return func(c *Client) { c.openings = p }
}

// WithLogger sets the logger for changed credentials and for a changed kubeconfig that cannot be used. Default: none.
func WithLogger(logger *zap.Logger) Option {
	return func(c *Client) { c.logger = logger }
}

// WithObserver sets the observer of failed requests and of waiting. Default: none.
func WithObserver(o Observer) Option {
	return func(c *Client) { c.observer = o }
}

// withoutShards leaves shards out of requests.
func withoutShards(c *Client) { c.noShards = true }

// Connect returns a client for the API server and the credentials that o describes. It reads files and the environment
// and does not use the network. A kubeconfig is read again when its content changes.
func Connect(o Options, options ...Option) (*Client, error) {
	if o.NoShardSelector {
		options = append(options, withoutShards)
	}
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
	c.session, err = newSession(cfg, c.tracker, &c.open)
	return c, err
}

// current returns the session for the next request. It checks the kubeconfig on every request, as connections does with
// certificate files.
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
		renewed, err = newSession(cfg, c.tracker, &c.open)
	}
	if err != nil { // perhaps half-written
		if c.source.isNews(err) {
			c.logger.Warn("cannot use the changed kubeconfig, keeping the previous one", zap.Error(err))
		}
		return c.session
	}
	c.source.accept()
	c.session.connections.closeIdle() // busy ones close after they have become idle
	if renewed.base.String() != c.session.base.String() {
		c.logger.Info("kubeconfig names another API server, using it from now on", zap.String("api_server", renewed.base.Host))
	} else {
		c.logger.Info("kubeconfig has changed, using its credentials from now on", zap.String("api_server", renewed.base.Host))
	}
	c.session = renewed
	return c.session
}

// Connections returns how many connections are open.
func (c *Client) Connections() int64 { return c.open.connections.Load() }

// Streams returns how many watches are open, from the beginning of the answer on.
func (c *Client) Streams() int64 { return c.open.streams.Load() }

// Close ends every connection, including those with open responses.
func (c *Client) Close() {
	c.tracker.CloseAll()
}
