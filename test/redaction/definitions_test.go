package redaction

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// define makes the API server serve the custom resources among the entries. Their schema keeps every field, and so
// every place of the corpus, whichever version of the public CRD has it. It returns how many it defines.
func define(t *testing.T, c *harness.Cluster, entries []*entry) int {
	t.Helper()
	builtIn := served(t, c)
	defined := map[string]bool{}
	for _, e := range entries {
		name := harness.Name(e.resource)
		if _, ok := builtIn[e.resource]; ok || defined[name] {
			continue
		}
		defined[name] = true
		if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), definition(e), metav1.CreateOptions{}); err != nil {
			t.Fatalf("cannot define %s: %v", name, err)
		}
	}
	awaitServed(t, c, entries)
	return len(defined)
}

// awaitServed waits until discovery lists the resources of the entries.
func awaitServed(t *testing.T, c *harness.Cluster, entries []*entry) {
	t.Helper()
	harness.Poll(t, timeout, "the resources of the corpus to be served", func() string {
		now := served(t, c)
		for _, e := range entries {
			if _, ok := now[e.resource]; !ok {
				return harness.Name(e.resource) + " is not"
			}
		}
		return ""
	})
}

func definition(e *entry) *unstructured.Unstructured {
	kind := e.object.GetKind()
	scope := "Cluster"
	if e.object.GetNamespace() != "" {
		scope = "Namespaced"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": harness.Name(e.resource),
			// Groups that end in k8s.io are refused without it.
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		"spec": map[string]any{
			"group": e.resource.Group,
			"scope": scope,
			"names": map[string]any{
				"plural": e.resource.Resource, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List",
			},
			"versions": []any{map[string]any{
				"name": e.resource.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// served returns the resources that discovery lists, with their subresources.
func served(t *testing.T, c *harness.Cluster) map[schema.GroupVersionResource][]string {
	t.Helper()
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatalf("cannot discover the resources of the API server: %v", err)
	}
	all := map[schema.GroupVersionResource][]string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name, subresource, isSubresource := strings.Cut(r.Name, "/")
			resource := version.WithResource(name)
			if isSubresource {
				all[resource] = append(all[resource], subresource)
			} else if all[resource] == nil {
				all[resource] = []string{}
			}
		}
	}
	return all
}

// timeout is long enough even while other tests and builds use the same cores.
const timeout = 2 * time.Minute
