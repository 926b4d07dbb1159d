package k8swatchlistreceiver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadatatest"
)

// podServer serves discovery, the namespace kube-system and two pods, and lets the test send watch events.
type podServer struct {
	*httptest.Server
	events chan string

	mu        sync.Mutex
	forbidden bool
}

func newPodServer(t *testing.T) *podServer {
	s := &podServer{events: make(chan string)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *podServer) forbid(forbidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden = forbidden
}

func pod(name string, rv int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"shop","uid":"uid-of-%s","resourceVersion":"%d"}}`, name, name, rv)
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	forbidden := s.forbidden
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/api":
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[`+
			`{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["list","watch"]}]}]}]}`)
	case r.URL.Path == "/apis":
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[]}`)
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		fmt.Fprint(w, `{"metadata":{"uid":"uid-of-the-cluster"}}`)
	case forbidden:
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"reason": "Forbidden", "code": 403, "message": "pods is forbidden"})
	default:
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n"+`{"type":"ADDED","object":%s}`+"\n", pod("a", 5), pod("b", 6))
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		}
		for {
			w.(http.Flusher).Flush()
			select {
			case event := <-s.events:
				fmt.Fprintln(w, event)
			case <-r.Context().Done():
				return
			}
		}
	}
}

// statusHost records the component status that is reported to it.
type statusHost struct {
	component.Host
	mu     sync.Mutex
	events []*componentstatus.Event
}

func (h *statusHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *statusHost) last() *componentstatus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == 0 {
		return nil
	}
	return h.events[len(h.events)-1]
}

func podsConfig(url string) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.AuthType, cfg.APIServer, cfg.KubeAPIQPS = "none", url, 1000
	cfg.Resources = []ResourceConfig{{Name: "pods"}}
	cfg.Batch.Timeout = 10 * time.Millisecond
	return cfg
}

func recordsOf(sink *consumertest.LogsSink) []fold.Record {
	var records []fold.Record
	for _, logs := range sink.AllLogs() {
		records = append(records, fold.FromLogs(logs)...)
	}
	return records
}

func TestReceiverFromServerToConsumer(t *testing.T) {
	server := newPodServer(t)
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()

	sink := new(consumertest.LogsSink)
	r, err := NewFactory().CreateLogs(t.Context(), set, podsConfig(server.URL), sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	server.events <- fmt.Sprintf(`{"type":"DELETED","object":%s}`, pod("a", 8))

	require.Eventually(t, func() bool { return len(recordsOf(sink)) == 3 }, 10*time.Second, 5*time.Millisecond)
	pods := attribute.NewSet(attribute.String("group", ""), attribute.String("resource", "pods"))
	metadatatest.AssertEqualK8sWatchlistInventoryObjects(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 1, Attributes: pods}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualK8sWatchlistQueueBytes(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Empty(t, fold.Fold(recordsOf(sink)).Differences(fold.State{"uid-of-b": "6"}))
	uid, _ := sink.AllLogs()[0].ResourceLogs().At(0).Resource().Attributes().Get("k8s.cluster.uid")
	assert.Equal(t, "uid-of-the-cluster", uid.Str())
}

func TestStatusWhileRightsAreMissing(t *testing.T) {
	server := newPodServer(t)
	server.forbid(true)
	host := &statusHost{Host: componenttest.NewNopHost()}
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), podsConfig(server.URL), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), host))

	require.Eventually(t, func() bool { return host.last() != nil }, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, componentstatus.StatusRecoverableError, host.last().Status())
	assert.ErrorContains(t, host.last().Err(), `pods: cannot watch pods (group "", version v1) in all namespaces: pods is forbidden`)
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestHealthIsThatOfTheWorstPart(t *testing.T) {
	host := &statusHost{Host: componenttest.NewNopHost()}
	h := newHealth(host)
	h.report("pods", nil)
	assert.Nil(t, host.last(), "what was never ill need not be said to be well")
	h.report("pods", assert.AnError)
	h.report("nodes", assert.AnError)
	assert.Equal(t, componentstatus.StatusRecoverableError, host.last().Status())
	h.report("pods", nil)
	assert.ErrorContains(t, host.last().Err(), "nodes: ")
	assert.False(t, strings.Contains(host.last().Err().Error(), "pods: "))
	h.report("nodes", nil)
	assert.Equal(t, componentstatus.StatusOK, host.last().Status())
}

func TestStartAndShutdownWithoutAServer(t *testing.T) {
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), podsConfig("http://127.0.0.1:1"), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestStartNamesAKubeconfigThatIsNotThere(t *testing.T) {
	cfg := podsConfig("")
	cfg.AuthType, cfg.APIServer, cfg.Kubeconfig = "kubeConfig", "", "testdata/no-such-file"
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	assert.ErrorContains(t, r.Start(t.Context(), componenttest.NewNopHost()), "testdata/no-such-file")
	require.NoError(t, r.Shutdown(t.Context()))
}
