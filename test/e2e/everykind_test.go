package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testobjects"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// freshKinds are resources of which an API server creates objects by itself; the test creates those of plantedKinds.
var (
	freshKinds = []string{
		"apiservices.apiregistration.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
		"configmaps", "flowschemas.flowcontrol.apiserver.k8s.io", "leases.coordination.k8s.io",
		"namespaces", "priorityclasses.scheduling.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
		"rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io", "servicecidrs.networking.k8s.io", "services",
	}
	plantedKinds = []string{
		"cronjobs.batch", "customresourcedefinitions.apiextensions.k8s.io", "deployments.apps", "events", "events.events.k8s.io",
		"nodes", "pods", "secrets", "widgets.example.com",
	}
)

const moreManifests = `
{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Node","metadata":{"name":"node","annotations":{"note":"größe 日本 <&>"}}},
{"apiVersion":"v1","kind":"Event","metadata":{"name":"one","namespace":"default"},"type":"Warning","reason":"Größe",
 "message":"line\nbreak \"<&>\"","count":3,"firstTimestamp":"2026-01-01T00:00:01Z","lastTimestamp":"2026-01-01T00:00:02Z",
 "involvedObject":{"kind":"Pod","namespace":"default","name":"before"}}]}`

// Decoding agrees with encoding/json for every object of a real API server: in a list, by itself, and as the body of a
// record.
func TestDecodeAgreesWithEncodingJSONOnRealObjects(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	planted := &sentinels{}
	planted.plant(t, c, "before")
	defineWidgets(t, c)
	createWidget(t, c, "one")
	c.Apply(t, moreManifests)

	var captured map[string][]json.RawMessage
	harness.Poll(t, catchUp, "the API server to have objects", func() string {
		captured = capture(t, c)
		missing := slices.DeleteFunc(slices.Concat(freshKinds, plantedKinds), func(name string) bool { return len(captured[name]) > 0 })
		return strings.Join(missing, ", ")
	})

	objects := 0
	for _, name := range slices.Sorted(maps.Keys(captured)) {
		for _, data := range captured[name] {
			checkDecoded(t, schema.ParseGroupResource(name), data, planted)
		}
		objects += len(captured[name])
	}
	t.Logf("%d objects", objects)
}

// capture returns the objects of every resource that can be listed, as the items of its list and one of them by
// itself, as the API server writes them.
func capture(t *testing.T, c *harness.Cluster) map[string][]json.RawMessage {
	t.Helper()
	served, err := c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	captured := map[string][]json.RawMessage{}
	for _, group := range served {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			name := harness.Name(version.WithResource(resource.Name))
			captured[name] = list(t, c, version.WithResource(resource.Name), resource.Namespaced)
		}
	}
	return captured
}

func list(t *testing.T, c *harness.Cluster, resource schema.GroupVersionResource, namespaced bool) []json.RawMessage {
	t.Helper()
	root := "/apis/" + resource.Group + "/" + resource.Version
	if resource.Group == "" {
		root = "/api/" + resource.Version
	}
	var all struct{ Items []json.RawMessage }
	if err := json.Unmarshal(raw(t, c, root+"/"+resource.Resource), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	var first metav1.PartialObjectMetadata
	if err := json.Unmarshal(all.Items[0], &first); err != nil {
		t.Fatal(err)
	}
	path := root
	if namespaced {
		path += "/namespaces/" + first.Namespace
	}
	return append(all.Items, raw(t, c, path+"/"+resource.Resource+"/"+first.Name))
}

func raw(t *testing.T, c *harness.Cluster, path string) []byte {
	t.Helper()
	data, err := c.Client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("cannot get %s: %v", path, err)
	}
	return data
}

func checkDecoded(t *testing.T, resource schema.GroupResource, data []byte, planted *sentinels) {
	t.Helper()
	plan := redact.NewPlan(resource.Group, resource.Resource)
	obj, _, err := plan.Decode(data)
	if err != nil {
		t.Errorf("%s: %v", resource, err)
		return
	}
	var meta metav1.PartialObjectMetadata
	var in map[string]any
	for _, v := range []any{&meta, &in} {
		if err := json.Unmarshal(data, v); err != nil {
			t.Fatal(err)
		}
	}
	identity := redact.Identity{UID: string(meta.UID), ResourceVersion: meta.ResourceVersion, Namespace: meta.Namespace, Name: meta.Name}
	where := fmt.Sprintf("%s %s/%s", resource, meta.Namespace, meta.Name)
	if found, err := plan.Identify(data); err != nil || found != identity || obj.Identity != identity {
		t.Errorf("%s is identified as %+v and %+v (%v)", where, obj.Identity, found, err)
	}
	if obj.Kind != meta.Kind || obj.APIVersion != meta.APIVersion || obj.Generation != meta.Generation ||
		!obj.Times.Created.Equal(meta.CreationTimestamp.Time) {
		t.Errorf("%s: %s %s %d %v", where, obj.APIVersion, obj.Kind, obj.Generation, obj.Times)
	}

	want := testobjects.Seen(in, resource.Group, resource.Resource)
	change := watchlist.Change{
		Scope: &scope.Scope{GroupResource: schema.GroupResource{Group: resource.Group, Resource: resource.Resource}}, Type: watchlist.Added, Object: obj,
	}
	log := record.NewBuilder(record.Options{EventBody: record.EventObject}).Build([]watchlist.Change{change})
	body, err := json.Marshal(log.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().AsRaw())
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{"decoded": []byte(obj.JSON), "in the body": body} {
		var out map[string]any
		if err := json.Unmarshal(testobjects.WithoutFingerprints(text), &out); err != nil {
			t.Errorf("%s %s: %v", where, what, err)
			continue
		}
		if !reflect.DeepEqual(want, out) {
			t.Errorf("%s %s is not as encoding/json reads it: %s", where, what, text)
		}
		for _, sentinel := range planted.all {
			report(t, "traces of a secret value are in "+where, sentinel.Traces(string(text)))
		}
	}
}
