package kubeclient

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestStatusErrors(t *testing.T) {
	const prefix = `cannot watch pods (group "", version v1) in namespace shop: `
	tests := map[string]struct {
		code       int
		header     map[string]string
		body       string
		want       string // of the message
		reason     metav1.StatusReason
		is         func(error) bool
		retryAfter int32
	}{
		"status": {
			code:   403,
			header: map[string]string{"Content-Type": "application/json"},
			body:   `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden: User \"x\" cannot watch","reason":"Forbidden","details":{"kind":"pods"},"code":403}`,
			want:   `pods is forbidden: User "x" cannot watch`,
			reason: metav1.StatusReasonForbidden,
			is:     apierrors.IsForbidden,
		},
		"status without reason and code": {
			code:   401,
			body:   `{"kind":"Status","message":"Unauthorized"}`,
			want:   "Unauthorized",
			reason: metav1.StatusReasonUnauthorized,
			is:     apierrors.IsUnauthorized,
		},
		"expired": {
			code:   410,
			body:   `{"kind":"Status","status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}`,
			want:   "too old resource version: 1 (2)",
			reason: metav1.StatusReasonExpired,
			is:     apierrors.IsResourceExpired,
		},
		"status with both delays": {
			code:       429,
			header:     map[string]string{"Retry-After": "7"},
			body:       `{"kind":"Status","status":"Failure","message":"initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":3},"code":429}`,
			want:       "initializing",
			reason:     metav1.StatusReasonTooManyRequests,
			is:         apierrors.IsTooManyRequests,
			retryAfter: 7,
		},
		"status with the longer delay": {
			code:       429,
			header:     map[string]string{"Retry-After": "1"},
			body:       `{"kind":"Status","status":"Failure","message":"initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":30},"code":429}`,
			want:       "initializing",
			reason:     metav1.StatusReasonTooManyRequests,
			is:         apierrors.IsTooManyRequests,
			retryAfter: 30,
		},
		"text with delay in seconds": {
			code:       429,
			header:     map[string]string{"Content-Type": "text/plain; charset=utf-8", "Retry-After": "5"},
			body:       "Too many requests, please try again later.\n",
			want:       "the server answered 429 Too Many Requests: Too many requests, please try again later.",
			reason:     metav1.StatusReasonTooManyRequests,
			is:         apierrors.IsTooManyRequests,
			retryAfter: 5,
		},
		"text with delay until a date": {
			code:       503,
			header:     map[string]string{"Retry-After": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)},
			body:       "service unavailable",
			want:       "the server answered 503 Service Unavailable: service unavailable",
			reason:     metav1.StatusReasonServiceUnavailable,
			is:         apierrors.IsServiceUnavailable,
			retryAfter: 3600,
		},
		"text of a path that is not served": {
			code:   404,
			header: map[string]string{"Content-Type": "text/plain"},
			body:   "404 page not found\n",
			want:   "the server answered 404 Not Found: 404 page not found",
			reason: metav1.StatusReasonNotFound,
			is:     apierrors.IsNotFound,
		},
		"text with control characters": {
			code:   500,
			body:   "one\r\n\x1b[31mtwo\x00\xff\u2028three",
			want:   "the server answered 500 Internal Server Error: one [31mtwo three",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"long text": {
			code:   500,
			body:   strings.Repeat("é", 100_000),
			want:   "the server answered 500 Internal Server Error: " + strings.Repeat("é", 353) + "…",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"HTML": {
			code:   502,
			header: map[string]string{"Content-Type": "text/html; charset=UTF-8"},
			body:   "<html>\n<head><title>502 Bad\nGateway &amp; more</title></head><body>" + strings.Repeat("<p>x", 50_000),
			want:   "the server answered 502 Bad Gateway: 502 Bad Gateway & more",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"HTML without title": {
			code:   504,
			header: map[string]string{"Content-Type": "text/html"},
			body:   "<html>",
			want:   "the server answered 504 Gateway Timeout",
			reason: metav1.StatusReasonTimeout,
			is:     apierrors.IsTimeout,
		},
		"nothing": {
			code:   422,
			want:   "the server answered 422 Unprocessable Entity",
			reason: metav1.StatusReasonInvalid,
			is:     apierrors.IsInvalid,
		},
		"nothing, gone": {
			code:   410,
			want:   "the server answered 410 Gone",
			reason: metav1.StatusReasonGone,
			is:     apierrors.IsGone,
		},
		"JSON of another kind": {
			code:   400,
			header: map[string]string{"Content-Type": "application/json"},
			body:   `{"error": "no"}`,
			want:   `the server answered 400 Bad Request: {"error": "no"}`,
			reason: metav1.StatusReasonBadRequest,
			is:     apierrors.IsBadRequest,
		},
		"success that is none": {
			code:   500,
			body:   `{"kind":"Status","status":"Success"}`,
			want:   `the server answered 500 Internal Server Error: {"kind":"Status","status":"Success"}`,
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
				client := newTestClient(t, start(func(w http.ResponseWriter, _ *http.Request) {
					for key, value := range tt.header {
						w.Header().Set(key, value)
					}
					w.WriteHeader(tt.code)
					_, _ = w.Write([]byte(tt.body))
				}))
				shop := pods
				shop.Namespace = "shop"
				_, err := client.Open(t.Context(), watchlist.Request{Scope: shop, API: podAPI})
				require.EqualError(t, err, prefix+tt.want)
				assert.True(t, tt.is(err))
				var status *apierrors.StatusError
				require.True(t, errors.As(err, &status))
				assert.Equal(t, tt.reason, status.ErrStatus.Reason)
				assert.Equal(t, int32(tt.code), status.ErrStatus.Code)
				seconds, suggested := apierrors.SuggestsClientDelay(err)
				assert.Equal(t, tt.retryAfter > 0, suggested)
				assert.InDelta(t, tt.retryAfter, seconds, 2)
			})
		})
	}
}

// A server may send the headers of an error and then nothing.
func TestErrorBodyThatDoesNotEnd(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		stall(w, r)
	}, WithHeaderTimeout(200*time.Millisecond))
	_, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
	require.EqualError(t, err, `cannot watch pods (group "", version v1) in all namespaces: the server answered 502 Bad Gateway: first`)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]int32{
		"":                              0,
		"5":                             5,
		" 5 ":                           5,
		"-5":                            0,
		"99999999999":                   1<<31 - 1,
		"99999999999999999999999":       0,
		"soon":                          0,
		"Fri, 02 Jan 2026 03:05:05 GMT": 60,
		"Fri, 02 Jan 2026 03:03:05 GMT": 0,
	} {
		assert.Equal(t, want, retryAfter(header, now), header)
	}
}
