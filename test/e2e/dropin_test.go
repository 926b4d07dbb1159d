package e2e

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// difference is a difference between the records of a format and those of contrib's receiver in v0.111.0.
// docs/migration.md lists it in the same words.
type difference struct {
	text string
	// apply makes the difference in a record of contrib's receiver, and reports whether it changed it.
	apply func(theirs *harness.RawRecord, ours harness.RawRecord) bool
}

// k8sObjectsDifferences are all differences of format k8sobjects.
var k8sObjectsDifferences = []difference{
	{
		text: "Records of changes have the resource attribute `k8s.namespace.name`",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			body := theirs.Body.(map[string]any)
			namespace := namespaceOf(objectIn(body))
			if namespace == "" || !isChange(body) {
				return false
			}
			theirs.Resource["k8s.namespace.name"] = namespace
			return true
		},
	},
	{
		text: "The scope has a name and a version",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			theirs.ScopeName = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sobjectsreceiver"
			theirs.ScopeVersion = collectorVersion
			return true
		},
	},
	{
		text: "`metadata.managedFields` is left out",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			return remove(objectIn(theirs.Body.(map[string]any)), "metadata", "managedFields")
		},
	},
	{
		text: "The annotation in which `kubectl apply` keeps the manifest is left out",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			return remove(objectIn(theirs.Body.(map[string]any)), "metadata", "annotations", harness.LastApplied)
		},
	},
	{
		text:  "Secret values are masked",
		apply: func(theirs *harness.RawRecord, ours harness.RawRecord) bool { return mask(theirs.Body, ours.Body, "") },
	},
}

// collectorVersion is the version of bin/otelcol-watchlist.
const collectorVersion = "0.1.0"

// maskedPaths are the places in the objects of the test at which a value may be masked.
var maskedPaths = []string{
	"Secret.data.password",
	"ConfigMap.data.mode",
	"ConfigMap.data.empty",
	"Pod.spec.containers.0.env.0.value",
	"Deployment.spec.template.spec.containers.0.env.0.value",
	"Widget.spec.apiToken",
}

// mask copies masked values from ours to theirs, where masking is allowed, and reports whether there were any.
func mask(theirs, ours any, path string) bool {
	done := false
	each := func(key string, value, our any, set func(any)) {
		below := path + "." + key
		their, isText := value.(string)
		masked, isMasked := our.(string)
		if isText && isMasked && their != masked && strings.HasPrefix(masked, "[REDACTED") && slices.Contains(maskedPaths, below[1:]) {
			set(masked)
			done = true
			return
		}
		done = mask(value, our, below) || done
	}
	switch theirs := theirs.(type) {
	case map[string]any:
		ours, _ := ours.(map[string]any)
		if kind, ok := theirs["kind"].(string); ok && path == "" || path == ".object" {
			path = "." + kind
		}
		for key, value := range theirs {
			each(key, value, ours[key], func(v any) { theirs[key] = v })
		}
	case []any:
		ours, _ := ours.([]any)
		for i := range min(len(theirs), len(ours)) {
			each(fmt.Sprint(i), theirs[i], ours[i], func(v any) { theirs[i] = v })
		}
	}
	return done
}

// objectIn returns the object in the body of a change, or the body of a listed object.
func objectIn(body map[string]any) map[string]any {
	if object, ok := body["object"].(map[string]any); ok {
		return object
	}
	return body
}

func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

func namespaceOf(object map[string]any) string {
	namespace, _ := metadataOf(object)["namespace"].(string)
	return namespace
}

// remove removes the value at a path, and reports whether there was one.
func remove(from map[string]any, path ...string) bool {
	for _, key := range path[:len(path)-1] {
		from, _ = from[key].(map[string]any)
	}
	last := path[len(path)-1]
	_, ok := from[last]
	delete(from, last)
	return ok
}

