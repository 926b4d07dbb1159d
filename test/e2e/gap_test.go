package e2e

import (
	"fmt"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

func TestCompactionGap(t *testing.T) {
	t.Parallel()
	compactionGap(t, modern, 500, 50)
}

func TestCompactionGapWithoutWatchList(t *testing.T) {
	t.Parallel()
	compactionGap(t, withoutWatchList, 300, 10)
}

func TestCompactionGapWithoutEndMarker(t *testing.T) {
	t.Parallel()
	compactionGap(t, withoutMarker, 300, 10)
}

// compactionGap checks that changes during a cut, whose history the server no longer has, are emitted as net
// differences, once each, with one gap record.
//
// Compacting etcd is not enough for that: the API server serves a watch from its own cache of recent changes, which
// holds at least 75 seconds and 100 events. A restart of the API server empties it.
func compactionGap(t *testing.T, kind server, pods, each int) {
	s := kind.start(t)
	s.CreatePods(t, "kept", pods-2*each, harness.SmallPod)
	s.CreatePods(t, "changed", each, harness.SmallPod)
	s.CreatePods(t, "deleted", each, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, s.Cluster)
	r := harness.StartReceiver(t, s.access+"resources: [{name: pods}]", nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	s.CreatePods(t, "live", 1, harness.SmallPod)
	last := r.Records.AwaitObject(t, "pods", "live-00000", "ADDED", catchUp)
	mark := r.Records.Len()

	s.proxy.Cut()
	s.DeletePods(t, "deleted", each)
	s.ChangePods(t, "changed", each)
	s.CreatePods(t, "added", each, harness.SmallPod)
	etcd.Compact(t)
	s.RestartAPIServer(t)
	if err := s.WatchPodsFrom(t, last.ResourceVersion); err == nil {
		t.Fatalf("the server still has the history since %s", last.ResourceVersion)
	}
	listed := s.List(t, harness.Pods)
	s.proxy.Restore(t)

	r.Records.AwaitFold(t, "pods", listed.State, catchUp)
	// The gap record is the last one of the recovery, and what follows is live again.
	s.CreatePods(t, "after", 1, harness.SmallPod)
	r.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)

	records := r.Records.After(mark)
	requireOnceAndInOrder(t, harness.Objects(r.Records.All(), "pods"))
	counts := map[string]int{}
	for _, record := range records {
		counts[summary(record)]++
	}
	want := map[string]int{
		"DELETED recovered inferred deleted": each,
		"MODIFIED recovered changed":         each,
		"ADDED recovered added":              each,
		fmt.Sprintf("k8s.watch.gap expired from %s: %d added, %d modified, %d deleted", last.ResourceVersion, each, each, each): 1,
		"ADDED live after": 1,
	}
	for what, n := range want {
		if counts[what] != n {
			t.Errorf("%d records are %q, want %d", counts[what], what, n)
		}
		delete(counts, what)
	}
	for what, n := range counts {
		t.Errorf("%d records are %q, want none", n, what)
	}
	requireWayOf(t, kind, s, r)
}

// summary returns what similar records have in common: for objects, the beginning of the name.
func summary(r harness.Record) string {
	if r.Object == nil {
		return fmt.Sprintf("%s %v from %v: %v added, %v modified, %v deleted", r.Event, r.Stream["k8s.gap.reason"],
			r.Stream["k8s.gap.from_resource_version"],
			r.Stream["k8s.gap.added"], r.Stream["k8s.gap.modified"], r.Stream["k8s.gap.deleted"])
	}
	inferred := ""
	if r.Object.Inferred {
		inferred = " inferred"
	}
	return fmt.Sprintf("%s %s%s %s", r.Object.Type, r.Object.Origin, inferred, harness.Prefix(r.Object.Name))
}
