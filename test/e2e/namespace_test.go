package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// Every object of a deleted namespace is emitted as deleted, once, and so is the namespace. There is no namespace
// controller here, so the test does its work: it deletes the collections and then finalizes.
func TestNamespaceDeletedWith1000Objects(t *testing.T) {
	t.Parallel()
	const doomed = "doomed"
	s := modern.start(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomed}}
	if _, err := s.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.EachOf(t, "config", 600, func(ctx context.Context, name string) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"mode": "plain"}}
		_, err := s.Client.CoreV1().ConfigMaps(doomed).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	harness.EachOf(t, "pod", 400, func(ctx context.Context, name string) error {
		_, err := s.Client.CoreV1().Pods(doomed).Create(ctx, harness.SmallPod(name), metav1.CreateOptions{})
		return err
	})
	s.CreatePods(t, "kept", 10, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, s.Cluster)
	truths := map[schema.GroupVersionResource]*harness.Truth{}
	for _, resource := range []schema.GroupVersionResource{namespaces, configMaps, harness.Pods} {
		truths[resource] = etcd.Watch(t, "/registry/"+resource.Resource+"/")
	}
	r := harness.StartReceiver(t, s.access+"resources: [{name: namespaces}, {name: configmaps}, {name: pods}]", nil)
	from := map[schema.GroupVersionResource]string{}
	for resource := range truths {
		from[resource] = r.Records.AwaitSnapshot(t, resource.Resource, catchUp)
	}

	deleteNamespace(t, s.Cluster, doomed)
	deleted := 0
	for resource, truth := range truths {
		listed := s.List(t, resource)
		r.Records.AwaitFold(t, resource.Resource, listed.State, catchUp)
		objects := harness.Objects(r.Records.All(), resource.Resource)
		requireOnceAndInOrder(t, objects)
		report(t, "events of etcd were not emitted", harness.NotEmitted(truth.Between(t, from[resource], listed.ResourceVersion), objects))
		deleted += liveDeletions(objects)
	}
	requireNothingRecovered(t, r.Records.All())
	if want := 600 + 400 + 1; deleted != want {
		t.Errorf("%d objects were emitted as deleted, want %d", deleted, want)
	}
}

func deleteNamespace(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	must(c.Client.CoreV1().ConfigMaps(name).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(c.Client.CoreV1().Pods(name).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	namespace, err := c.Client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	must(err)
	namespace.Spec.Finalizers = nil
	_, err = c.Client.CoreV1().Namespaces().Finalize(t.Context(), namespace, metav1.UpdateOptions{})
	must(err)
}

func liveDeletions(records []fold.Record) int {
	n := 0
	for _, record := range records {
		if record.Type == "DELETED" && record.Origin == "live" {
			n++
		}
	}
	return n
}