// Contrib's k8sobjects and ours, side by side on one API server, send the same records of the same objects and changes,
// except for the listed differences.
func TestK8sObjectsDropIn(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	defineWidgets(t, c)
	createWidget(t, c, "before")
	story := dropInStory{c}
	story.create(t, "before")
	kinds := []string{"Pod", "ConfigMap", "Secret", "Service", "Deployment", "ClusterRole", "Event", "Widget"}

	ours := harness.StartRawSink(t)
	collector := harness.StartCollector(t, toOTLP(ours, "k8s_watchlist", kubeconfig(c.Kubeconfig())+`
format: k8sobjects
kube_api_burst: 50
events: {deleted: true}
resources: [pods, configmaps, secrets, services, deployments, clusterroles.rbac.authorization.k8s.io, events, widgets.example.com]
`))
	awaitEach(t, ours, kinds, "", "before")
	since := c.List(t, configMaps).ResourceVersion // a version of etcd, so of all resources
	theirs := harness.StartRawSink(t)
	peer := harness.StartPeer(t, []string{"KUBECONFIG=" + c.Kubeconfig()}, toOTLP(theirs, "k8sobjects", "auth_type: kubeConfig\nobjects:\n"+
		peerObjects("mode: pull")+peerObjects("mode: watch, resource_version: '"+since+"'")))
	awaitEach(t, theirs, kinds, "", "before")

	story.create(t, "story")
	story.change(t, "story")
	story.remove(t, "story")
	for _, sink := range []*harness.RawSink{ours, theirs} {
		awaitEach(t, sink, kinds, "DELETED", "story")
	}
	collector.Interrupt(t)
	peer.Interrupt(t)

	compared := map[string]int{}
	for _, identity := range compare(t, byChange(t, theirs.All()), byChange(t, ours.All()), k8sObjectsDifferences) {
		compared[strings.Fields(identity)[1]]++
	}
	t.Logf("compared %v", compared)
	for _, changeType := range []string{"listed", "ADDED", "MODIFIED", "DELETED"} {
		if compared[changeType] < len(kinds) {
			t.Errorf("%d records of type %s were compared, want one of each kind", compared[changeType], changeType)
		}
	}
	for _, record := range ours.All() {
		if text := fmt.Sprint(record); strings.Contains(text, plain) || strings.Contains(text, plainBase64) {
			t.Errorf("a secret value has left: %s", text)
		}
	}
}

// plain is the secret value in all objects.
const plain, plainBase64 = "not-to-be-seen", "bm90LXRvLWJlLXNlZW4="

// peerObjects is the list of resources that contrib's receiver reads in one of its modes.
func peerObjects(mode string) string {
	text := ""
	for _, resource := range []string{
		"name: pods", "name: configmaps", "name: secrets", "name: services, group: ''", "name: deployments, group: apps",
		"name: clusterroles", "name: events, group: ''", "name: widgets, group: example.com",
	} {
		text += "  - {" + resource + ", " + mode + "}\n"
	}
	return text
}

// toOTLP is the configuration of a Collector whose receiver sends to the sink.
func toOTLP(sink *harness.RawSink, receiver, config string) string {
	return "receivers:\n  " + receiver + ":\n" + indent(config) + `
exporters:
  otlp_grpc: {endpoint: "` + sink.Address() + `", tls: {insecure: true}, compression: none, sending_queue: {enabled: false}}
service:
  pipelines:
    logs: {receivers: [` + receiver + `], exporters: [otlp_grpc]}
  telemetry:
    metrics: {level: none}
`
}

// awaitEach waits for a record of each kind: of a change of that type, or of a listed object if it is empty, and of an
// object with that name.
func awaitEach(t *testing.T, sink *harness.RawSink, kinds []string, changeType, name string) {
	t.Helper()
	sink.Await(t, catchUp, "records of "+name, func(records []harness.RawRecord) string {
		missing := slices.Clone(kinds)
		for _, record := range records {
			body := record.Body.(map[string]any)
			object := objectIn(body)
			found, _ := body["type"].(string)
			if object["metadata"] == nil || metadataOf(object)["name"] != name || isChange(body) != (changeType != "") || changeType != "" && found != changeType {
				continue
			}
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == object["kind"] })
		}
		return strings.Join(missing, ", ")
	})
}

