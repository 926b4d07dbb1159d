package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"
)

const (
	// smallTimeout bounds requests whose answer is read at once.
	smallTimeout = 60 * time.Second

	// maxSmallBody bounds such an answer. The discovery document of a cluster with thousands of custom
	// resources is a few MiB.
	maxSmallBody = 64 << 20
)

// get is a GET request.
type get struct {
	path   []string // under the server's base path
	query  url.Values
	accept string
	fresh  bool          // on a new connection
	limit  time.Duration // of the whole response, counted from its headers; 0 is none
	onSent func()        // may be nil
}

// timeoutError is a net.Error.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// get waits for its turn, sends the request and returns the body of an answer in 2xx. The error for any
// other answer is an *apierrors.StatusError.
func (c *Client) get(ctx context.Context, g get) (*body, error) {
	if err := c.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	if g.onSent != nil {
		g.onSent()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	body, err := c.send(ctx, cancel, g)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return body, nil
}

func (c *Client) send(ctx context.Context, cancel context.CancelCauseFunc, g get) (*body, error) {
	var err error
	if g.fresh {
		if ctx, err = c.connections.withFresh(ctx); err != nil {
			return nil, err
		}
	}
	target := c.base.JoinPath(g.path...)
	target.RawQuery = g.query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", g.accept)

	headers := time.AfterFunc(c.headerTimeout, func() {
		cancel(timeoutError(fmt.Sprintf("no answer from %s within %s", c.base.Host, c.headerTimeout)))
	})
	defer headers.Stop() // also ends the reading of an error's body
	res, err := c.http.Do(req)
	if err != nil {
		return nil, cause(ctx, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, statusError(res, time.Now())
	}
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mediaType == "text/html" {
		res.Body.Close()
		return nil, fmt.Errorf("%s answered with a web page; is it the API server, or a login page in front of it?", c.base.Host)
	}
	b := &body{ReadCloser: res.Body, mediaType: mediaType, ctx: ctx, cancel: cancel}
	if g.limit > 0 {
		b.limit = time.AfterFunc(g.limit, func() {
			cancel(timeoutError(fmt.Sprintf("%s did not end the response within %s", c.base.Host, g.limit)))
		})
	}
	return b, nil
}

// body is a response body that ends its request when it is closed.
type body struct {
	io.ReadCloser
	mediaType string // without parameters
	ctx       context.Context
	cancel    context.CancelCauseFunc
	limit     *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case b.ctx.Err() != nil: // even if err is io.EOF: a server that sees the request end may end the response well
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
	err := b.ReadCloser.Close() // first: it waits until the connection is free, unless ctx is done
	b.cancel(nil)
	return err
}

// cause is why a request ended: our own reason if there is one, else err without the URL that net/http puts
// before it.
func cause(ctx context.Context, err error) error {
	if timeout, ok := errors.AsType[timeoutError](context.Cause(ctx)); ok {
		return timeout
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		return urlErr.Err
	}
	return err
}

// getJSON reads a small answer into a value.
func (c *Client) getJSON(ctx context.Context, g get, into any) error {
	g.limit = smallTimeout
	body, err := c.get(ctx, g)
	if err != nil {
		return err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, maxSmallBody))
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
