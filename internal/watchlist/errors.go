package watchlist

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons for the end of a stream that do not come from the server.
var (
	errQueueFull     = errors.New("queue is full")
	errSilent        = errors.New("nothing arrived for too long, not even a bookmark")
	errNoEndMarker   = errors.New("server sent no end of the initial events")
	errIncomplete    = errors.New("server ended the watch before the end of the initial events")
	errStale         = errors.New("snapshot is older than what was already read")
	errUndecodable   = errors.New("cannot decode a watch event")
	errRelistDue     = errors.New("a fresh snapshot has to be compared")
	errPollDue       = errors.New("next snapshot of a resource that cannot be watched is due")
	errNoVersion     = errors.New("snapshot came without a resourceVersion")
	errUnconfirmed   = errors.New("cannot confirm that the objects missing from a snapshot are gone")
	errLackedObjects = errors.New("snapshot lacked objects that exist")
	errSlowAnswer    = errors.New("server has the request but has not begun to answer")
	errPageSilent    = errors.New("nothing more of the page arrived")
	errRemoved       = errors.New("the definition of the resource was deleted")
)

// statusCode returns the HTTP status in err, of a response or of an ERROR event, or 0.
func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// isExpired reports whether the server no longer has the history since the requested version. kube-apiserver sends that
// inside an HTTP 200, others as the status of the response.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || statusCode(err) == http.StatusGone
}

// ErrNoConnection marks the error of an Opener that could not connect in time, so that the server has not seen the request.
var ErrNoConnection = errors.New("cannot connect")

// isUnanswered reports whether the request was sent and nothing came back.
func isUnanswered(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNoConnection)
}

// namesInitialEvents reports whether the server refuses to stream the initial state.
func namesInitialEvents(err error) bool {
	text := err.Error()
	return strings.Contains(text, "sendInitialEvents") || strings.Contains(text, "resourceVersionMatch") ||
		strings.Contains(text, "allowWatchBookmarks")
}

// blamesSelector reports whether the server refuses a selector, which it would refuse in a LIST too.
func blamesSelector(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "selector") || strings.Contains(text, "field label") || strings.Contains(text, "label not supported")
}

// isVersionTooLarge reports whether the server has not reached the requested version: it lags behind, or its history
// was set back.
func isVersionTooLarge(err error) bool {
	if !apierrors.IsTimeout(err) {
		return false
	}
	// Servers before 1.19 gave no cause.
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		strings.Contains(err.Error(), "Too large resource version")
}

func isForbidden(err error) bool    { return statusCode(err) == http.StatusForbidden }
func isUnauthorized(err error) bool { return statusCode(err) == http.StatusUnauthorized }
func isNotFound(err error) bool     { return statusCode(err) == http.StatusNotFound }

// isWatchUnsupported reports whether the resource can be listed but not watched.
func isWatchUnsupported(err error) bool { return statusCode(err) == http.StatusMethodNotAllowed }

// isRefused reports whether the server will never answer this request, however often it is repeated.
func isRefused(err error) bool {
	code := statusCode(err)
	return code == http.StatusBadRequest || code == http.StatusNotAcceptable
}

func isBadRequest(err error) bool { return statusCode(err) == http.StatusBadRequest }

// isInvalid reports whether the server does not understand the request. For a request with initial events that means
// that it does not support them.
func isInvalid(err error) bool { return statusCode(err) == http.StatusUnprocessableEntity }

func isInternal(err error) bool { return statusCode(err) == http.StatusInternalServerError }

func isThrottled(err error) bool {
	code := statusCode(err)
	return code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable
}

// retryAfter returns how long the server asks clients to wait, as capped by [servertext.CleanStatus].
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// isCleanEnd reports whether the server ended the response normally: its time was up, it closed a slow watcher, or it
// is shutting down. These cases look the same.
func isCleanEnd(err error) bool { return errors.Is(err, io.EOF) }

// reason names why a stream ended, for a metric. A stream that never began did not end normally.
func (e ending) reason() string {
	if !e.opened && isCleanEnd(e.err) {
		return "connection"
	}
	return endReason(e.err)
}

// endReason names why a stream ended, for a metric: a small closed set.
func endReason(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "shutdown"
	case errors.Is(err, errQueueFull):
		return "queue_full"
	case errors.Is(err, errSilent):
		return "silent"
	case errors.Is(err, errNoEndMarker), errors.Is(err, errIncomplete):
		return "incomplete"
	case errors.Is(err, errStale):
		return "stale"
	case errors.Is(err, errUnconfirmed), errors.Is(err, errLackedObjects):
		return "unconfirmed"
	case errors.Is(err, errRelistDue), errors.Is(err, errPollDue):
		return "relist"
	case errors.Is(err, errUndecodable), errors.Is(err, ErrFrameTooLarge):
		return "undecodable"
	case isExpired(err):
		return "expired"
	case isVersionTooLarge(err):
		return "version_too_large"
	case isForbidden(err), isUnauthorized(err):
		return "forbidden"
	case isNotFound(err):
		return "not_found"
	case isThrottled(err):
		return "throttled"
	case statusCode(err) != 0:
		return "server_error"
	case isCleanEnd(err):
		return "closed"
	}
	return "connection"
}
