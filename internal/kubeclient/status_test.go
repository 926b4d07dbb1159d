package kubeclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
		"status with an absurd delay": {
			code:       429,
			header:     map[string]string{"Retry-After": "86400"},
			body:       `{"kind":"Status","status":"Failure","message":"initializing","reason":"TooManyRequests","code":429}`,
			want:       "initializing (it asks to be left alone for 24h0m0s; waiting 5m0s at most)",
			reason:     metav1.StatusReasonTooManyRequests,
			is:         apierrors.IsTooManyRequests,
			retryAfter: 300,
		},
		"status that quotes an object": {
			code:   500,
			body:   `{"kind":"Status","status":"Failure","message":"Object 'Kind' is missing in '{\"data\":{\"x\":\"c2VudGluZWw=\"}}'","code":500}`,
			want:   "Object 'Kind' is missing in",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"status as protobuf": {
			code:   410,
			header: map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf"},
			body:   protobufStatus(t, metav1.Status{Status: metav1.StatusFailure, Message: "too old resource version: 1 (2)", Reason: metav1.StatusReasonExpired, Code: 410}),
			want:   "too old resource version: 1 (2)",
			reason: metav1.StatusReasonExpired,
			is:     apierrors.IsResourceExpired,
		},
		"text with delay in seconds": {
			code:       429,
			header:     map[string]string{"Content-Type": "text/plain; charset=utf-8", "Retry-After": "5"},
			body:       "Too many requests, please try again later.\n",
			want:       "$HOST answered 429 Too Many Requests with 43 bytes of text/plain",
			reason:     metav1.StatusReasonTooManyRequests,
			is:         apierrors.IsTooManyRequests,
			retryAfter: 5,
		},
		"text with delay until a date": {
			code:       503,
			header:     map[string]string{"Content-Type": "text/plain", "Retry-After": time.Now().Add(4 * time.Minute).UTC().Format(http.TimeFormat)},
			body:       "service unavailable",
			want:       "$HOST answered 503 Service Unavailable with 19 bytes of text/plain",
			reason:     metav1.StatusReasonServiceUnavailable,
			is:         apierrors.IsServiceUnavailable,
			retryAfter: 240,
		},
		"page with a delay": {
			code:       503,
			header:     map[string]string{"Content-Type": "text/html", "Retry-After": "86400"},
			body:       "<html><title>sentinel</title>",
			want:       "$HOST answered 503 Service Unavailable with 29 bytes of text/html (it asks to be left alone for 24h0m0s; waiting 5m0s at most)",
			reason:     metav1.StatusReasonServiceUnavailable,
			is:         apierrors.IsServiceUnavailable,
			retryAfter: 300,
		},
		"text of a path that is not served": {
			code:   404,
			header: map[string]string{"Content-Type": "text/plain"},
			body:   "404 page not found\n",
			want:   "$HOST answered 404 Not Found with 19 bytes of text/plain",
			reason: metav1.StatusReasonNotFound,
			is:     apierrors.IsNotFound,
		},
		"text without a type": {
			code:   500,
			header: map[string]string{"Content-Type": ""},
			body:   "c2VudGluZWw=",
			want:   "$HOST answered 500 Internal Server Error with 12 bytes of unknown type",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"long text": {
			code:   500,
			header: map[string]string{"Content-Type": "text/plain"},
			body:   strings.Repeat("é", 100_000),
			want:   "$HOST answered 500 Internal Server Error with at least 65536 bytes of text/plain",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"object instead of a status": {
			code:   502,
			header: map[string]string{"Content-Type": "application/json"},
			body:   `{"kind":"Secret","data":{"x":"c2VudGluZWw="}}`,
			want:   "$HOST answered 502 Bad Gateway with 45 bytes of application/json",
			reason: metav1.StatusReasonInternalError,
			is:     apierrors.IsInternalError,
		},
		"HTML": {
			code:   504,
			header: map[string]string{"Content-Type": "text/html; charset=UTF-8"},
			body:   "<html>",
			want:   "$HOST answered 504 Gateway Timeout with 6 bytes of text/html",
			reason: metav1.StatusReasonTimeout,
			is:     apierrors.IsTimeout,
		},
		"gone": {
			code:   410,
			header: map[string]string{"Content-Type": "text/plain"},
			body:   "Gone",
			want:   "$HOST answered 410 Gone with 4 bytes of text/plain",
			reason: metav1.StatusReasonGone,
			is:     apierrors.IsGone,
		},
		"success that is none": {
			code:   500,
			header: map[string]string{"Content-Type": "application/json"},
			body:   `{"kind":"Status","status":"Success"}`,
			want:   `$HOST answered 500 Internal Server Error with 36 bytes of application/json`,
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
				require.EqualError(t, err, prefix+strings.Replace(tt.want, "$HOST", client.session.base.Host, 1))
				assert.NotContains(t, err.Error(), "c2VudGluZWw=")
				assert.True(t, tt.is(err))
				var status *apierrors.StatusError
				require.True(t, errors.As(err, &status))
				assert.Equal(t, tt.reason, status.ErrStatus.Reason)
				assert.Equal(t, int32(tt.code), status.ErrStatus.Code)
				seconds, suggested := apierrors.SuggestsClientDelay(err)
				assert.Equal(t, tt.retryAfter > 0, suggested)
				assert.InDelta(t, tt.retryAfter, seconds, float64(tt.retryAfter)/10) // of a date, some time has passed
			})
		})
	}
}

