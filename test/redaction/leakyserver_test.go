package redaction

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// leakyServer is an aggregated API server behind the real one that fails, and whose errors contain secrets. Errors are
// reported in the log, the component status and elsewhere.
type leakyServer struct {
	mu    sync.Mutex
	lists map[string]int              // requests by their user agent
	sent  map[string][errorKinds]bool // by user agent
}

var (
	reports = schema.GroupVersionResource{Group: "leaky.example.com", Version: "v1", Resource: "reports"}
)

// errorSentinels are the sentinels in its errors.
var errorSentinels = []string{
	"SENTINEL-9001-kV7q", "SENTINEL-9002-kV7q", "SENTINEL-9003-kV7q", "SENTINEL-9004-kV7q", "SENTINEL-9005-kV7q", "SENTINEL-9006-kV7q",
}

// The errors in its answers, with two sentinels each.
const (
	statusForList = iota
	textForList
	statusInWatch
	errorKinds
)

var leakyErrors = [errorKinds]struct {
	status      int
	contentType string
	body        string
}{
	{http.StatusInternalServerError, "application/json", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500,"reason":"InternalError",` +
		`"message":"cannot open postgres://reports:%s@db:5432/reports: password=%s is wrong"}`},
	{http.StatusInternalServerError, "text/plain", "GET https://db/?access_token=%s: 401, Authorization: Bearer %s"},
	{http.StatusOK, "application/json", `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500,` +
		`"reason":"InternalError","message":"lost amqp://reports:%s@mq/: client_secret=%s"}}` + "\n"},
}

func startLeakyServer(t *testing.T, c *harness.Cluster) *leakyServer {
	t.Helper()
	s := &leakyServer{lists: map[string]int{}, sent: map[string][errorKinds]bool{}}
	c.Aggregate(t, reports.GroupVersion(), "leaky", s)
	return s
}

func (s *leakyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version := "/apis/" + reports.Group + "/" + reports.Version
	switch r.URL.Path {
	case version:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[{"name":%q,"singularName":"report",`+
			`"namespaced":true,"kind":"Report","verbs":["get","list","watch"]}]}`, reports.Group, reports.Version, reports.Resource)
	case version + "/" + reports.Resource:
		s.answer(w, r)
	default:
		http.NotFound(w, r)
	}
}

// answer fails every list of a client except the third, and every watch. The third list makes the client watch. The
// component status has the newest error that is new, so the one whose text it shows is the last new one.
func (s *leakyServer) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	client, answer := r.UserAgent(), statusInWatch
	if r.URL.Query().Get("watch") == "" {
		s.lists[client]++
		if s.lists[client] == 3 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"kind":"ReportList","apiVersion":"%s/%s","metadata":{"resourceVersion":"7"},"items":[]}`, reports.Group, reports.Version)
			return
		}
		if answer = statusForList; s.lists[client] == 1 {
			answer = textForList
		}
	}
	sent := s.sent[client]
	sent[answer] = true
	s.sent[client] = sent
	w.Header().Set("Content-Type", leakyErrors[answer].contentType)
	w.WriteHeader(leakyErrors[answer].status)
	_, _ = fmt.Fprintf(w, leakyErrors[answer].body, errorSentinels[2*answer], errorSentinels[2*answer+1])
}

// unsent returns an error that has not been sent to a client yet, or "" if all have been sent.
func (s *leakyServer) unsent(userAgent string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, sent := range s.sent[userAgent] {
		if !sent {
			return fmt.Sprintf("it has not been sent %q", leakyErrors[kind].body)
		}
	}
	return ""
}
