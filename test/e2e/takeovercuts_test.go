package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// renewed returns when the holder of the Lease last renewed it.
func (r *replicas) renewed() time.Time {
	r.t.Helper()
	lease, err := r.cluster.Client.CoordinationV1().Leases("default").Get(r.t.Context(), electionLease, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}

// The leader cannot reach its backend for longer than a Lease lasts: it goes on to lead, and emits later. Then nobody can reach
// the API server, for as long: nobody emits what is left in a queue, and later one replica leads.
func TestReplicasWithoutConnections(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	x := startTakeovers(t, 2, kind{})
	leader := x.leader()
	leader.sink.Refuse(errors.New("unreachable"))
	leader.sink.AwaitCalls(t, 1, catchUp)
	began := time.Now()
	harness.Poll(t, catchUp, "the leader to renew its Lease", func() string {
		if after := x.renewed().Sub(began); after < lease {
			return fmt.Sprintf("it was renewed %s after the cut", after)
		}
		return ""
	})
	if now := x.holder(); now != leader {
		t.Fatalf("%s leads although the leader lacks only its backend", now.name)
	}
	leader.sink.Accept()
	x.cluster.CreatePods(t, "reachable", 1, harness.SmallPod)
	leader.sink.Records.AwaitObject(t, "pods", "reachable-00000", "ADDED", catchUp)
	x.awaitPublished() // or everything that has waited would be repeated
	report(t, "records were repeated although the backend refused them only", x.repeated())

	leader.sink.Refuse(errors.New("unreachable"))
	leader.sink.AwaitCalls(t, 1, catchUp)
	for _, m := range x.all {
		m.proxy.Cut()
	}
	last := x.renewed()
	leader.AwaitLog(t, "this replica no longer leads", catchUp)
	leader.sink.Accept()
	before := len(x.records())
	harness.Poll(t, catchUp, "the end of the Lease", func() string {
		if ago := time.Since(last); ago < lease+2*time.Second { // of which the others would take note
			return fmt.Sprintf("it was renewed %s ago", ago)
		}
		return ""
	})
	if n := len(x.records()) - before; n > 0 {
		t.Errorf("%d records were emitted although nobody could prove to lead", n)
	}
	for _, m := range x.all {
		m.proxy.Restore(t)
	}
	restored := time.Now()
	x.holder()
	t.Logf("a replica leads %s after the API server is back", time.Since(restored).Round(time.Millisecond))
	x.awaitReady()
	repeated := x.finish()
	t.Logf("%d of %d records are repeated", len(repeated), len(x.objects()))
	requireNothingRecovered(t, x.records())
}

// The pipeline of the leader blocks for longer than a Lease lasts: it goes on to lead, and the standbys hold what it has not emitted.
// Then everything is emitted once. E2E_BLOCKED is for how many seconds.
func TestTakeoverWhileThePipelineBlocks(t *testing.T) {
	t.Parallel()
	blocked := time.Duration(fromEnvironment("E2E_BLOCKED", 15)) * time.Second
	x := startTakeovers(t, 3, kind{})
	leader := x.leader()
	x.awaitPublished()
	leader.sink.Block()
	leader.sink.AwaitCalls(t, 1, catchUp)
	emitted, changes, began := leader.sink.Records.Len(), len(x.truth.All()), time.Now()
	harness.Poll(t, blocked+catchUp, "the time for which the pipeline blocks", func() string {
		if now := x.holder(); now != leader {
			t.Fatalf("%s leads although the leader has no step_down_after", now.name)
		}
		if left := blocked - time.Since(began); left > 0 {
			return left.String()
		}
		return ""
	})
	if n := leader.sink.Records.Len() - emitted; n > 0 {
		t.Fatalf("%d records were emitted by a pipeline that blocks", n)
	}
	changes = len(x.truth.All()) - changes
	leader.sink.AwaitCalls(t, 1, catchUp) // so that the call which is let through does not end by its timeout
	leader.sink.Accept()
	report(t, "records were repeated", x.finish())
	if now := x.holder(); now != leader {
		t.Errorf("%s leads", now.name)
	}
	x.awaitReady()
	requireNothingRecovered(t, x.records())
	var most int64
	for _, m := range x.all {
		if m != leader {
			most = max(most, harness.UsageOf(t, m.PID()).PeakResident)
		}
	}
	t.Logf("the standbys have taken at most %d MiB for %d changes that waited for %s", most>>20, changes, blocked)
	if limit := int64(256 << 20); most > limit {
		t.Errorf("a standby has taken %d bytes, want at most %d", most, limit)
	}
}

// The leader is killed in the middle of its initial state, which comes over a slow network. Another replica emits it again.
func TestTakeoverDuringInitialState(t *testing.T) {
	t.Parallel()
	const pods = 4000
	c := harness.StartCluster(t, controlplane.Options{})
	etcd := harness.ConnectEtcd(t, c)
	etcd.PlantPods(t, c, "kept", pods, harness.SmallPod)
	x := &replicas{t: t, cluster: c}
	first := x.add()
	first.proxy.Afflict(t, harness.Slow(10, 400)...)
	first.sink.Records.Await(t, catchUp, "a part of the initial state", func(records []harness.Record) string {
		if len(records) < pods/4 {
			return fmt.Sprintf("%d records have arrived", len(records))
		}
		return ""
	})
	second := x.add()
	harness.Poll(t, catchUp, "the standby", func() string {
		if len(second.LogLines("standby is ready")) == 0 {
			return "it is not ready"
		}
		return ""
	})
	first.kill(t)
	killed := time.Now()
	emitted := harness.Objects(first.sink.Records.All(), "pods")
	if len(emitted) >= pods {
		t.Fatalf("the initial state was complete")
	}
	c.CreatePods(t, "meanwhile", 20, harness.SmallPod)
	second.sink.Records.AwaitSnapshot(t, "pods", 2*catchUp)
	t.Logf("the initial state is complete %s after the kill, in whose middle %d of %d objects had been emitted", time.Since(killed).Round(time.Millisecond), len(emitted), pods)
	c.CreatePods(t, "after", 1, harness.SmallPod)
	second.sink.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	x.awaitFold()
	if n := len(x.repeated()); n != len(emitted) {
		t.Errorf("%d records are repeated, want the %d of the initial state that was not complete", n, len(emitted))
	}
	if n := len(harness.Objects(second.sink.Records.All(), "pods")); n != pods+1+20+1 { // PlantPods has a template
		t.Errorf("the second replica emitted %d records, want each object once", n)
	}
	requireNothingRecovered(t, x.records())
}
