package e2e

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

var (
	entityNodes       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	entityNamespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	entityReplicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
)

// entityTypes are the types of the entities of resources. Nodes come before pods, which refer to them.
var entityTypes = []struct {
	resource   schema.GroupVersionResource
	entityType string
}{
	{entityNodes, "k8s.node"}, {entityNamespaces, "k8s.namespace"}, {deployments, "k8s.deployment"},
	{entityReplicaSets, "k8s.replicaset"}, {harness.Pods, "k8s.pod"}, {widgets, "k8s.object"},
}

// entityState is what is known of an entity.
type entityState struct {
	description   map[string]any
	relationships []string // sorted
}

// TestEntities: whoever follows the entity events knows the objects of the API server, their labels and how they are
// related, through changes, deletions and a restart.
func TestEntities(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	defineWidgets(t, c)
	createWidget(t, c, "parent")
	w := &entityWorld{c}
	w.create(t, "one")

	sink := harness.StartRawSink(t)
	config := strings.Replace(toOTLP(sink, "k8s_watchlist", kubeconfig(c.Kubeconfig())+`
kube_api_burst: 50
entities: true
storage: file_storage
resources: [pods, nodes, namespaces, deployments, replicasets.apps, widgets.example.com, events]
`), "\nservice:\n", "\nextensions: {file_storage: {directory: "+t.TempDir()+"}}\nservice:\n  extensions: [file_storage]\n", 1)
	collector := harness.StartCollector(t, config)
	w.await(t, sink, 0)

	w.create(t, "two")
	w.patch(t, harness.Pods, "one", `{"metadata":{"labels":{"app":"changed","more":"yes"}}}`)
	w.await(t, sink, 0)

	mark := len(sink.All())
	w.patch(t, harness.Pods, "one", `{"metadata":{"annotations":{"note":"x"}}}`)
	w.patch(t, harness.Pods, "one", `{"metadata":{"labels":{"last":"yes"}}}`)
	w.await(t, sink, mark)
	changes, states := 0, 0
	for _, record := range sink.All()[mark:] {
		switch record.EventName {
		case "k8s.object.modified":
			changes++
		case "entity.state":
			states++
		}
	}
	if changes != 2 || states != 1 {
		t.Errorf("there were %d records of the changes and %d entity events, want 2 and 1, since an annotation is not part of the description", changes, states)
	}

	w.Delete(t, harness.Pods, "two")
	w.Delete(t, widgets, "child-of-two")
	w.await(t, sink, 0)
	collector.Interrupt(t)

	// The nodes themselves do not change any more, so that their UIDs are known from the checkpoint only.
	mark = len(sink.All())
	collector = harness.StartCollector(t, config)
	w.patch(t, harness.Pods, "one", `{"metadata":{"labels":{"app":"again"}}}`)
	w.await(t, sink, mark)
	mark = len(sink.All())
	w.patch(t, harness.Pods, "one", `{"metadata":{"labels":{"app":"and-again"}}}`)
	w.await(t, sink, mark)
	collector.Interrupt(t)
	for _, record := range sink.All()[mark:] {
		if text := fmt.Sprint(record.Attributes["entity.relationships"]); record.EventName == "entity.state" && !strings.Contains(text, "k8s.node.uid") {
			t.Errorf("the node of a pod is not known by its UID: %s", text)
		}
	}

	for i, record := range sink.All() {
		isEntity := strings.HasPrefix(record.EventName, "entity.")
		if marked := record.ScopeAttributes["otel.entity.event_as_log"] == true; marked != isEntity {
			t.Errorf("record %d with the event name %q has scope attributes %v", i, record.EventName, record.ScopeAttributes)
		}
		if isEntity && (record.Resource["k8s.cluster.uid"] == nil || record.ScopeName != "github.com/k8swatchlist/k8swatchlistreceiver") {
			t.Errorf("an entity event is without its cluster or scope: %+v", record)
		}
		if record.EventName == "entity.state" && record.Attributes["entity.report.interval"] != int64(0) {
			t.Errorf("nothing is reported at intervals, but an event names one: %+v", record)
		}
	}
}

// TestEntitiesAreReportedAtIntervals: with relists that emit every object, every entity is reported again, and its events
// name the time within which.
func TestEntitiesAreReportedAtIntervals(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 2, harness.SmallPod)
	sink := harness.StartRawSink(t)
	collector := harness.StartCollector(t, toOTLP(sink, "k8s_watchlist", kubeconfig(c.Kubeconfig())+`
entities: true
resources: [pods]
relist: {interval: 5s, emit: snapshot}
`), "--feature-gates="+harness.ShortRelistGate)
	sink.Await(t, catchUp, "each pod to be reported three times", func(records []harness.RawRecord) string {
		reports := map[string]int{}
		for _, record := range records {
			if record.EventName == "entity.state" {
				reports[entityID(record.Attributes)]++
				if record.Attributes["entity.report.interval"] != int64(6) {
					t.Fatalf("relists come every 5 s, spread by a fifth, but an event names another time: %+v", record)
				}
			}
		}
		enough := 0
		for _, n := range reports {
			if n >= 3 {
				enough++
			}
		}
		if enough < 2 {
			return fmt.Sprint(reports)
		}
		return ""
	})
	collector.Interrupt(t)
}

// entityWorld has objects that are related.
type entityWorld struct{ *harness.Cluster }

