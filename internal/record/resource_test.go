package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// grouped returns the resources that the changes are built under, and their records by name and version.
func grouped(t *testing.T, o Options, changes ...watchlist.Change) (resources []map[string]any, records []string) {
	t.Helper()
	o.ClusterUID, o.ScopeName = "c", "scope"
	for _, resource := range NewBuilder(o).Build(changes).ResourceLogs().All() {
		require.Equal(t, 1, resource.ScopeLogs().Len())
		require.Equal(t, "scope", resource.ScopeLogs().At(0).Scope().Name())
		require.NotEmpty(t, resource.SchemaUrl())
		attributes := resource.Resource().Attributes().AsRaw()
		require.Equal(t, "c", attributes["k8s.cluster.uid"])
		delete(attributes, "k8s.cluster.uid")
		resources = append(resources, attributes)
		var names []string
		for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
			a := record.Attributes().AsRaw()
			if a["k8s.object.name"] == nil {
				names = append(names, record.EventName())
				continue
			}
			names = append(names, fmt.Sprintf("%s@%s", a["k8s.object.name"], a["k8s.object.resource_version"]))
		}
		records = append(records, strings.Join(names, " "))
	}
	return resources, records
}

func changeOf(s *scope.Scope, namespace, name, rv string) watchlist.Change {
	return watchlist.Change{Scope: s, Type: watchlist.Modified, Origin: watchlist.Live, ReadAt: read, Key: watchlist.KeyOf("uid-" + name), Object: redact.Object{
		Identity: redact.Identity{UID: "uid-" + name, ResourceVersion: rv, Namespace: namespace, Name: name}, Kind: "Kind", APIVersion: "v1", JSON: "{}",
	}}
}

var (
	namespaces = &scope.Scope{GroupResource: schema.GroupResource{Resource: "namespaces"}}
	knative    = &scope.Scope{GroupResource: schema.GroupResource{Group: "serving.knative.dev", Resource: "services"}}
)

func groupedChanges() []watchlist.Change {
	return []watchlist.Change{
		changeOf(pods, "shop", "a", "1"), changeOf(pods, "pay", "b", "2"), changeOf(nodes, "", "n", "3"),
		changeOf(pods, "shop", "a", "4"), changeOf(knative, "shop", "k", "5"), changeOf(namespaces, "", "pay", "6"), changeOf(nodes, "", "n", "7"),
		{Scope: pods, Type: watchlist.Known, ReadAt: read},
	}
}

func TestGroupingByCluster(t *testing.T) {
	resources, records := grouped(t, Options{}, groupedChanges()...)
	assert.Equal(t, []map[string]any{{}}, resources)
	assert.Equal(t, []string{"a@1 b@2 n@3 a@4 k@5 pay@6 n@7"}, records)
}

func TestGroupingByNamespace(t *testing.T) {
	resources, records := grouped(t, Options{Grouping: ByNamespace}, groupedChanges()...)
	assert.Equal(t, []map[string]any{{"k8s.namespace.name": "shop"}, {"k8s.namespace.name": "pay"}, {}}, resources)
	assert.Equal(t, []string{"a@1 a@4 k@5", "b@2 pay@6", "n@3 n@7"}, records)
}

