package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap/zapcore"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubediscovery "k8s.io/client-go/discovery"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// noticed is how soon a resource has to be read once its definition is established.
const noticed = 5 * time.Second

// A pattern selects everything that can be listed and watched, in the preferred version, but what is never selected by
// pattern, what is excluded, and what another entry names. A broken and an aggregated APIService change nothing for the
// rest.
func TestPatternSelectsWhatIsServed(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, modern.options)
	define(t, c, "widgets", "example.com", "Namespaced", "v1", "v1beta1")
	define(t, c, "gadgets", "example.com", "Cluster", "v1alpha1")
	define(t, c, "notes", "internal.example.org", "Namespaced", "v1")
	c.Register(t, schema.GroupVersion{Group: "broken.example.com", Version: "v1"}, "missing", 443)
	startViews(t, c)
	createObject(t, c, "widgets", "example.com", "v1", "one")

	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+`
resources:
  - {name: "*", exclude: ["*.internal.example.org", "controllerrevisions.apps"]}
  - {name: pods, namespaces: [default]}
`, nil)
	for _, resource := range selected(t, c, "internal.example.org", "apps/controllerrevisions", "views.example.com", "broken.example.com") {
		r.Records.AwaitSnapshot(t, resource, catchUp)
	}
	r.Records.AwaitObject(t, "widgets.example.com", "one", "SNAPSHOT", catchUp)
	seen := map[string]int{}
	for _, record := range r.Records.All() {
		if record.Event == "k8s.snapshot.begin" {
			seen[record.Resource]++
		}
	}
	for resource, times := range seen {
		if times != 1 {
			t.Errorf("%s was read %d times", resource, times)
		}
	}
	for _, never := range []string{
		"secrets", "leases.coordination.k8s.io", "events", "events.events.k8s.io", "endpoints", "notes.internal.example.org",
		"controllerrevisions.apps", "views.views.example.com",
	} {
		if seen[never] > 0 {
			t.Errorf("%s was read", never)
		}
	}
	if warnings := r.Log.Lines(zapcore.WarnLevel, ""); len(warnings) > 0 {
		t.Errorf("%d warnings were logged, among them %s", len(warnings), warnings[0])
	}
}

// What a pattern selects comes and goes: it is read within seconds, its objects are deleted with it, and nothing remains of
// its reader. Under the same name it may return with another scope.
func TestResourcesComeAndGo(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, modern.options)
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+`resources: [{name: "*.example.com"}, {name: configmaps}]`, nil)
	r.Records.AwaitSnapshot(t, "configmaps", catchUp)

	const resource = "widgets.example.com"
	for round, scope := range []string{"Namespaced", "Cluster", "Namespaced"} {
		mark := r.Records.Len()
		established := define(t, c, "widgets", "example.com", scope, "v1")
		await(t, r, mark, resource, "k8s.snapshot.end", noticed-time.Since(established))
		t.Logf("read %s after it was established", time.Since(established).Round(time.Millisecond))
		first, second := fmt.Sprintf("first-%d", round), fmt.Sprintf("second-%d", round)
		createObject(t, c, "widgets", "example.com", "v1", first)
		createObject(t, c, "widgets", "example.com", "v1", second)
		r.Records.AwaitFold(t, resource, c.List(t, widgets).State, catchUp)
		removeWidgets(t, c)
		r.Records.AwaitFold(t, resource, fold.State{}, catchUp)
		harness.Poll(t, catchUp, "the inventory of "+resource+" to be reported no longer", func() string {
			if r.HasSeries(t, "otelcol_k8s_watchlist_inventory_objects", attribute.String("resource", "widgets")) {
				return "it is still reported"
			}
			return ""
		})
	}
	requireOnceAndInOrder(t, harness.Objects(r.Records.All(), resource))
	if warnings := r.Log.Lines(zapcore.WarnLevel, ""); len(warnings) > 0 {
		t.Errorf("%d warnings were logged, among them %s", len(warnings), warnings[0])
	}
}

