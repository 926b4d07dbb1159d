package k8swatchlistreceiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

// The Collector takes a receiver that has reported nothing when Start returns for one that is well. A readiness probe must not
// find a standby well before it is ready, not even for a moment: a rolling update would go on.
func TestStandbyIsNotReadyFromTheStart(t *testing.T) {
	cfg := podsConfig(newPodServer(t).URL)
	cfg.LeaderElection.Enabled, cfg.LeaderElection.LeaseNamespace = true, "observability"
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	host := &statusHost{Host: componenttest.NewNopHost()}
	require.NoError(t, r.Start(t.Context(), host))
	status := host.last()
	require.NoError(t, r.Shutdown(context.Background()))
	require.NotNil(t, status, "nothing is reported")
	assert.Equal(t, componentstatus.StatusRecoverableError, status.Status())
	assert.ErrorIs(t, status.Err(), errNotReady)
}

// leaseServer serves Leases of one namespace, and for the rest asks a podServer.
type leaseServer struct {
	pods *podServer

	mu      sync.Mutex
	version int
	leases  map[string]map[string]any
}

func startLeaseServer(t *testing.T) (url string, pods *podServer) {
	t.Helper()
	pods = newPodServer(t)
	server := httptest.NewServer(&leaseServer{pods: pods, leases: make(map[string]map[string]any)})
	t.Cleanup(server.Close)
	return server.URL, pods
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/observability/leases")
	if !ok {
		s.pods.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})
	}
	name = strings.TrimPrefix(name, "/")
	if r.Method != http.MethodGet {
		var lease map[string]any
		if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
			refuse(http.StatusBadRequest, "BadRequest")
			return
		}
		meta := lease["metadata"].(map[string]any)
		if r.Method == http.MethodPost {
			name = meta["name"].(string)
		}
		if current := s.leases[name]; (current != nil) != (r.Method == http.MethodPut) ||
			current != nil && current["metadata"].(map[string]any)["resourceVersion"] != meta["resourceVersion"] {
			refuse(http.StatusConflict, "Conflict")
			return
		}
		s.version++
		meta["resourceVersion"] = strconv.Itoa(s.version)
		s.leases[name] = lease
	}
	if s.leases[name] == nil {
		refuse(http.StatusNotFound, "NotFound")
		return
	}
	_ = json.NewEncoder(w).Encode(s.leases[name])
}

// startedReplica is one of several receivers.
type startedReplica struct {
	receiver.Logs
	logs      *observer.ObservedLogs
	telemetry *componenttest.Telemetry
}

func startReplica(t *testing.T, url, identity string, next consumer.Logs) startedReplica {
	t.Helper()
	cfg := podsConfig(url)
	cfg.LeaderElection = LeaderElectionConfig{Enabled: true, LeaseNamespace: "observability", Identity: identity,
		LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond}
	cfg.Standby.PublishInterval = 100 * time.Millisecond
	telemetry := componenttest.NewTelemetry()
	core, logs := observer.New(zapcore.InfoLevel)
	set := receivertest.NewNopSettings(metadata.Type)
	set.ID, set.TelemetrySettings = component.NewID(metadata.Type), telemetry.NewTelemetrySettings()
	set.Logger = zap.New(core)
	r, err := NewFactory().CreateLogs(t.Context(), set, cfg, next)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	return startedReplica{r, logs, telemetry}
}

// await waits for an entry of the log.
func (r startedReplica) await(t *testing.T, message string) observer.LoggedEntry {
	t.Helper()
	require.Eventually(t, func() bool { return r.logs.FilterMessage(message).Len() > 0 }, 20*time.Second, 5*time.Millisecond, message)
	return r.logs.FilterMessage(message).All()[0]
}

// withoutEnds is a consumer that refuses the ends of sets permanently.
type withoutEnds struct{ consumertest.LogsSink }

func (c *withoutEnds) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	if slices.Contains(eventNames(logs), "k8s.snapshot.end") {
		return consumererror.NewPermanent(errors.New("refused"))
	}
	return c.LogsSink.ConsumeLogs(ctx, logs)
}

func eventNames(all ...plog.Logs) (names []string) {
	for _, logs := range all {
		for _, record := range logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
			names = append(names, record.EventName())
		}
	}
	return names
}

// The end of the initial state was refused, so that nobody can tell that its set is whole. Live records are accepted after it, and
// whoever takes over emits the initial state again all the same.
func TestTakeoverAfterTheEndOfASetWasRefused(t *testing.T) {
	url, pods := startLeaseServer(t)
	backend, other := new(withoutEnds), new(consumertest.LogsSink)
	first := startReplica(t, url, "first", backend)
	first.await(t, "this replica leads")
	waitForRecords(t, &backend.LogsSink, 2)
	require.Eventually(t, func() bool { // again, since the stream of the session before may have taken it
		select {
		case pods.events <- fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, pod("a", 8)):
		default:
		}
		return len(recordsOf(&backend.LogsSink)) > 2
	}, 10*time.Second, 5*time.Millisecond)
	second := startReplica(t, url, "second", other)
	require.NoError(t, first.Shutdown(context.Background()))

	said := second.await(t, "this replica leads").ContextMap()
	assert.Equal(t, []any{int64(0), int64(1)}, []any{said["continued"], said["anew"]})
	set := []string{"k8s.snapshot.begin", "k8s.object.snapshot", "k8s.object.snapshot", "k8s.watch.gap", "k8s.snapshot.end"}
	require.Eventually(t, func() bool { return len(eventNames(other.AllLogs()...)) >= len(set) }, 10*time.Second, 5*time.Millisecond)
	got := eventNames(other.AllLogs()...)
	assert.Equal(t, set, got[:len(set)])
	require.NoError(t, second.Shutdown(context.Background()))
	for _, r := range []startedReplica{first, second} {
		require.NoError(t, r.telemetry.Shutdown(context.Background()))
	}
}

// A log entry and a span show how long a takeover took, and how many readers continue from a position.
func TestTakeoverIsToldOf(t *testing.T) {
	url, _ := startLeaseServer(t)
	first := startReplica(t, url, "first", consumertest.NewNop())
	first.await(t, "this replica leads")
	second := startReplica(t, url, "second", consumertest.NewNop())
	second.await(t, "standby is ready to take over")
	require.NoError(t, first.Shutdown(context.Background()))

	said := second.await(t, "this replica leads").ContextMap()
	assert.Equal(t, int64(2), said["term"])
	assert.Regexp(t, "^first_", said["previous"])
	assert.Equal(t, []any{int64(1), int64(1), int64(1), int64(0)}, []any{said["ready"], said["of"], said["continued"], said["anew"]})
	assert.Greater(t, said["took"], time.Duration(0))
	require.NoError(t, second.Shutdown(context.Background()))

	var spans []sdktrace.ReadOnlySpan
	for _, span := range second.telemetry.SpanRecorder.Ended() {
		if span.Name() == spanTakeover {
			spans = append(spans, span)
		}
	}
	require.Len(t, spans, 1)
	got := make(map[string]any)
	for _, a := range spans[0].Attributes() {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	assert.Equal(t, map[string]any{
		"receiver": "k8s_watchlist", "identity": said["identity"], "previous": said["previous"],
		"term": int64(2), "continued": int64(1), "anew": int64(0), "outcome": "complete",
	}, got)
	for _, r := range []startedReplica{first, second} {
		assert.Len(t, r.telemetry.SpanRecorder.Ended(), len(r.telemetry.SpanRecorder.Started()))
		require.NoError(t, r.telemetry.Shutdown(context.Background()))
	}
}
