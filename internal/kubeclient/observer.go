package kubeclient

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Observer observes requests, for metrics. It must not block, and is called concurrently.
type Observer interface {
	// RequestFailed is called for each request that was not answered, or with an error. The verb is create, get, list, update
	// or watch; the code is the status, 4xx or 5xx for rare ones, foreign for an answer that is not from Kubernetes, or network.
	RequestFailed(verb, code string)
	// RequestWaited is called with the time that a request waited for the client's rate limits.
	RequestWaited(time.Duration)
}

// waitWorthCounting is the wait below which a request counts as not having waited.
const waitWorthCounting = time.Millisecond

func (c *Client) waited(d time.Duration) {
	if c.observer != nil && d >= waitWorthCounting {
		c.observer.RequestWaited(d)
	}
}

func (c *Client) failed(g get, err error) {
	if c.observer == nil || errors.Is(err, errNotModified) {
		return
	}
	verb := "get"
	switch {
	case g.stream:
		verb = "watch"
	case g.list:
		verb = "list"
	case g.method == http.MethodPost:
		verb = "create"
	case g.method == http.MethodPut:
		verb = "update"
	}
	c.observer.RequestFailed(verb, errorCode(err))
}

// errorCode names an error, as one of a small set.
func errorCode(err error) string {
	if _, foreign := errors.AsType[*watchlist.ForeignAnswerError](err); foreign {
		return "foreign"
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "network"
	}
	switch code := status.Status().Code; {
	case code == 400, code == 401, code == 403, code == 404, code == 410, code == 422, code == 429:
		return strconv.Itoa(int(code))
	case code >= 500:
		return "5xx"
	}
	return "4xx"
}
