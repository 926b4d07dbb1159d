package e2e

import (
	"path/filepath"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/etcdrestore"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// etcd is set back, with its revisions bumped and marked as compacted, as its documentation recommends for Kubernetes.
// The server's versions only grow, but every change since the copy is undone. The restored states are emitted as
// differences, with a gap that gives the reason.
func TestEtcdRestoredWithBumpedRevisions(t *testing.T) {
	t.Parallel()
	const each = 10
	s := modern.start(t)
	for _, prefix := range []string{"kept", "changed", "deleted"} {
		s.CreatePods(t, prefix, each, harness.SmallPod)
	}
	r := harness.StartReceiver(t, s.access+"resources: [{name: pods}]", nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	saved := filepath.Join(t.TempDir(), "etcd.db")
	etcdrestore.Save(t, s.Cluster, saved)

	s.ChangePods(t, "changed", each)
	s.DeletePods(t, "deleted", each)
	s.CreatePods(t, "undone", each, harness.SmallPod)
	r.Records.AwaitFold(t, "pods", s.List(t, harness.Pods).State, catchUp)
	mark := r.Records.Len()

	if err := s.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	etcdrestore.Restore(t, s.Cluster, saved)
	s.BringUpAPIServer(t)
	r.Records.AwaitFold(t, "pods", s.List(t, harness.Pods).State, 2*catchUp)
	s.CreatePods(t, "after", 1, harness.SmallPod)
	r.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)

	counts := map[string]int{}
	for _, record := range r.Records.After(mark) {
		if record.Object == nil {
			counts[record.Event+" "+record.Stream["k8s.gap.reason"].(string)]++
			continue
		}
		counts[summary(record)]++
	}
	want := map[string]int{
		"MODIFIED recovered changed":        each,
		"ADDED recovered deleted":           each,
		"DELETED recovered inferred undone": each,
		"k8s.watch.gap history_reset":       1,
		"ADDED live after":                  1,
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
}
