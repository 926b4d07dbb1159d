package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// probed returns the configuration of a Collector that answers health probes.
func probed(receiver string, sink *harness.Sink, address string) string {
	return toSink(receiver, sink, "sending_queue: {enabled: false}\nretry_on_failure: {enabled: false}", `
extensions:
  health_check: `+harness.HealthCheck(address)+`
service:
  extensions: [health_check]
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [otlp_grpc]}
  telemetry:
    logs: {level: debug}
    metrics: {level: none}
`)
}

// awaitProbe waits until a replica answers a readiness probe with a code.
func awaitProbe(t *testing.T, m *member, code int) {
	t.Helper()
	harness.Poll(t, 2*catchUp, "the readiness of "+m.name, func() string {
		if got := harness.Probe(t, m.health); got != code {
			return fmt.Sprintf("%s answers %d, want %d: %+v", m.name, got, code, harness.ReadHealth(t, m.health))
		}
		return ""
	})
}

// A readiness probe finds a standby unwell until it is ready to take over, so that a rolling update waits for it. The leader is
// ready, and so is a standby that reads nothing before it leads.
func TestReadiness(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 20, harness.SmallPod)
	r := startReplicas(t, c, 1, kind{probed: true})
	leader := r.leader()
	awaitProbe(t, leader, http.StatusOK)

	r.kind.isolated = true
	standby := r.add()
	r.kind.isolated = false
	awaitProbe(t, standby, http.StatusInternalServerError)
	if h := harness.ReadHealth(t, standby.health); !strings.Contains(fmt.Sprintf("%+v", h), "does not know yet what was emitted") {
		t.Errorf("the status of a standby that is not ready is %+v", h)
	}
	standby.proxy.Restore(t)
	awaitProbe(t, standby, http.StatusOK)
	standby.AwaitLog(t, "standby is ready to take over", catchUp)

	leader.stop(t)
	if now, _ := r.next(leader); now != standby {
		t.Fatalf("%s leads", now.name)
	}
	awaitProbe(t, standby, http.StatusOK)

	r.kind.more = "standby: {mode: cold}\n"
	cold := r.add()
	awaitProbe(t, cold, http.StatusOK)
	if leads(cold) {
		t.Error("the cold standby leads")
	}
}
