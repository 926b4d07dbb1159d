package e2e

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// The receiver looks for a resource that is not served every half a minute.
const discovery = 2 * time.Minute

// The receiver waits for a missing resource while it reads the others. When the resource is removed, its objects are
// gone, even if that happened while the receiver was cut off.
func TestResourceAppearsAndDisappears(t *testing.T) {
	t.Parallel()
	s := modern.start(t)
	r := harness.StartReceiver(t, s.access+"resources: [{name: widgets.example.com}, {name: pods}]", nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)

	appear(t, s, r, "one", "two")
	removeWidgets(t, s.Cluster)
	r.Records.AwaitFold(t, "widgets.example.com", fold.State{}, discovery)

	appear(t, s, r, "three", "four")
	s.proxy.Cut()
	removeWidgets(t, s.Cluster)
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, "widgets.example.com", fold.State{}, discovery)

	appear(t, s, r, "five", "six")
	requireOnceAndInOrder(t, harness.Objects(r.Records.All(), "widgets.example.com"))
}

// appear defines widgets, creates one, and another after the first was emitted.
func appear(t *testing.T, s *site, r *harness.Receiver, first, second string) {
	t.Helper()
	defineWidgets(t, s.Cluster)
	createWidget(t, s.Cluster, first)
	r.Records.AwaitFold(t, "widgets.example.com", s.List(t, widgets).State, discovery)
	createWidget(t, s.Cluster, second)
	r.Records.AwaitObject(t, "widgets.example.com", second, "ADDED", catchUp)
}

func defineWidgets(t *testing.T, c *harness.Cluster) {
	t.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createWidget waits until widgets are served.
func createWidget(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"size": int64(1)},
	}}
	harness.Poll(t, catchUp, "widgets to be served", func() string {
		_, err := c.Dynamic.Resource(widgets).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
}

// removeWidgets removes the definition, and waits until it and the widgets are gone.
func removeWidgets(t *testing.T, c *harness.Cluster) {
	t.Helper()
	if err := c.Dynamic.Resource(definitions).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Poll(t, catchUp, "the definition of widgets to be gone", func() string {
		_, err := c.Dynamic.Resource(definitions).Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
		if err == nil {
			return "it still exists"
		}
		if !apierrors.IsNotFound(err) {
			return err.Error()
		}
		return ""
	})
}
