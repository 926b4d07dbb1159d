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

// Where nothing changes, a standby does not wait for the leader's next bookmark, which comes once a minute. What it knows is what
// the leader has emitted: if the history is gone when it takes over, it emits the deletions that it finds, and nothing else.
func TestReadinessOfAQuietCluster(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 20, harness.SmallPod)
	c.CreatePods(t, "deleted", 3, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, c)
	truth := etcd.Watch(t, "/registry/pods/")
	r := startReplicas(t, c, 1, kind{})
	leader := r.leader()
	leader.sink.Records.AwaitSnapshot(t, "pods", catchUp)
	r.awaitPublished()
	var standby *member
	for range 3 {
		before, _ := r.published()
		standby = r.add()
		standby.AwaitLog(t, "standby is ready to take over", 2*catchUp)
		after, _ := r.published()
		if before == after {
			break
		}
		t.Logf("the leader has read a bookmark meanwhile: it was at %s and is at %s", before, after)
		standby.stop(t)
		standby = nil
	}
	if standby == nil {
		t.Fatal("standbys were ready only when the leader had read a bookmark")
	}

	leader.kill(t)
	standby.proxy.Cut() // before it leads
	c.DeletePods(t, "deleted", 3)
	c.CreatePods(t, "added", 3, harness.SmallPod)
	etcd.CompactBehind(t, truth)
	c.RestartAPIServer(t)
	standby.proxy.Restore(t)
	r.awaitFold()
	report(t, "records were repeated", r.repeated())
	if n := len(harness.OfStream(r.records(), "pods", "k8s.snapshot.begin")); n != 1 {
		t.Errorf("%d sets of snapshots were emitted, want only that of the first leader", n)
	}
}