func isChange(body map[string]any) bool { return body["object"] != nil && body["kind"] == nil }

// compare requires that our records equal theirs with the differences applied, and that each difference occurs. The keys
// are what is compared with each other. It returns them, sorted.
func compare(t *testing.T, theirs, ours map[string]harness.RawRecord, differences []difference) []string {
	t.Helper()
	occurred := make([]int, len(differences))
	for identity, their := range theirs {
		our, ok := ours[identity]
		if !ok {
			t.Errorf("only contrib's receiver has sent %s: %+v", identity, their)
			continue
		}
		for i, d := range differences {
			if d.apply(&their, our) {
				occurred[i]++
			}
		}
		if !their.Observed.IsZero() && !our.Observed.IsZero() {
			their.Observed = our.Observed // each has read it at another time
		}
		if !reflect.DeepEqual(their, our) {
			t.Errorf("%s:\ncontrib's, with the differences: %+v\nours: %+v", identity, their, our)
		}
	}
	for identity, our := range ours {
		if _, ok := theirs[identity]; !ok {
			t.Errorf("only ours has sent %s: %+v", identity, our)
		}
	}
	for i, d := range differences {
		if occurred[i] == 0 {
			t.Errorf("the listed difference %q has not occurred", d.text)
		}
	}
	return slices.Sorted(maps.Keys(theirs))
}

// byChange returns the records of the objects of the test by their change. No change may have two.
func byChange(t *testing.T, records []harness.RawRecord) map[string]harness.RawRecord {
	t.Helper()
	found := map[string]harness.RawRecord{}
	for _, record := range records {
		body := record.Body.(map[string]any)
		object := objectIn(body)
		metadata := metadataOf(object)
		if name, _ := metadata["name"].(string); name != "before" && name != "story" {
			continue
		}
		changeType, _ := body["type"].(string)
		if !isChange(body) {
			changeType = "listed"
		}
		identity := fmt.Sprintf("%v %s %v %v at %v", object["kind"], changeType, metadata["name"], metadata["uid"], metadata["resourceVersion"])
		if _, ok := found[identity]; ok {
			t.Errorf("%s came twice", identity)
		}
		found[identity] = record
	}
	return found
}

// dropInStory is a sequence of changes to objects with one name.
type dropInStory struct{ *harness.Cluster }

