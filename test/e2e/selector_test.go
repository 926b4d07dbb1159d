package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

const ourTeam = "team=web"

// An object that stops matching is emitted as deleted, one that begins to match as added, and changes outside the
// selection not at all: live, across relists, and if the history is gone.
func TestObjectsThatLeaveALabelSelector(t *testing.T) {
	t.Parallel()
	const each = 10
	s := modern.start(t)
	for _, prefix := range []string{"stay", "leave", "return", "hidden"} {
		s.CreatePods(t, prefix, each, podOf("web"))
	}
	for _, prefix := range []string{"outside", "enter"} {
		s.CreatePods(t, prefix, each, podOf("db"))
	}
	r := harness.StartReceiver(t, s.access+`
resources: [{name: pods, label_selector: team=web}]
relist: {interval: 1s}
`, nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	r.Records.AwaitFold(t, "pods", s.ListSelected(t, harness.Pods, ourTeam).State, 0)

	relabel(t, s, "leave", each, "db")
	relabel(t, s, "return", each, "db")
	relabel(t, s, "enter", each, "web")
	s.ChangePods(t, "outside", each)
	s.ChangePods(t, "leave", each) // no longer selected
	s.ChangePods(t, "stay", each)
	relabel(t, s, "return", each, "web")
	s.DeletePods(t, "leave", each)
	r.Records.AwaitFold(t, "pods", s.ListSelected(t, harness.Pods, ourTeam).State, catchUp)
	// A relist finds nothing that the stream has not delivered.
	seen := r.CompleteRelists(t)
	harness.Poll(t, 2*catchUp, "two relists", func() string {
		s.ChangePods(t, "stay", 1) // so that the stream soon passes each snapshot
		s.DeletePods(t, "stay", 1)
		s.CreatePods(t, "stay", 1, podOf("web"))
		if n := r.CompleteRelists(t); n < seen+2 {
			return fmt.Sprintf("%d are complete", n-seen)
		}
		return ""
	})
	r.Records.AwaitFold(t, "pods", s.ListSelected(t, harness.Pods, ourTeam).State, catchUp)
	requireNothingRecovered(t, r.Records.All())
	want := map[string]int{
		"leave DELETED live": each, "return DELETED live": each, "return ADDED live": each, "enter ADDED live": each,
	}
	got := map[string]int{}
	for _, record := range harness.Objects(r.Records.All(), "pods") {
		switch prefix := harness.Prefix(record.Name); {
		case prefix == "stay" || record.Origin == "initial":
		default:
			got[fmt.Sprintf("%s %s %s", prefix, record.Type, record.Origin)]++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("records: %v, want %v", got, want)
	}

	// The same in a gap.
	s.proxy.Cut()
	relabel(t, s, "hidden", each, "db")
	relabel(t, s, "outside", each, "web")
	s.RestartAPIServer(t)
	listed := s.ListSelected(t, harness.Pods, ourTeam).State
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, "pods", listed, catchUp)
	objects := harness.Objects(r.Records.All(), "pods")
	requireOnceAndInOrder(t, objects)
	if n := inferredDeletions(objects, "hidden"); n != each {
		t.Errorf("%d objects that left in the gap are inferred to be deleted, want %d", n, each)
	}
}

func inferredDeletions(records []fold.Record, prefix string) int {
	n := 0
	for _, record := range records {
		if record.Type == "DELETED" && record.Inferred && harness.Prefix(record.Name) == prefix {
			n++
		}
	}
	return n
}

func podOf(team string) func(name string) *corev1.Pod {
	return func(name string) *corev1.Pod {
		pod := harness.SmallPod(name)
		pod.Labels["team"] = team
		return pod
	}
}

func relabel(t *testing.T, s *site, prefix string, n int, team string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"team":%q}}}`, team)
	harness.EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		_, err := s.Client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// If the field selector of a list of all namespaces requires one, kube-apiserver 1.37.2 answers the second page without any
// object whose name sorts after that of the namespace. Such objects have to be read all the same, and none of them may seem to
// be gone in a relist.
func TestNamespaceInAFieldSelectorWithoutWatchList(t *testing.T) {
	t.Parallel()
	const pods = 600 // in two pages
	s := withoutWatchList.start(t)
	s.CreatePods(t, "here", pods, podOf("web"))
	r := harness.StartReceiver(t, s.access+`
resources: [{name: pods, field_selector: metadata.namespace=default}]
relist: {interval: 1s}
`, nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	r.Records.AwaitFold(t, "pods", s.List(t, harness.Pods).State, 0)

	seen := r.CompleteRelists(t)
	harness.Poll(t, 2*catchUp, "a relist", func() string {
		s.ChangePods(t, "here", 1) // so that the stream soon passes the snapshot
		if n := r.CompleteRelists(t); n == seen {
			return "none is complete"
		}
		return ""
	})
	r.Records.AwaitFold(t, "pods", s.List(t, harness.Pods).State, catchUp)
	requireNothingRecovered(t, r.Records.All())
	r.Shutdown(t)
}
