package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// A missed deletion is found from the metadata alone; a missed object is then fetched by a second relist. The API
// server sends the metadata as protobuf, for built-in resources, custom ones and Events, which it serves without its
// cache.
func TestRelistFindsWhatTheWatchMissed(t *testing.T) {
	t.Parallel()
	s := concealing.start(t)
	defineWidgets(t, s.Cluster)
	createWidget(t, s.Cluster, "first") // waits until they are served
	kinds := []struct {
		resource schema.GroupVersionResource
		path     string
		manifest map[string]any
	}{
		{harness.Pods, "/api/v1/pods", map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"spec": map[string]any{
				"terminationGracePeriodSeconds": int64(0), // there is no kubelet to end it
				"containers":                    []any{map[string]any{"name": "c", "image": "registry.example.com/web:1"}},
			},
		}},
		{widgets, "/apis/example.com/v1/widgets", map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}},
		{schema.GroupVersionResource{Version: "v1", Resource: "events"}, "/api/v1/events", map[string]any{
			"apiVersion": "v1", "kind": "Event", "reason": "Tested", "type": "Normal", "message": "a test",
			"involvedObject": map[string]any{"kind": "Pod", "namespace": "default", "name": "first"},
		}},
	}
	create := func(name string) {
		t.Helper()
		for _, kind := range kinds {
			object := (&unstructured.Unstructured{Object: kind.manifest}).DeepCopy()
			object.SetName(name)
			if _, err := s.Dynamic.Resource(kind.resource).Namespace("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	create("unseen-old")
	r := harness.StartReceiver(t, s.access+`
resources: [{name: pods}, {name: widgets.example.com}, {name: events}]
events: {deleted: true}
relist: {interval: 1s}
`, nil)
	for _, kind := range kinds {
		r.Records.AwaitSnapshot(t, harness.Name(kind.resource), catchUp)
	}
	seen := 0
	// awaitRecovered waits until each resource has a record of the object. Other changes in the meantime move the
	// watches past the compared snapshots.
	awaitRecovered := func(name, changeType string) {
		t.Helper()
		harness.Poll(t, 2*catchUp, fmt.Sprintf("%s to be found %s", name, changeType), func() string {
			for _, kind := range kinds {
				found := false
				for _, record := range harness.Objects(r.Records.All(), harness.Name(kind.resource)) {
					found = found || record.Name == name && record.Type == changeType && record.Origin == "recovered"
				}
				if !found {
					create(fmt.Sprintf("seen-%05d", seen))
					seen++
					return kind.resource.Resource + " lack it"
				}
			}
			return ""
		})
	}

	for _, kind := range kinds {
		if err := s.Dynamic.Resource(kind.resource).Namespace("default").Delete(t.Context(), "unseen-old", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitRecovered("unseen-old", "DELETED")
	create("unseen-new")
	awaitRecovered("unseen-new", "ADDED")

	for _, kind := range kinds {
		name := harness.Name(kind.resource)
		r.Records.AwaitFold(t, name, s.List(t, kind.resource).State, catchUp)
		requireOnceAndInOrder(t, harness.Objects(r.Records.All(), name))
		answers := s.middleman.MetadataAnswers(kind.path)
		t.Logf("%s: %d answers with metadata", name, len(answers))
		if len(answers) == 0 {
			t.Errorf("the metadata of %s was never requested", name)
		}
		for _, contentType := range answers {
			if contentType != "application/vnd.kubernetes.protobuf;stream=watch" {
				t.Errorf("the metadata of %s came as %s", name, contentType)
			}
		}
	}
}