func TestGroupingByObject(t *testing.T) {
	resources, records := grouped(t, Options{Grouping: ByObject}, groupedChanges()...)
	object := func(namespace, name string, more ...string) map[string]any {
		m := map[string]any{"k8s.object.kind": "Kind", "k8s.object.api_version": "v1", "k8s.object.name": name, "k8s.object.uid": "uid-" + name}
		if namespace != "" {
			m["k8s.namespace.name"] = namespace
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	assert.Equal(t, []map[string]any{
		object("shop", "a", "k8s.pod.name", "a", "k8s.pod.uid", "uid-a"),
		object("pay", "b", "k8s.pod.name", "b", "k8s.pod.uid", "uid-b"),
		object("", "n", "k8s.node.name", "n", "k8s.node.uid", "uid-n"),
		object("shop", "k"),
		object("pay", "pay"),
	}, resources)
	assert.Equal(t, []string{"a@1 a@4", "b@2", "n@3 n@7", "k@5", "pay@6"}, records)
}

// A set of snapshots ends after its records, whatever resources these are under.
func TestGroupingKeepsRecordsOfTheStreamInTheirPlace(t *testing.T) {
	stream := func(kind watchlist.Type, namespace string) watchlist.Change {
		return watchlist.Change{Scope: &scope.Scope{GroupResource: pods.GroupResource, Namespace: namespace}, Type: kind, ReadAt: read,
			Snapshot: &watchlist.SnapshotInfo{Epoch: "e"}, Gap: &watchlist.GapInfo{}}
	}
	for _, grouping := range []Grouping{ByNamespace, ByObject} {
		resources, records := grouped(t, Options{Grouping: grouping},
			changeOf(pods, "shop", "a", "1"), stream(watchlist.SnapshotBegin, "shop"), changeOf(pods, "shop", "a", "2"), changeOf(pods, "pay", "b", "3"),
			changeOf(pods, "shop", "a", "4"), stream(watchlist.SnapshotEnd, "shop"), changeOf(pods, "shop", "a", "5"), stream(watchlist.Gap, ""))
		assert.Equal(t, []string{"a@1", "k8s.snapshot.begin", "a@2 a@4", "b@3", "k8s.snapshot.end", "a@5", "k8s.watch.gap"}, records)
		assert.Equal(t, map[string]any{"k8s.namespace.name": "shop"}, resources[1])
		assert.Empty(t, resources[6])
	}
}

// eventOn returns the change of an Event that regards an object.
func eventOn(name string, r redact.Reference) watchlist.Change {
	c := changeOf(events, "default", name, "1")
	c.Object.Event = &redact.Event{Regarding: r}
	return c
}

// An Event is under the resource of what it regards, as its attributes say.
func TestGroupingOfEvents(t *testing.T) {
	changes := []watchlist.Change{
		changeOf(pods, "shop", "a", "1"),
		eventOn("e1", redact.Reference{APIVersion: "v1", Kind: "Kind", Namespace: "shop", Name: "a", UID: "uid-a"}),
		eventOn("e2", redact.Reference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"}),
		eventOn("e3", redact.Reference{APIVersion: "v1", Kind: "Namespace", Name: "pay", UID: "uid-pay"}),
		eventOn("e4", redact.Reference{}),
	}
	for _, o := range []Options{{Grouping: ByNamespace}, {Grouping: ByObject}} {
		resources, _ := grouped(t, o, changes...)
		var namespaces []any
		for _, resource := range resources {
			namespaces = append(namespaces, resource["k8s.namespace.name"])
		}
		want := []any{"shop", "shop", nil, "pay", "default"}
		if o.Grouping == ByNamespace {
			want = want[1:]
		}
		assert.Equal(t, want, namespaces)
	}
	resources, _ := grouped(t, Options{Grouping: ByObject}, changes...)
	assert.Equal(t, map[string]any{"k8s.namespace.name": "shop", "k8s.object.kind": "Kind", "k8s.object.api_version": "v1", "k8s.object.name": "a", "k8s.object.uid": "uid-a"}, resources[1])
	assert.Equal(t, map[string]any{"k8s.object.kind": "Node", "k8s.object.api_version": "v1", "k8s.object.name": "n", "k8s.object.uid": "n", "k8s.node.name": "n"}, resources[2])
	assert.Equal(t, map[string]any{"k8s.namespace.name": "default"}, resources[4])
}

// The records of one object stay in order even if its resource changes, as that of an Event does if in the end only its
// identity is known.
func TestGroupingKeepsRecordsOfAnObjectInOrder(t *testing.T) {
	of := redact.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "a", UID: "uid-a"}
	gone := changeOf(events, "default", "e1", "9")
	gone.Type, gone.Inferred = watchlist.Deleted, true
	for _, grouping := range []Grouping{ByNamespace, ByObject} {
		var order []string
		logs := NewBuilder(Options{Grouping: grouping}).Build([]watchlist.Change{eventOn("e2", redact.Reference{}), eventOn("e1", of), gone, eventOn("e3", of)})
		for _, resource := range logs.ResourceLogs().All() {
			for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
				a := record.Attributes().AsRaw()
				order = append(order, a["k8s.event.name"].(string)+" "+a["k8s.change.type"].(string))
			}
		}
		assert.Equal(t, []string{"e2 MODIFIED", "e1 MODIFIED", "e1 DELETED", "e3 MODIFIED"}, order)
	}
}

// The records are the same under each resource.
func TestGroupingDoesNotChangeRecords(t *testing.T) {
	for _, tt := range recordCases() {
		want := build(t, Options{}, tt.change)[0]
		for _, grouping := range []Grouping{ByNamespace, ByObject} {
			got := build(t, Options{Grouping: grouping}, tt.change)[0]
			assert.Equal(t, want.Attributes().AsRaw(), got.Attributes().AsRaw(), tt.name)
			assert.Equal(t, want.Body().AsRaw(), got.Body().AsRaw(), tt.name)
		}
	}
}

func TestConstantResourceAttributes(t *testing.T) {
	o := Options{ClusterName: "prod", ProcessKey: true, Resource: map[string]any{"service.name": "kubernetes", "replicas": int64(2), "ratio": 0.5, "on": true}}
	want := map[string]any{"service.name": "kubernetes", "replicas": int64(2), "ratio": 0.5, "on": true, "k8s.cluster.name": "prod", "k8s.redaction.key": "process"}
	resources, _ := grouped(t, o, changeOf(nodes, "", "n", "1"))
	assert.Equal(t, []map[string]any{want}, resources)
	o.Grouping = ByNamespace
	resources, _ = grouped(t, o, changeOf(nodes, "", "n", "1"), changeOf(pods, "shop", "a", "1"))
	assert.Equal(t, want, resources[0])
	want["k8s.namespace.name"] = "shop"
	assert.Equal(t, want, resources[1])
}

// Other formats have resources of their own, with the constant attributes, and name what was cut.
func TestConstantResourceAttributesOfOtherFormats(t *testing.T) {
	e := eventOn("e", redact.Reference{Kind: "Pod"})
	e.Cut = []string{"message"}
	ofEvents := Options{Resource: map[string]any{"service.name": "kubernetes"}, FormatOf: func(*scope.Scope) Format { return FormatK8sEvents }}
	resource := NewBuilder(ofEvents).Build([]watchlist.Change{e}).ResourceLogs().At(0)
	assert.Equal(t, "kubernetes", resource.Resource().Attributes().AsRaw()["service.name"])
	assert.Equal(t, "Pod", resource.Resource().Attributes().AsRaw()["k8s.object.kind"])
	assert.Equal(t, []any{"message"}, resource.ScopeLogs().At(0).LogRecords().At(0).Attributes().AsRaw()["k8s.record.truncated"])

	c := changeOf(pods, "shop", "a", "1")
	c.Cut = []string{"spec.x"}
	o := Options{Resource: map[string]any{"service.name": "kubernetes"}, Grouping: ByObject, FormatOf: func(*scope.Scope) Format { return FormatK8sObjects }}
	logs := NewBuilder(o).Build([]watchlist.Change{c}).ResourceLogs().At(0)
	assert.Equal(t, map[string]any{"service.name": "kubernetes", "k8s.namespace.name": "shop"}, logs.Resource().Attributes().AsRaw())
	truncated, ok := logs.ScopeLogs().At(0).LogRecords().At(0).Attributes().Get("k8s.record.truncated")
	assert.True(t, ok)
	assert.Equal(t, []any{"spec.x"}, truncated.AsRaw())
}
