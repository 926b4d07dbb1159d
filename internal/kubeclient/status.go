package kubeclient

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const (
	maxErrorBody    = 64 << 10
	maxErrorMessage = 400 // runes
)

// statusError makes an error of an answer outside 2xx. API servers, aggregated ones, their filters, proxies
// and load balancers answer with a Status, text, HTML or nothing.
func statusError(res *http.Response, now time.Time) *apierrors.StatusError {
	content, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what there is helps
	status, ok := parseStatus(content)
	if !ok {
		status = metav1.Status{Status: metav1.StatusFailure, Message: describeAnswer(res, content)}
	}
	status.Message = clean(status.Message)
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
	return &apierrors.StatusError{ErrStatus: status}
}

func parseStatus(content []byte) (metav1.Status, bool) {
	var status metav1.Status
	if json.Unmarshal(content, &status) != nil || status.Kind != "Status" || status.Status == metav1.StatusSuccess {
		return metav1.Status{}, false
	}
	return status, true
}

// reason is what the API server would have given with the code.
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

var htmlTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// describeAnswer says what an answer was that is no Status.
func describeAnswer(res *http.Response, content []byte) string {
	answer := fmt.Sprintf("the server answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	if location, err := url.Parse(res.Header.Get("Location")); err == nil && location.Host != "" {
		return fmt.Sprintf("%s: a redirect to %s", answer, location.Host) // no more of it, there may be secrets
	}
	text := string(content)
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mediaType == "text/html" {
		text = ""
		if title := htmlTitle.FindSubmatch(content); title != nil {
			text = html.UnescapeString(string(title[1]))
		}
	}
	if text = clean(text); text != "" {
		return answer + ": " + text
	}
	return answer
}

// clean makes text fit for one line of a log: printable, redacted and cut.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = redact.Text(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > maxErrorMessage {
		text = string(runes[:maxErrorMessage]) + "…"
	}
	return text
}

// retryAfter is the header's value in seconds, or 0.
// https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
func retryAfter(header string, now time.Time) int32 {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(header), 10, 64); err == nil {
		return int32(min(max(seconds, 0), math.MaxInt32))
	}
	if at, err := http.ParseTime(header); err == nil && at.After(now) {
		return int32(min(wholeSeconds(at.Sub(now)), math.MaxInt32))
	}
	return 0
}
