package kubeclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const maxErrorBody = 64 << 10

// answerError converts an answer outside 2xx to an error. API servers, aggregated ones, their filters, proxies and load
// balancers answer with a Status, text, HTML or nothing. An answer that is not a Status proves nothing about the
// resource or our rights. But any answer that a server is overloaded or away calls for a retry, and may name a time.
func answerError(res *http.Response, host string, now time.Time) error {
	content, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a partial body is useful too
	contentType := mediaType(res.Header)
	status, ok := parseStatus(content)
	if !ok && !speaksForTheServer(res.StatusCode, contentType, content) {
		return &watchlist.ForeignAnswerError{
			Host: host, StatusCode: res.StatusCode, ContentType: contentType,
			Is: describeAnswer(res, content), Hint: pageHint,
		}
	}
	if !ok {
		status = metav1.Status{Status: metav1.StatusFailure, Message: fmt.Sprintf("%s answered %d %s with %s",
			host, res.StatusCode, http.StatusText(res.StatusCode), describeAnswer(res, content))}
	}
	if status.Code == 0 {
		status.Code = int32(res.StatusCode)
	}
	if status.Reason == metav1.StatusReasonUnknown {
		status.Reason = reason(res.StatusCode)
	}
	if after := retryAfter(res.Header.Get("Retry-After"), now); after > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, after)
	}
	servertext.CleanStatus(&status)
	return &apierrors.StatusError{ErrStatus: status}
}

func parseStatus(content []byte) (metav1.Status, bool) {
	var status metav1.Status
	if e, ok := openEnvelope(content); ok { // the answer to a request for metadata as protobuf
		if string(e.kind) != "Status" || status.Unmarshal(e.object) != nil {
			return metav1.Status{}, false
		}
		status.Kind = "Status"
	} else if json.Unmarshal(content, &status) != nil {
		return metav1.Status{}, false
	}
	return status, status.Kind == "Status" && status.Status != metav1.StatusSuccess
}

// speaksForTheServer reports whether an answer counts as the API server's although it is not a Status.
func speaksForTheServer(code int, contentType string, content []byte) bool {
	switch code {
	case http.StatusNotFound:
		// This is kube-apiserver's answer for an unknown path. Every server written in Go answers like that, so
		// discovery has to decide whether the resource is served.
		return !isPage(contentType) && string(bytes.TrimSpace(content)) == "404 page not found"
	case http.StatusGone:
		return !isPage(contentType) && contentType != acceptJSON
	case http.StatusInternalServerError: // kube-apiserver panicked, for example
		return !isPage(contentType)
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return code > http.StatusInternalServerError
}

// reason returns the reason that an API server gives with the code.
func reason(code int) metav1.StatusReason {
	switch code {
	case http.StatusGone: // the only one that client-go does not know
		return metav1.StatusReasonGone
	case http.StatusRequestTimeout:
		return metav1.StatusReasonTimeout
	default:
		return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "", 0, false).ErrStatus.Reason
	}
}

// describeAnswer describes an answer that is not a Status.
func describeAnswer(res *http.Response, content []byte) string {
	if location, err := url.Parse(res.Header.Get("Location")); err == nil && location.Host != "" {
		return "a redirect to " + location.Host // not the rest, which may hold secrets
	}
	return describeBody(content, maxErrorBody, mediaType(res.Header))
}

// retryAfter returns the header's value in seconds, or 0. [servertext.CleanStatus] caps it.
// https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
func retryAfter(header string, now time.Time) int32 {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(header), 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return int32(min(max(seconds, 0), math.MaxInt32))
	}
	if at, err := http.ParseTime(header); err == nil && at.After(now) {
		return int32(min(wholeSeconds(at.Sub(now)), math.MaxInt32))
	}
	return 0
}