// create makes a node, a Deployment, its ReplicaSet, its pod on the node, and a widget that the widget parent owns.
func (w *entityWorld) create(t *testing.T, name string) {
	t.Helper()
	w.put(t, entityNodes, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-`+name+`","labels":{"zone":"a"}}}`)
	template := `"selector":{"matchLabels":{"app":"` + name + `"}},"template":{"metadata":{"labels":{"app":"` + name + `"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	deployment := w.put(t, deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"`+name+`","labels":{"app":"`+name+`"}},"spec":{`+template+`}}`)
	replicaSet := w.put(t, entityReplicaSets, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"`+name+`",`+owned(deployment, true)+`},"spec":{`+template+`}}`)
	w.put(t, harness.Pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`","labels":{"app":"`+name+`"},`+owned(replicaSet, true)+
		`},"spec":{"nodeName":"node-`+name+`","containers":[{"name":"c","image":"i"}]}}`)
	parent, err := w.Dynamic.Resource(widgets).Namespace("default").Get(t.Context(), "parent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"child-of-`+name+`",`+owned(parent, false)+`}}`)
}

func owned(by *unstructured.Unstructured, controls bool) string {
	return fmt.Sprintf(`"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":%t}]`,
		by.GetAPIVersion(), by.GetKind(), by.GetName(), by.GetUID(), controls)
}

func (w *entityWorld) put(t *testing.T, resource schema.GroupVersionResource, json string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(json)); err != nil {
		t.Fatal(err)
	}
	client := w.Dynamic.Resource(resource)
	var err error
	if resource == entityNodes {
		object, err = client.Create(t.Context(), object, metav1.CreateOptions{})
	} else {
		object, err = client.Namespace("default").Create(t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatalf("cannot create %s: %v", json, err)
	}
	return object
}

func (w *entityWorld) patch(t *testing.T, resource schema.GroupVersionResource, name, patch string) {
	t.Helper()
	if _, err := w.Dynamic.Resource(resource).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("cannot patch %s %s: %v", resource.Resource, name, err)
	}
}

// await waits until the events lead to what the API server lists, with at least one of them after the mark.
func (w *entityWorld) await(t *testing.T, sink *harness.RawSink, mark int) {
	t.Helper()
	listed := w.list(t)
	sink.Await(t, catchUp, "the entities to be those of the LIST", func(records []harness.RawRecord) string {
		if !slices.ContainsFunc(records[mark:], func(r harness.RawRecord) bool { return r.EventName == "entity.state" }) {
			return "no new event"
		}
		found := foldEntities(records)
		for id, want := range listed {
			if got := found[id]; !reflect.DeepEqual(got, want) {
				return fmt.Sprintf("%s is %+v, want %+v", id, got, want)
			}
		}
		for id := range found {
			if _, ok := listed[id]; !ok {
				return id + " is gone"
			}
		}
		return ""
	})
}

// foldEntities returns the state of a consumer for which each event is the whole state of its entity.
func foldEntities(records []harness.RawRecord) map[string]entityState {
	found := map[string]entityState{}
	for _, record := range records {
		id := entityID(record.Attributes)
		switch record.EventName {
		case "entity.state":
			state := entityState{description: maps.Clone(record.Attributes["entity.description"].(map[string]any))}
			related, _ := record.Attributes["entity.relationships"].([]any)
			for _, r := range related {
				r := r.(map[string]any)
				state.relationships = append(state.relationships, fmt.Sprintf("%s %s", r["relationship.type"], entityID(r)))
			}
			slices.Sort(state.relationships)
			found[id] = state
		case "entity.delete":
			delete(found, id)
		}
	}
	return found
}

func entityID(attributes map[string]any) string {
	return fmt.Sprintf("%v %v", attributes["entity.type"], attributes["entity.id"])
}

// list returns what the entities have to be, from LISTs of the API server.
func (w *entityWorld) list(t *testing.T) map[string]entityState {
	t.Helper()
	all := map[string]entityState{}
	uidOfNode := map[string]types.UID{}
	for _, of := range entityTypes {
		objects, err := w.Dynamic.Resource(of.resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range objects.Items {
			o := &objects.Items[i]
			prefix := of.entityType
			state := entityState{description: map[string]any{prefix + ".name": o.GetName()}}
			id := fmt.Sprintf("%s map[%s.uid:%s]", prefix, prefix, o.GetUID())
			switch of.resource {
			case entityNamespaces:
				id = fmt.Sprintf("%s map[%s.name:%s]", prefix, prefix, o.GetName())
				delete(state.description, prefix+".name")
			case entityNodes:
				uidOfNode[o.GetName()] = o.GetUID()
			case widgets:
				state.description["k8s.object.kind"], state.description["k8s.object.api_version"] = "Widget", "example.com/v1"
			case harness.Pods:
				node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
				phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
				state.description["k8s.node.name"], state.description["k8s.pod.status.phase"] = node, phase
				state.relationships = append(state.relationships, fmt.Sprintf("scheduled_on k8s.node map[k8s.node.uid:%s]", uidOfNode[node]))
			}
			for key, value := range o.GetLabels() {
				state.description[prefix+".label."+key] = value
			}
			if o.GetNamespace() != "" {
				state.description["k8s.namespace.name"] = o.GetNamespace()
				state.relationships = append(state.relationships, fmt.Sprintf("part_of k8s.namespace map[k8s.namespace.name:%s]", o.GetNamespace()))
			}
			for _, owner := range o.GetOwnerReferences() {
				kind, ownerType := "owned_by", "k8s.object"
				if *owner.Controller {
					kind = "managed_by"
				}
				if owner.Kind != "Widget" {
					ownerType = "k8s." + strings.ToLower(owner.Kind)
				}
				state.relationships = append(state.relationships, fmt.Sprintf("%s %s map[%s.uid:%s]", kind, ownerType, ownerType, owner.UID))
			}
			slices.Sort(state.relationships)
			all[id] = state
		}
	}
	return all
}
