package watchlist

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"

	"github.com/cenkalti/backoff/v5"
)

// maxPageTries is how often a page of a LIST is requested before the whole LIST is abandoned.
const maxPageTries = 5

// page is one page of a LIST being read. Items received before it was cut are not returned twice.
type page struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	quiet  *time.Timer // ends the page when nothing arrives; runs only while we wait for the server

	tries int
	given map[uint64]struct{} // hashes of the items already returned
	pause *backoff.ExponentialBackOff
}

var itemSeed = maphash.MakeSeed()

// open requests the page, perhaps again.
func (p *page) open(ctx context.Context, pages Opener, req Request) error {
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.quiet = time.AfterFunc(endMarkerTimeout, func() { p.cancel(errPageSilent) })
	p.quiet.Stop()
	body, err := pages.Open(ctx, req)
	if err != nil {
		p.cancel(nil)
		return err
	}
	p.body = body
	return nil
}

func (p *page) Read(b []byte) (int, error) {
	p.quiet.Reset(endMarkerTimeout)
	defer p.quiet.Stop()
	return p.body.Read(b)
}

// close may be called twice.
func (p *page) close() error {
	if p.body == nil {
		return nil
	}
	p.quiet.Stop()
	err := p.body.Close()
	p.cancel(nil)
	p.body = nil
	return err
}

// isNew reports whether the item was not yet returned before the page was cut.
func (p *page) isNew(item []byte) bool {
	if p.given == nil {
		p.given = make(map[uint64]struct{}, listPageItems)
	}
	sum := maphash.Bytes(itemSeed, item)
	if _, ok := p.given[sum]; ok {
		return false
	}
	p.given[sum] = struct{}{}
	return true
}

// retry reports whether the page can be requested again after err, and waits before that.
func (p *page) retry(ctx context.Context, err error) bool {
	code := statusCode(err)
	lasting := code != 0 && code != http.StatusTooManyRequests && code < http.StatusInternalServerError
	if p.tries++; lasting || p.tries >= maxPageTries || errors.Is(err, errNotAList) || ctx.Err() != nil {
		return false
	}
	if p.pause == nil {
		p.pause = retry.NewBackoff(400*time.Millisecond, 10*time.Second)
	}
	return sleep(ctx, max(p.pause.NextBackOff(), retryAfter(err))) == nil
}
