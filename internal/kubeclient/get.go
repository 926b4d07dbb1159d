package kubeclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	// smallTimeout bounds requests whose answer is read completely.
	smallTimeout = 60 * time.Second

	// maxSmallBody bounds such an answer. The discovery document of a cluster with thousands of custom
	// resources is a few MiB.
	maxSmallBody = 64 << 20
)

// get is a GET request, or one of another method with content.
type get struct {
	method  string   // "" is GET
	content []byte   // JSON
	path    []string // under the server's base path
	query   url.Values
	accept  string
	etag    string        // of a document that is already known; the answer is then errNotModified if it is still current
	fresh   bool          // over a new connection
	limit   time.Duration // on the whole response, from its headers on; 0 is none
	list    bool          // a page of a LIST
	stream  bool          // a watch
	resume  bool          // has priority over other requests
	onSent  func()        // may be nil
}

// timeoutError is a net.Error.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// get waits for its turn, sends the request and returns the body of a 2xx answer. The error for any other answer is an
// *apierrors.StatusError or a *watchlist.ForeignAnswerError.
//
// A request that was refused with 401 is repeated once if there are other credentials to try.
func (c *Client) get(ctx context.Context, g get) (*body, error) {
	s := c.current()
	body, code, err := c.attempt(ctx, s, g)
	if code != http.StatusUnauthorized {
		return body, err
	}
	if renewed := c.current(); renewed != s || s.refreshes() {
		g.onSent = nil
		body, _, err = c.attempt(ctx, renewed, g)
	}
	return body, err
}

// attempt sends the request once. It also returns the status of an answer outside 2xx.
func (c *Client) attempt(ctx context.Context, s *session, g get) (*body, int, error) {
	began := time.Now()
	if g.stream && c.openings != nil {
		if err := c.openings.Wait(ctx, g.resume); err != nil {
			return nil, 0, err
		}
	}
	if err := c.requests.Wait(ctx, g.resume); err != nil {
		return nil, 0, err
	}
	c.waited(time.Since(began))
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	body, code, err := c.send(ctx, cancel, s, g)
	if err != nil {
		cancel(nil)
		if parent.Err() == nil {
			c.failed(g, err)
		}
		return nil, code, err
	}
	return body, 0, nil
}

func (c *Client) send(ctx context.Context, cancel context.CancelCauseFunc, s *session, g get) (*body, int, error) {
	var err error
	if g.fresh {
		if ctx, err = s.connections.withFresh(ctx); err != nil {
			return nil, 0, err
		}
	}
	host := s.base.Host
	target := s.base.JoinPath(g.path...)
	target.RawQuery = g.query.Encode()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(traced, g.method, target.String(), bytes.NewReader(g.content))
	if err != nil {
		return nil, 0, err
	}
	if g.content != nil {
		req.Header.Set("Content-Type", acceptJSON)
	}
	req.Header.Set("Accept", g.accept)
	if g.etag != "" {
		req.Header.Set("If-None-Match", g.etag)
	}
	if g.onSent != nil {
		g.onSent()
	}

	headers := time.AfterFunc(c.headerTimeout, func() {
		cancel(timeoutError(fmt.Sprintf("no answer from %s within %s", host, c.headerTimeout)))
	})
	defer headers.Stop() // it also bounds reading an error's body
	res, err := s.http.Do(req)
	if err == nil && ctx.Err() != nil { // a server that notices the cancellation may still answer
		res.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		err = cause(ctx, err)
		if timeout := net.Error(nil); !connected.Load() && errors.As(err, &timeout) && timeout.Timeout() {
			err = fmt.Errorf("%w: %w", watchlist.ErrNoConnection, err)
		}
		if refusedByTLS(err) {
			err = s.refused(err, time.Now())
		}
		return nil, 0, err
	}
	if res.StatusCode == http.StatusNotModified && g.etag != "" {
		res.Body.Close()
		return nil, 0, errNotModified
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		err := answerError(res, host, time.Now())
		if res.StatusCode == http.StatusUnauthorized {
			err = s.refused(err, time.Now())
		}
		return nil, res.StatusCode, err
	}
	b := &body{ReadCloser: res.Body, mediaType: mediaType(res.Header), etag: res.Header.Get("ETag"), host: host, status: res.StatusCode, ctx: ctx, cancel: cancel}
	if isPage(b.mediaType) {
		res.Body.Close()
		return nil, 0, b.foreign("a web page")
	}
	if g.stream {
		c.open.streams.Add(1)
		b.closed = sync.OnceFunc(func() { c.open.streams.Add(-1) })
	}
	if g.limit > 0 {
		b.limit = time.AfterFunc(g.limit, func() {
			cancel(timeoutError(fmt.Sprintf("%s did not end the response within %s", host, g.limit)))
		})
	}
	return b, 0, nil
}

// body is a response body that ends its request when it is closed.
type body struct {
	io.ReadCloser
	mediaType string // without parameters
	etag      string // "" if it has none
	host      string
	status    int
	ctx       context.Context
	cancel    context.CancelCauseFunc
	limit     *time.Timer
	closed    func() // nil unless it is a watch
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case b.ctx.Err() != nil: // even if err is io.EOF: a server that notices the cancellation may end the response normally
		err = context.Cause(b.ctx)
	case err != io.EOF:
		err = cause(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	if b.limit != nil {
		b.limit.Stop()
	}
	if b.closed != nil {
		b.closed()
	}
	err := b.ReadCloser.Close() // before cancel: it waits until the connection is free, unless ctx is done
	b.cancel(nil)
	return err
}

// cause returns why a request ended: our own reason if there is one, else err without the URL that net/http prepends.
func cause(ctx context.Context, err error) error {
	if timeout, ok := errors.AsType[timeoutError](context.Cause(ctx)); ok {
		return timeout
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if servertext.Clean(err.Error()) != err.Error() {
		return &unclean{err}
	}
	return err
}

// unclean is an error of the transport that quotes received bytes, such as "malformed HTTP response".
type unclean struct{ error }

func (u *unclean) Error() string { return servertext.Clean(u.error.Error()) }
func (u *unclean) Unwrap() error { return u.error }

// errNotModified means that the document with the entity tag of the request is still current.
var errNotModified = errors.New("not modified")

// small is an answer that was read completely.
type small struct {
	*body
	content []byte
}

func (s *small) undecodable() error { // the decoder's error may quote the content
	return s.foreign(describeBody(s.content, maxSmallBody, s.mediaType) + " that cannot be decoded")
}

// getSmall reads a small answer.
func (c *Client) getSmall(ctx context.Context, g get) (*small, error) {
	g.limit = smallTimeout
	body, err := c.get(ctx, g)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, maxSmallBody))
	if err != nil {
		return nil, err
	}
	return &small{body: body, content: content}, nil
}

// getJSON reads a small answer into a value.
func (c *Client) getJSON(ctx context.Context, g get, into any) error {
	answer, err := c.getSmall(ctx, g)
	if err != nil {
		return err
	}
	if json.Unmarshal(answer.content, into) != nil {
		return answer.undecodable()
	}
	return nil
}
