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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadatatest"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// podServer serves discovery, the namespace kube-system and two pods, and lets the test send watch events.
type podServer struct {
	*httptest.Server
	events chan string
	// clusterUID answers for the namespace kube-system, if it is set.
	clusterUID http.HandlerFunc

	mu        sync.Mutex
	forbidden bool
	opened    []string
	open      int
}

// streams returns the requested streams, in order.
func (s *podServer) streams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

func (s *podServer) begin(stream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, stream)
	s.open++
}

func (s *podServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

func (s *podServer) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == 0
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

// pod differs in each version.
func pod(name string, rv int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"shop","uid":"uid-of-%s","resourceVersion":"%d","labels":{"round":"%d"}}}`, name, name, rv, rv)
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
	case r.URL.Path == "/api/v1/namespaces/kube-system" && s.clusterUID != nil:
		s.clusterUID(w, r)
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		fmt.Fprint(w, `{"metadata":{"uid":"uid-of-the-cluster"}}`)
	case forbidden:
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"reason": "Forbidden", "code": 403, "message": "pods is forbidden"})
	default:
		if r.URL.Query().Get("sendInitialEvents") != "true" {
			s.begin("watch from " + r.URL.Query().Get("resourceVersion"))
		} else {
			s.begin("snapshot")
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n"+`{"type":"ADDED","object":%s}`+"\n", pod("a", 5), pod("b", 6))
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		}
		defer s.end()
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

// statusHost records the reported component status.
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
	id := attribute.String("receiver", set.ID.String())
	pods := attribute.NewSet(id, attribute.String("group", ""), attribute.String("resource", "pods"))
	metadatatest.AssertEqualK8sWatchlistInventoryObjects(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 1, Attributes: pods}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualK8sWatchlistQueueBytes(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 0, Attributes: attribute.NewSet(id)}}, metricdatatest.IgnoreTimestamp())
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

	require.Eventually(t, func() bool { return host.last() != nil && host.last().Err() != nil }, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, componentstatus.StatusRecoverableError, host.last().Status())
	assert.ErrorContains(t, host.last().Err(), `pods: forbidden: cannot watch pods (group "", version v1) in all namespaces: pods is forbidden`)
	assert.ErrorContains(t, host.last().Err(), `- {apiGroups: [""], resources: ["pods"], verbs: [watch, list]}`)
	assert.Equal(t, map[string]any{
		"readers": map[string]any{"forbidden": int64(1)}, "resources": map[string]any{"pods": "forbidden"},
	}, host.last().Attributes().AsRaw())
	require.NoError(t, r.Shutdown(t.Context()))
}

// A right that is missing for what only a pattern selects is a state, not an error.
func TestStatusWhileRightsOfAPatternAreMissing(t *testing.T) {
	server := newPodServer(t)
	server.forbid(true)
	cfg := podsConfig(server.URL)
	cfg.Resources = []ResourceConfig{{Name: "po*"}}
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	host := &statusHost{Host: componenttest.NewNopHost()}
	r, err := NewFactory().CreateLogs(t.Context(), set, cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), host))

	require.Eventually(t, func() bool {
		e := host.last()
		return e != nil && e.Attributes().AsRaw()["resources"].(map[string]any)["pods"] == "forbidden"
	}, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, componentstatus.StatusOK, host.last().Status())
	var points []metricdata.DataPoint[int64]
	for _, c := range watchlist.Conditions() {
		point := metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("receiver", set.ID.String()), attribute.String("state", c.String()))}
		if c == watchlist.Forbidden {
			point.Value = 1
		}
		points = append(points, point)
	}
	metadatatest.AssertEqualK8sWatchlistReaders(t, tel, points, metricdatatest.IgnoreTimestamp())
	require.NoError(t, r.Shutdown(t.Context()))
}

// With hundreds of resources, the status must not change hundreds of times while they begin to be read.
func TestStatusIsQuietWhileResourcesBeginToBeRead(t *testing.T) {
	host := &statusHost{Host: componenttest.NewNopHost()}
	h := newHealth(host)
	const n = 300
	for _, c := range []watchlist.Condition{watchlist.Starting, watchlist.Initializing, watchlist.Reading} {
		for i := range n {
			h.reading(scope.New(schema.GroupResource{Resource: fmt.Sprint("r", i)}, "", "", ""), watchlist.State{Condition: c}, false)
		}
	}
	require.Len(t, host.events, 1)
	assert.Equal(t, map[string]any{"readers": map[string]any{"reading": int64(n)}, "resources": map[string]any{}}, host.last().Attributes().AsRaw())
	h.forget("r0")
	assert.Equal(t, int64(n-1), h.states()[watchlist.Reading])
	for i := range n {
		h.reading(scope.New(schema.GroupResource{Resource: fmt.Sprint("r", i)}, "", "", ""), watchlist.State{Condition: watchlist.Unreachable, Err: assert.AnError}, false)
	}
	assert.ErrorContains(t, host.last().Err(), fmt.Sprintf("and %d more", n-mostInStatus))
}

// What is not served has no reader, but a state.
func TestStateOfAMissingResource(t *testing.T) {
	host := &statusHost{Host: componenttest.NewNopHost()}
	h := newHealth(host)
	h.missing("resources[0] widgets", fmt.Errorf("widgets is %w", kubeclient.ErrNotServed))
	assert.EqualError(t, host.last().Err(), "resources[0] widgets: not_served: widgets is not served")
	assert.Equal(t, int64(1), h.states()[watchlist.NotServed])
	h.missing("resources[0] widgets", nil)
	assert.Equal(t, componentstatus.StatusOK, host.last().Status())
	assert.Zero(t, h.states()[watchlist.NotServed])
}

func TestHealthIsThatOfTheWorstPart(t *testing.T) {
	host := &statusHost{Host: componenttest.NewNopHost()}
	h := newHealth(host)
	h.report("pods", nil)
	assert.Nil(t, host.last(), "a part that never failed is not reported as healthy")
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

// storageHost is a host with one extension.
type storageHost struct {
	component.Host
	extension component.Component
}

func (h storageHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{component.MustNewID("storage"): h.extension}
}

// A receiver that is restarted with the same storage continues where the first one stopped.
func TestRestartWithStorage(t *testing.T) {
	server := newPodServer(t)
	host := storageHost{Host: componenttest.NewNopHost(), extension: memstorage.New()}
	id := component.MustNewID("storage")
	cfg := podsConfig(server.URL)
	cfg.Storage = &id
	sink := new(consumertest.LogsSink)
	life := func(event string, records int) {
		r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, sink)
		require.NoError(t, err)
		require.NoError(t, r.Start(t.Context(), host))
		server.events <- event
		assert.Eventually(t, func() bool { return len(recordsOf(sink)) == records }, 10*time.Second, 5*time.Millisecond)
		require.NoError(t, r.Shutdown(t.Context()))
		require.Eventually(t, server.idle, 10*time.Second, 5*time.Millisecond) // else the old stream takes the next event
	}
	life(fmt.Sprintf(`{"type":"MODIFIED","object":%s,"spec":{"nodeName":"n"}}}`, strings.TrimSuffix(pod("a", 8), "}")), 3)
	life(fmt.Sprintf(`{"type":"DELETED","object":%s}`, pod("b", 9)), 4)
	assert.Empty(t, fold.Duplicates(recordsOf(sink)))
	assert.Equal(t, []string{"snapshot", "watch from 8"}, server.streams())
}

func TestStartRejectsAnUnusableStorage(t *testing.T) {
	f := func(id, want string) {
		t.Helper()
		storageID := component.MustNewID(id)
		cfg := podsConfig("http://127.0.0.1:1")
		cfg.Storage = &storageID
		r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
		require.NoError(t, err)
		host := storageHost{Host: componenttest.NewNopHost(), extension: struct {
			component.StartFunc
			component.ShutdownFunc
		}{}}
		assert.ErrorContains(t, r.Start(t.Context(), host), want)
		require.NoError(t, r.Shutdown(t.Context()))
	}
	f("missing", "storage: there is no extension missing")
	f("storage", "storage: the extension storage is not a storage extension")
}

func TestStartRejectsAMissingKubeconfig(t *testing.T) {
	cfg := podsConfig("")
	cfg.AuthType, cfg.APIServer, cfg.Kubeconfig = "kubeConfig", "", "testdata/no-such-file"
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	assert.ErrorContains(t, r.Start(t.Context(), componenttest.NewNopHost()), "testdata/no-such-file")
	require.NoError(t, r.Shutdown(t.Context()))
}

// The UID of the cluster is an optional lookup: no answer to it delays reading.
func TestReadingDoesNotWaitForTheClusterUID(t *testing.T) {
	f := func(name string, answer http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for the same three seconds
			server := newPodServer(t)
			server.clusterUID = answer
			sink := new(consumertest.LogsSink)
			r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), podsConfig(server.URL), sink)
			require.NoError(t, err)
			require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
			require.Eventually(t, func() bool { return len(recordsOf(sink)) == 2 }, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, r.Shutdown(t.Context()))
			_, ok := sink.AllLogs()[0].ResourceLogs().At(0).Resource().Attributes().Get("k8s.cluster.uid")
			assert.False(t, ok)
		})
	}
	f("hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, code := range []int{400, 401, 403, 404, 429, 500, 503} {
		f(fmt.Sprint(code), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	f("a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in</html>") })
	f("no UID", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
}

// There is no point in waiting for a server that refuses the UID.
func TestRefusedClusterUIDDelaysNothing(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			server := newPodServer(t)
			server.clusterUID = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
			}
			sink := new(consumertest.LogsSink)
			r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), podsConfig(server.URL), sink)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
			require.Eventually(t, func() bool { return len(recordsOf(sink)) == 2 }, 10*time.Second, 5*time.Millisecond)
			assert.Less(t, time.Since(began), clusterUIDWait)
			require.NoError(t, r.Shutdown(t.Context()))
		})
	}
}

// Records carry the UID as soon as it is known.
func TestClusterUIDThatIsKnownLater(t *testing.T) {
	server := newPodServer(t)
	asked := make(chan struct{}, 1)
	var once sync.Once
	server.clusterUID = func(w http.ResponseWriter, _ *http.Request) {
		first := false
		once.Do(func() { first = true })
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"metadata":{"uid":"uid-of-the-cluster"}}`)
		asked <- struct{}{}
	}
	sink := new(consumertest.LogsSink)
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), podsConfig(server.URL), sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	<-asked
	server.events <- fmt.Sprintf(`{"type":"DELETED","object":%s}`, pod("a", 8))
	require.Eventually(t, func() bool { return len(recordsOf(sink)) == 3 }, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, r.Shutdown(t.Context()))
	all := sink.AllLogs()
	uid, _ := all[len(all)-1].ResourceLogs().At(0).Resource().Attributes().Get("k8s.cluster.uid")
	assert.Equal(t, "uid-of-the-cluster", uid.Str())
}
