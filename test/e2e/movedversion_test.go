package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// A CRD moves from v1alpha1 to v1, serving both in between, while its objects change. The receiver follows, emits
// nothing twice, and loses nothing silently.
func TestAPIVersionMoves(t *testing.T) {
	t.Parallel()
	const objects = 10
	const resource = "movers.example.com"
	c := harness.StartCluster(t, modern.options)
	old, next := schema.GroupVersionResource{Group: "example.com", Version: "v1alpha1", Resource: "movers"}, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "movers"}
	version := func(name string, served, storage bool) map[string]any {
		return map[string]any{
			"name": name, "served": served, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": resource},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names":    map[string]any{"plural": "movers", "singular": "mover", "kind": "Mover", "listKind": "MoverList"},
			"versions": []any{version("v1alpha1", true, true)},
		},
	}}
	if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitServed(t, c, old)
	for i := range objects {
		mover := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1alpha1", "kind": "Mover", "metadata": map[string]any{"name": fmt.Sprintf("mover-%05d", i)},
		}}
		if _, err := c.Dynamic.Resource(old).Namespace("default").Create(t.Context(), mover, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	truth := harness.ConnectEtcd(t, c).Watch(t, "/registry/example.com/movers/")
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+"resources: [{name: movers.example.com}]", nil)
	from := r.Records.AwaitSnapshot(t, resource, discovery)

	change := func(served schema.GroupVersionResource, note string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"note":%q}}`, note)
		harness.EachOf(t, "mover", objects, func(ctx context.Context, name string) error {
			var err error
			for range 50 { // while the API server recreates their storage
				if _, err = c.Dynamic.Resource(served).Namespace("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
					break
				}
			}
			return err
		})
	}
	define := func(versions ...any) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Dynamic.Resource(definitions).Patch(t.Context(), resource, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change(old, "only the old one is served")
	define(version("v1alpha1", true, true), version("v1", true, false))
	awaitServed(t, c, next)
	change(old, "both are served")
	change(next, "both are served, and this is the new one")
	r.Records.AwaitFold(t, resource, c.List(t, next).State, catchUp)
	define(version("v1alpha1", false, false), version("v1", true, true))
	change(next, "only the new one is served")

	listed := c.List(t, next)
	r.Records.AwaitFold(t, resource, listed.State, discovery)
	records := r.Records.All()
	requireOnceAndInOrder(t, harness.Objects(records, resource))
	report(t, "events of etcd were lost silently", harness.NotAccountedFor(t, truth.Between(t, from, listed.ResourceVersion), records, resource))
	if warnings := r.Log.Lines(zapcore.ErrorLevel, ""); len(warnings) > 0 {
		t.Errorf("%d errors are logged, among them %s", len(warnings), warnings[0])
	}
}

// awaitServed waits until a resource can be listed.
func awaitServed(t *testing.T, c *harness.Cluster, resource schema.GroupVersionResource) {
	t.Helper()
	harness.Poll(t, catchUp, resource.String()+" to be served", func() string {
		if _, err := c.Dynamic.Resource(resource).List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
			return err.Error()
		}
		return ""
	})
}
