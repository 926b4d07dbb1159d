package harness

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// Listing is the API server's state of a resource.
type Listing struct {
	State           fold.State
	ResourceVersion string
}

// listPage keeps the server's answers small.
const listPage = 1000

// List reads the API server's state, consistent with all writes that it has acknowledged.
func (c *Cluster) List(t testing.TB, resource schema.GroupVersionResource) Listing {
	t.Helper()
	return c.ListSelected(t, resource, "")
}

// ListSelected reads the objects that a label selector selects.
func (c *Cluster) ListSelected(t testing.TB, resource schema.GroupVersionResource, labels string) Listing {
	t.Helper()
	return c.list(t, resource, labels, func(string) bool { return true })
}

// ListIn reads the objects in namespaces that are selected.
func (c *Cluster) ListIn(t testing.TB, resource schema.GroupVersionResource, selects func(namespace string) bool) Listing {
	t.Helper()
	return c.list(t, resource, "", selects)
}

func (c *Cluster) list(t testing.TB, resource schema.GroupVersionResource, labels string, selects func(namespace string) bool) Listing {
	t.Helper()
	listing := Listing{State: fold.State{}}
	options := metav1.ListOptions{Limit: listPage, LabelSelector: labels}
	for {
		page, err := c.metadata.Resource(resource).List(t.Context(), options)
		if err != nil {
			t.Fatalf("cannot list %s: %v", resource.Resource, err)
		}
		for _, item := range page.Items {
			if selects(item.Namespace) {
				listing.State[string(item.UID)] = item.ResourceVersion
			}
		}
		listing.ResourceVersion = page.ResourceVersion // the same on every page
		if page.Continue == "" {
			return listing
		}
		options.Continue = page.Continue
	}
}

// Name returns the resource's name in records: its plural, with the group after a dot if there is one.
func Name(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource
	}
	return resource.Resource + "." + resource.Group
}

// Pods is the resource that most tests watch.
var Pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