// A server may send the headers of an error and then stall.
func TestErrorBodyThatDoesNotEnd(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		stall(w, r)
	}, WithHeaderTimeout(200*time.Millisecond))
	_, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
	require.EqualError(t, err, `cannot watch pods (group "", version v1) in all namespaces: `+client.session.base.Host+` answered 502 Bad Gateway with `+strconv.Itoa(len(firstFrame))+` bytes of text/plain`)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]int32{
		"":                              0,
		"5":                             5,
		" 5 ":                           5,
		"-5":                            0,
		"99999999999":                   1<<31 - 1,
		"99999999999999999999999":       1<<31 - 1,
		"soon":                          0,
		"Fri, 02 Jan 2026 03:05:05 GMT": 60,
		"Fri, 02 Jan 2026 03:03:05 GMT": 0,
	} {
		assert.Equal(t, want, retryAfter(header, now), header)
	}
}

func protobufStatus(t *testing.T, status metav1.Status) string {
	t.Helper()
	raw, err := status.Marshal()
	require.NoError(t, err)
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}
	content, err := unknown.Marshal()
	require.NoError(t, err)
	return "k8s\x00" + string(content)
}

// An answer that is not from Kubernetes proves nothing about the resource, its history or our rights, whatever its
// status.
func TestForeignAnswers(t *testing.T) {
	const page = "<html><title>c2VudGluZWw=</title></html>"
	bodies := map[string]string{
		"text/html; charset=utf-8": page,
		"application/xhtml+xml":    page,
		"text/plain":               "default backend - 404 c2VudGluZWw=",
		"application/json":         `{"type":"error","code":"NotFound","message":"c2VudGluZWw="}`,
		"":                         page,
	}
	for _, code := range []int{400, 401, 402, 403, 404, 405, 406, 410, 418, 422} {
		for contentType, content := range bodies {
			if code == 410 && (contentType == "text/plain" || contentType == "") {
				continue // servers other than kube-apiserver use this form
			}
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{contentType}
				w.WriteHeader(code)
				_, _ = io.WriteString(w, content)
			})
			for _, list := range []bool{false, true} {
				_, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, List: list})
				requireForeign(t, err, code)
			}
			_, err := client.Discover(t.Context())
			requireForeign(t, err, code)
			_, err = client.ClusterUID(t.Context())
			requireForeign(t, err, code)
			aggregated, err := client.ServedByAggregation(t.Context(), "example.com", "v1")
			require.NoError(t, err)
			assert.False(t, aggregated)
		}
	}
	// An empty 404 is not kube-apiserver's either.
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	_, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
	requireForeign(t, err, 404)
	require.ErrorContains(t, err, "answered 404 Not Found with an empty body, which is no answer of the Kubernetes API; is it the API server")
}

func requireForeign(t *testing.T, err error, code int) {
	t.Helper()
	var foreign *watchlist.ForeignAnswerError
	require.ErrorAs(t, err, &foreign)
	assert.Equal(t, code, foreign.StatusCode)
	assert.NotContains(t, err.Error(), "c2VudGluZWw=")
	var status apierrors.APIStatus
	assert.False(t, errors.As(err, &status))
}