// storyObjects are the objects of a story, by name. Their values have all JSON types.
const storyObjects = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":%[1]q,"annotations":{"note":"größe"}},
 "spec":{"nodeName":"n1","containers":[{"name":"c","image":"registry.example.com/c:1","env":[{"name":"TOKEN","value":"not-to-be-seen"}],"args":[]}]}},
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%[1]q},"data":{"mode":"a value","empty":""}},
{"apiVersion":"v1","kind":"Secret","metadata":{"name":%[1]q},"data":{"password":"bm90LXRvLWJlLXNlZW4="}},
{"apiVersion":"v1","kind":"Service","metadata":{"name":%[1]q},"spec":{"ports":[{"port":80}],"clusterIP":"None","selector":{"app":"web"}}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{"replicas":2,"selector":{"matchLabels":{"app":%[1]q}},
 "template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"containers":[{"name":"c","image":"registry.example.com/c:1","env":[{"name":"TOKEN","value":"not-to-be-seen"}]}]}}}},
{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%[1]q},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]},
{"apiVersion":"v1","kind":"Event","metadata":{"name":%[1]q},"type":"Warning","reason":"Größe","message":"line\nbreak \"<&>\"","count":3,
 "firstTimestamp":"2026-01-01T00:00:01Z","lastTimestamp":"2026-01-01T00:00:02Z","involvedObject":{"kind":"Pod","namespace":"default","name":%[1]q}}%[2]s]}`

const storyWidget = `,{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q,"finalizers":["example.com/kept"]},
 "spec":{"whole":7,"large":9007199254740993,"fraction":0.1,"exponent":1e+21,"negative":-3,"yes":true,"nothing":null,"list":[1,"two",[],{}],
 "empty":{},"text":"\u0000\u2028 <&> 日本","apiToken":"not-to-be-seen"}}`

func (s dropInStory) create(t *testing.T, name string) {
	t.Helper()
	widget := fmt.Sprintf(storyWidget, name)
	if name == "before" {
		widget = "" // it was created before, when widgets were about to be served
	}
	s.Apply(t, fmt.Sprintf(storyObjects, name, widget))
}

var storyResources = []schema.GroupVersionResource{
	harness.Pods, configMaps, secrets, {Version: "v1", Resource: "services"}, deployments,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Version: "v1", Resource: "events"}, widgets,
}

// change labels every object, changes a status, and applies a field as another manager.
func (s dropInStory) change(t *testing.T, name string) {
	t.Helper()
	for _, resource := range storyResources {
		s.patch(t, resource, name, types.MergePatchType, `{"metadata":{"labels":{"changed":"yes"},"annotations":{"note":"é"}}}`, metav1.PatchOptions{})
	}
	s.patch(t, harness.Pods, name, types.MergePatchType, `{"status":{"phase":"Running","podIP":"10.0.0.1"}}`, metav1.PatchOptions{}, "status")
	force := true
	s.patch(t, deployments, name, types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":5}}`,
		metav1.PatchOptions{FieldManager: "scaler", Force: &force})
	s.patch(t, secrets, name, types.MergePatchType, `{"data":{"password":"c3RpbGwtbm90"}}`, metav1.PatchOptions{})
}

func (s dropInStory) patch(t *testing.T, resource schema.GroupVersionResource, name string, kind types.PatchType, patch string, options metav1.PatchOptions, subresource ...string) {
	t.Helper()
	client := s.Dynamic.Resource(resource)
	var err error
	if isClusterScoped(resource) {
		_, err = client.Patch(t.Context(), name, kind, []byte(patch), options, subresource...)
	} else {
		_, err = client.Namespace("default").Patch(t.Context(), name, kind, []byte(patch), options, subresource...)
	}
	if err != nil {
		t.Fatalf("cannot patch %s %s: %v", resource.Resource, name, err)
	}
}

func isClusterScoped(resource schema.GroupVersionResource) bool {
	return resource.Resource == "clusterroles"
}

// remove deletes every object. The widget has a finalizer, so that its deletion takes two changes.
func (s dropInStory) remove(t *testing.T, name string) {
	t.Helper()
	for _, resource := range storyResources {
		if isClusterScoped(resource) {
			if err := s.Dynamic.Resource(resource).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s.Delete(t, resource, name)
	}
	s.patch(t, widgets, name, types.MergePatchType, `{"metadata":{"finalizers":null}}`, metav1.PatchOptions{})
}

// The documentation lists the same differences as the tests, in the same order.
func TestDifferencesAreDocumented(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, differences := range map[string][]difference{
		"## What differs from k8s_objects": k8sObjectsDifferences,
		"## What differs from k8s_events":  k8sEventsDifferences,
	} {
		_, section, ok := strings.Cut(string(content), heading+"\n")
		if !ok {
			t.Errorf("docs/migration.md has no section %q", heading)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		var documented, want []string
		for line := range strings.Lines(section) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				documented = append(documented, strings.TrimSpace(cells[1]))
			}
		}
		documented = documented[min(2, len(documented)):] // the table's head
		for _, d := range differences {
			want = append(want, d.text)
		}
		if !slices.Equal(documented, want) {
			t.Errorf("%s has the rows\n%q, want\n%q", heading, documented, want)
		}
	}
}
