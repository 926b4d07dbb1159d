package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Under the pattern *, CRDs are added, moved to another version, removed, and added again with another scope, while their
// objects change. In the end the fold of each is the LIST, and nothing remains of those that are gone.
func TestDefinitionsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	const resources, rounds = 6, 3
	c := harness.StartCluster(t, modern.options)
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+`resources: [{name: "*"}]`, nil)
	r.Records.AwaitSnapshot(t, "configmaps", catchUp)
	t.Run("changes", func(t *testing.T) {
		for i := range resources {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				plural := fmt.Sprintf("thing%ds", i)
				for round := range rounds {
					changeDefinition(t, c, plural, []string{"Namespaced", "Cluster"}[(i+round)%2], round)
					if round < rounds-1 || i%3 == 0 {
						removeDefinition(t, c, plural+"."+churnGroup)
					}
				}
			})
		}
	})
	for i := range resources {
		plural := fmt.Sprintf("thing%ds", i)
		name := plural + "." + churnGroup
		want := fold.State{}
		if i%3 != 0 {
			want = c.List(t, schema.GroupVersionResource{Group: churnGroup, Version: "v2", Resource: plural}).State
		}
		r.Records.AwaitFold(t, name, want, 2*catchUp)
		objects := harness.Objects(r.Records.All(), name)
		requireOnceAndInOrder(t, objects)
		if len(want) > 0 && !slices.ContainsFunc(objects, func(o fold.Record) bool { return o.Type == "DELETED" }) {
			t.Errorf("no object of %s was emitted as deleted", name)
		}
	}
	if failed := r.Log.Lines(zapcore.ErrorLevel, ""); len(failed) > 0 {
		t.Errorf("%d errors were logged, among them %s", len(failed), failed[0])
	}
}

const churnGroup = "churn.example.com"

// changeDefinition defines a resource, moves it to another version, and changes its objects in between.
func changeDefinition(t *testing.T, c *harness.Cluster, plural, scope string, round int) {
	t.Helper()
	define(t, c, plural, churnGroup, scope, "v1")
	for n := range 4 {
		createObject(t, c, plural, churnGroup, "v1", fmt.Sprintf("object-%d-%d", round, n))
	}
	version := func(name string, served, storage bool) map[string]any {
		return map[string]any{
			"name": name, "served": served, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": []any{version("v1", false, false), version("v2", true, true)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dynamic.Resource(definitions).Patch(t.Context(), plural+"."+churnGroup, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	next := schema.GroupVersionResource{Group: churnGroup, Version: "v2", Resource: plural}
	awaitServed(t, c, next)
	createObject(t, c, plural, churnGroup, "v2", fmt.Sprintf("object-%d-v2", round))
	var list *unstructured.UnstructuredList
	harness.Poll(t, catchUp, "the objects of "+plural, func() string {
		if list, err = c.Dynamic.Resource(next).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	for i, item := range list.Items {
		client := c.Dynamic.Resource(next).Namespace(item.GetNamespace())
		harness.Poll(t, catchUp, "an object of "+plural+" to change", func() string {
			var err error
			if i == 0 {
				err = client.Delete(t.Context(), item.GetName(), metav1.DeleteOptions{})
			} else {
				_, err = client.Patch(t.Context(), item.GetName(), types.MergePatchType, []byte(`{"spec":{"changed":true}}`), metav1.PatchOptions{})
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return err.Error()
			}
			return ""
		})
	}
}

// removeDefinition deletes a CRD, and waits until it is gone.
func removeDefinition(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	if err := c.Dynamic.Resource(definitions).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Poll(t, catchUp, "the definition of "+name+" to be gone", func() string {
		_, err := c.Dynamic.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err == nil:
			return "it still exists"
		case !apierrors.IsNotFound(err):
			return err.Error()
		}
		return ""
	})
}
