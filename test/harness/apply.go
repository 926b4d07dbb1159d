package harness

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// LastApplied is the annotation in which a client-side apply stores the whole manifest.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// defaultNamespace is the namespace of namespaced objects whose manifest names none.
const defaultNamespace = metav1.NamespaceDefault

// Apply creates the object of a JSON manifest, or the items of a List, as the first client-side `kubectl apply` does:
// the manifest, secret values included, also becomes the annotation LastApplied.
// https://kubernetes.io/docs/tasks/manage-kubernetes-objects/declarative-config/
func (c *Cluster) Apply(t testing.TB, manifest string) {
	t.Helper()
	decoded, err := runtime.Decode(unstructured.UnstructuredJSONScheme, []byte(manifest))
	if err != nil {
		t.Fatalf("cannot read a manifest: %v: %s", err, manifest)
	}
	groups, err := restmapper.GetAPIGroupResources(c.Client.Discovery())
	if err != nil {
		t.Fatalf("cannot discover the resources to apply: %v", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	apply := func(item runtime.Object) error { return c.apply(t, mapper, item.(*unstructured.Unstructured)) }
	if decoded.(runtime.Unstructured).IsList() {
		err = decoded.(runtime.Unstructured).EachListItem(apply)
	} else {
		err = apply(decoded)
	}
	if err != nil {
		t.Fatalf("cannot apply a manifest: %v: %s", err, manifest)
	}
}

func (c *Cluster) apply(t testing.TB, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	t.Helper()
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	client := dynamic.ResourceInterface(c.Dynamic.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(defaultNamespace)
		}
		client = c.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	object.SetAnnotations(annotations) // the stored manifest has the key even if it is empty
	applied, err := json.Marshal(object)
	if err != nil {
		return err
	}
	annotations[LastApplied] = string(applied) + "\n"
	object.SetAnnotations(annotations)
	_, err = client.Create(t.Context(), object, metav1.CreateOptions{})
	return err
}

// Annotate sets an annotation of an object in the namespace default.
func (c *Cluster) Annotate(t testing.TB, resource schema.GroupVersionResource, name, key, value string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	client := c.Dynamic.Resource(resource).Namespace(defaultNamespace)
	if _, err := client.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatalf("cannot annotate %s %s: %v", resource.Resource, name, err)
	}
}

// Delete deletes an object in the namespace default at once, and its dependents in the background.
func (c *Cluster) Delete(t testing.TB, resource schema.GroupVersionResource, name string) {
	t.Helper()
	options := *metav1.NewDeleteOptions(0)
	background := metav1.DeletePropagationBackground
	options.PropagationPolicy = &background
	if err := c.Dynamic.Resource(resource).Namespace(defaultNamespace).Delete(t.Context(), name, options); err != nil {
		t.Fatalf("cannot delete %s %s: %v", resource.Resource, name, err)
	}
}