// Without the right to watch definitions, discovery is asked at intervals.
func TestResourcesComeAndGoWithoutTheRightToWatchDefinitions(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, modern.options)
	account, err := c.ServiceAccountCredentials(t.Context(), "default", "narrow")
	if err != nil {
		t.Fatal(err)
	}
	grantOne(t, c, "system:serviceaccount:default:narrow", "example.com", "widgets")
	r := harness.StartReceiver(t, kubeconfig(c.KubeconfigVia(t, account.Config, c.Address()))+`resources: [{name: "*.example.com"}]`, nil)
	r.Log.Await(t, zapcore.InfoLevel, "new resources are noticed within half a minute", catchUp)
	define(t, c, "widgets", "example.com", "Namespaced", "v1")
	createObject(t, c, "widgets", "example.com", "v1", "one")
	r.Records.AwaitObject(t, "widgets.example.com", "one", "SNAPSHOT", catchUp)
}

// grantOne grants a user the right to list and watch one resource.
func grantOne(t *testing.T, c *harness.Cluster, user, group, resource string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader:" + resource},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}},
	}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name + ":" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// await waits for a record of a resource's stream after a mark.
func await(t *testing.T, r *harness.Receiver, mark int, resource, event string, within time.Duration) {
	t.Helper()
	harness.Poll(t, within, event+" of "+resource, func() string {
		if len(harness.OfStream(r.Records.After(mark), resource, event)) == 0 {
			return "it is missing"
		}
		return ""
	})
}

// selected returns what the pattern * has to select, but for some groups and resources.
func selected(t *testing.T, c *harness.Cluster, without ...string) []string {
	t.Helper()
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil && !kubediscovery.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	var names []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name := harness.Name(schema.GroupVersionResource{Group: version.Group, Resource: r.Name})
			switch {
			case strings.Contains(r.Name, "/"), !slices.Contains(r.Verbs, "list"), !slices.Contains(r.Verbs, "watch"):
			case slices.Contains([]string{"secrets", "leases.coordination.k8s.io", "events", "events.events.k8s.io", "endpoints"}, name):
			case slices.Contains(without, version.Group), slices.Contains(without, version.Group+"/"+r.Name), slices.Contains(names, name):
			default:
				names = append(names, name)
			}
		}
	}
	if len(names) < 40 {
		t.Fatalf("discovery has only %d resources", len(names))
	}
	return names
}

// define creates a CRD, the first version being the preferred one, and returns when it was established.
func define(t *testing.T, c *harness.Cluster, plural, group, scope string, versions ...string) time.Time {
	t.Helper()
	var served []any
	for i, version := range versions {
		served = append(served, map[string]any{
			"name": version, "served": true, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	singular := strings.TrimSuffix(plural, "s")
	kind := strings.ToUpper(singular[:1]) + singular[1:]
	name := plural + "." + group
	if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "scope": scope, "versions": served,
			"names": map[string]any{"plural": plural, "singular": singular, "kind": kind, "listKind": kind + "List"},
		},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Poll(t, catchUp, name+" to be established", func() string {
		definition, err := c.Dynamic.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		for _, condition := range conditions {
			if of, ok := condition.(map[string]any); ok && of["type"] == "Established" && of["status"] == "True" {
				return ""
			}
		}
		return "it is not established"
	})
	return time.Now()
}

// createObject creates an object as soon as its resource is served, in the namespace default if it is namespaced.
func createObject(t *testing.T, c *harness.Cluster, plural, group, version, name string) {
	t.Helper()
	singular := strings.TrimSuffix(plural, "s")
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version, "kind": strings.ToUpper(singular[:1]) + singular[1:], "metadata": map[string]any{"name": name},
	}}
	resource := c.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
	harness.Poll(t, catchUp, plural+" to be served", func() string {
		if _, err := resource.Namespace("default").Create(t.Context(), object, metav1.CreateOptions{}); err == nil {
			return ""
		}
		if _, err := resource.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// startViews starts an aggregated API server with one resource, and waits until discovery has it.
func startViews(t *testing.T, c *harness.Cluster) {
	t.Helper()
	const group = "views.example.com"
	c.Aggregate(t, schema.GroupVersion{Group: group, Version: "v1"}, "views", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/" + group + "/v1":
			_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[{"name":"views","singularName":"view",`+
				`"namespaced":true,"kind":"View","verbs":["get","list","watch"]}]}`, group)
		default:
			http.NotFound(w, r)
		}
	}))
	harness.Poll(t, catchUp, group+" to be discovered", func() string {
		list, err := c.Client.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		if err != nil {
			return err.Error()
		}
		if len(list.APIResources) == 0 {
			return "it has no resources"
		}
		return ""
	})
}