// A page with status 200 is neither a stream nor a list, whatever type it claims. It may arrive byte by byte.
func TestPagesAreNotStreams(t *testing.T) {
	const (
		html = "<!DOCTYPE html><html><title>Log in c2VudGluZWw=</title></html>"
		ok   = false
		bad  = true
	)
	tests := []struct {
		contentType, content string
		watch, list          bool // the verdict for each
	}{
		{"text/html", html, bad, bad},
		{"", html, bad, bad},
		{"application/json", "\n " + html, bad, bad},
		{"application/json", strings.Repeat("\n", 5000) + html, bad, bad},
		{"application/json", "\ufeff" + html, bad, bad},
		{"text/plain", "Please log in", bad, bad},
		{"", "OK\n", bad, bad},
		{"application/json", "OK", bad, bad},
		{"application/json", "null\n", bad, bad},
		{"application/json", "404\n", bad, bad},
		{"application/json", `"ok"`, bad, bad},
		{"application/json", `[]`, bad, bad},
		{"application/json", `{"status":"ok"}`, bad, bad},
		{"application/json", `{}`, bad, bad},
		{"application/json", `{"error":"unauthorized"}` + "\n", bad, bad},
		{"application/json", `{"kind":"Status","code":404}`, bad, bad},
		{"application/json", `{"apiVersion":"v1","kind":"Status","code":404}`, bad, bad},
		{"application/json", `{"kind":null,"items":[]}`, bad, bad},
		{"application/json", `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`, bad, ok},
		{"application/json", `{"apiVersion":"v1","items":[],"kind":"WidgetList"}`, bad, ok},
		{"application/json", "{\n  \"metadata\": {},\n  \"items\": null\n}", bad, ok},
		{"application/json", firstFrame, ok, bad},
		{"", firstFrame, ok, bad},
		{"application/json", "\n\n{ \"object\" : {}, \"type\": \"ADDED\"}\n", ok, bad},
		{"application/json", "\x00garbled frame\n", ok, bad}, // the reader handles these
		{"application/json", "", ok, ok},                     // a watch without events; as a list, its decoder rejects it
	}
	for _, tt := range tests {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{tt.contentType}
			_, _ = io.WriteString(w, tt.content)
		})
		for list, foreign := range map[bool]bool{false: tt.watch, true: tt.list} {
			body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, List: list})
			var content []byte
			if err == nil {
				content, err = io.ReadAll(iotest.OneByteReader(body))
				require.NoError(t, body.Close())
			}
			if foreign {
				requireForeign(t, err, 200)
				continue
			}
			require.NoError(t, err, "%q, list: %v", tt.content, list)
			assert.Equal(t, tt.content, string(content))
		}
	}
}

// Errors of the transport quote the bytes that arrived instead of an answer.
func TestTransportErrorsQuoteNoObject(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, `{"kind":"Secret","data":{"x":"c2VudGluZWw="}}`+"\r\n\r\n")
			_ = conn.Close()
		}
	})
	defer done.Wait()
	defer listener.Close()
	client := newTestClient(t, &rest.Config{Host: "http://" + listener.Addr().String(), QPS: 1000, Burst: 1000})
	_, err = client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
	require.ErrorContains(t, err, "malformed HTTP response")
	assert.True(t, Answered(err))
	assert.NotContains(t, err.Error(), "c2VudGluZWw=")
}

// The API server counts as unreachable only if nothing answered.
func TestAnswered(t *testing.T) {
	open := func(cfg *rest.Config, options ...Option) error {
		cfg.QPS, cfg.Burst = 1000, 1000
		_, err := newTestClient(t, cfg, options...).Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.Error(t, err)
		return err
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(page.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	for _, err := range []error{
		open(&rest.Config{Host: untrusted.URL}),
		open(&rest.Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}),
		open(&rest.Config{Host: plain.URL}),
		open(&rest.Config{Host: page.URL}),
	} {
		assert.True(t, Answered(err), err)
	}
	for _, err := range []error{
		nil,
		context.Canceled,
		open(&rest.Config{Host: gone.URL}),
		open(&rest.Config{Host: silent.URL}, WithHeaderTimeout(50*time.Millisecond)),
	} {
		assert.False(t, Answered(err), err)
	}
}
