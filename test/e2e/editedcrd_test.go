package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// When the spec of a CRD is edited, the API server ends the watches of its objects and discards their history. A
// receiver that is watching at that moment misses nothing. One that is cut off does: a gap record names the lost
// history.
func TestEditedCRDSpecResetsTheHistory(t *testing.T) {
	t.Parallel()
	const objects, edits = 20, 3
	const resource = "widgets.example.com"
	s := modern.start(t)
	defineWidgets(t, s.Cluster)
	for i := range objects {
		createWidget(t, s.Cluster, fmt.Sprintf("widget-%05d", i))
	}
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/example.com/widgets/")
	r := harness.StartReceiver(t, s.access+"resources: [{name: widgets.example.com}]", nil)
	from := r.Records.AwaitSnapshot(t, resource, discovery)

	for edit := range edits {
		changeWidgets(t, s.Cluster, objects, fmt.Sprint("before ", edit))
		var editing sync.WaitGroup
		editing.Go(func() { editDefinition(t, s.Cluster, edit) })
		changeWidgets(t, s.Cluster, objects, fmt.Sprint("during ", edit))
		editing.Wait()
		changeWidgets(t, s.Cluster, objects, fmt.Sprint("after ", edit))
		r.Records.AwaitFold(t, resource, s.List(t, widgets).State, catchUp)
		harness.Poll(t, catchUp, "the API server to end the watch", func() string {
			if n := r.Opened(t, "resume"); n < int64(edit)+1 {
				return fmt.Sprintf("it was resumed %d times", n)
			}
			return ""
		})
	}

	s.proxy.Cut()
	changeWidgets(t, s.Cluster, objects, "before the edit, unseen")
	editDefinition(t, s.Cluster, edits)
	changeWidgets(t, s.Cluster, objects, "after the edit, unseen")
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, resource, s.List(t, widgets).State, catchUp)
	createWidget(t, s.Cluster, "last")
	r.Records.AwaitObject(t, resource, "last", "ADDED", catchUp)

	listed := s.List(t, widgets)
	records := r.Records.All()
	requireOnceAndInOrder(t, harness.Objects(records, resource))
	report(t, "events of etcd were lost silently", harness.NotAccountedFor(t, truth.Between(t, from, listed.ResourceVersion), records, resource))
	gaps := harness.OfStream(records, resource, "k8s.watch.gap")
	t.Logf("%d edits, %d gaps: %v", edits, len(gaps), gaps)
	if len(gaps) == 0 {
		t.Error("there was no gap: the history was not reset")
	}
	for _, gap := range gaps {
		if gap.Stream["k8s.gap.reason"] != "expired" {
			t.Errorf("a gap of another reason: %v", gap)
		}
	}
}

// changeWidgets changes each of them, and retries while the API server recreates their storage.
func changeWidgets(t *testing.T, c *harness.Cluster, n int, note string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"note":%q}}`, note)
	harness.EachOf(t, "widget", n, func(ctx context.Context, name string) error {
		var err error
		for range 50 {
			if _, err = c.Dynamic.Resource(widgets).Namespace("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
				break
			}
		}
		return err
	})
}

func editDefinition(t *testing.T, c *harness.Cluster, edit int) {
	patch := fmt.Appendf(nil, `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"edit %d"}]`, edit)
	if _, err := c.Dynamic.Resource(definitions).Patch(t.Context(), "widgets.example.com", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Errorf("cannot edit the definition: %v", err)
	}
}
