package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// Neither data nor an end arrives any longer, as after a firewall has dropped the connection's state. HTTP/2 pings
// detect that after 45 seconds; an environment variable reduces that to three, and the pings are real. Without HTTP/2
// the reader's own limit of 150 seconds detects it, as in the scenario silent-stream-is-replaced.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	s := modern.start(t)
	for _, prefix := range []string{"kept", "changed", "deleted"} {
		s.CreatePods(t, prefix, 10, harness.SmallPod)
	}
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	collector := harness.StartCollectorIn(t, []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=1"},
		toFile(s.access+"resources: [{name: pods}]"))
	from := collector.Records.AwaitSnapshot(t, "pods", catchUp)

	s.proxy.Afflict(t, harness.HalfOpen...)
	s.DeletePods(t, "deleted", 10)
	s.ChangePods(t, "changed", 10)
	s.CreatePods(t, "added", 10, harness.SmallPod)
	began := time.Now()
	collector.AwaitLog(t, "cannot read resource", catchUp) // a new connection was tried, and hangs too
	t.Logf("noticed after %s", time.Since(began).Round(time.Second))
	s.proxy.Heal(t)

	requireEveryEvent(t, s.Cluster, &collector.Records, truth, from)
}

// The API server asks its clients to leave a connection, with an HTTP/2 GOAWAY in one of fifty answers, as several of
// them do behind a load balancer. The test checks that the Collector's own connections receive it.
func TestGoaway(t *testing.T) {
	t.Parallel()
	const wanted = 3
	s := server{options: controlplane.Options{APIServerArgs: []string{"--goaway-chance=0.02"}}}.start(t)
	s.CreatePods(t, "first", 50, harness.SmallPod)
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	// Streams are opened all the time, on connections of their own, and continue on those that the server has asked to
	// leave.
	collector := harness.StartCollectorIn(t, []string{"GODEBUG=http2debug=1"}, toFile(s.access+`
kube_api_qps: 100
kube_api_burst: 100
resources: [{name: pods}]
relist: {interval: 100ms, rotate_interval: 100ms}
`), "--feature-gates="+harness.ShortRelistGate)
	from := collector.Records.AwaitSnapshot(t, "pods", catchUp)

	goaways := func() int { return strings.Count(collector.Log(), "Transport received GOAWAY") }
	writer := harness.NewWriter(t, s.Cluster)
	deadline := time.Now().Add(2 * catchUp)
	done := writer.Write(t, func(o harness.Operations) bool {
		return o.Total()%100 == 0 && goaways() >= wanted || time.Now().After(deadline)
	})
	writer.Write(t, harness.Times(100))

	collector.Records.AwaitFold(t, "pods", s.List(t, harness.Pods).State, catchUp)
	collector.Interrupt(t)
	requireEveryEvent(t, s.Cluster, &collector.Records, truth, from)
	t.Logf("%d GOAWAY frames while there were %d changes", goaways(), done.Total())
	if n := goaways(); n < wanted {
		t.Errorf("%d GOAWAY frames arrived, want at least %d", n, wanted)
	}
}
