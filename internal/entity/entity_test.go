package entity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/reference"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

var read = time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)

func scopeOf(resource string) *scope.Scope {
	return &scope.Scope{GroupResource: schema.ParseGroupResource(resource)}
}

// change returns the change of an object that came as JSON.
func change(t *testing.T, resource string, changeType watchlist.Type, json string) watchlist.Change {
	t.Helper()
	of := scopeOf(resource)
	object, _, err := redact.NewPlan(of.Group, of.Resource).Decode([]byte(json))
	require.NoError(t, err)
	return watchlist.Change{Scope: of, Type: changeType, Origin: watchlist.Live, Object: object, Key: watchlist.KeyOf(object.UID), ReadAt: read}
}

// appended returns the events of a batch of changes.
func appended(t *testing.T, e *Entities, changes ...watchlist.Change) []plog.LogRecord {
	t.Helper()
	logs := plog.NewLogs()
	e.Append(changes, func() plog.ScopeLogs { return logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty() })
	var events []plog.LogRecord
	for _, resource := range logs.ResourceLogs().All() {
		for _, of := range resource.ScopeLogs().All() {
			assert.Equal(t, map[string]any{"otel.entity.event_as_log": true}, of.Scope().Attributes().AsRaw())
			for _, record := range of.LogRecords().All() {
				assert.Equal(t, read, record.ObservedTimestamp().AsTime())
				events = append(events, record)
			}
		}
	}
	return events
}

func event(t *testing.T, e *Entities, c watchlist.Change) plog.LogRecord {
	t.Helper()
	events := appended(t, e, c)
	require.Len(t, events, 1)
	return events[0]
}

// list returns events as "state uid" or "delete uid", or with the name where that is the identity.
func list(events []plog.LogRecord) []string {
	var all []string
	for _, event := range events {
		for _, value := range event.Attributes().AsRaw()["entity.id"].(map[string]any) {
			all = append(all, strings.TrimPrefix(event.EventName(), "entity.")+" "+value.(string))
		}
	}
	return all
}

const (
	node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"node-uid","labels":{"zone":"a"}}}`
	pod  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"pod-uid","labels":{"app":"web","empty":""},
"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Rollout","name":"r","uid":"rollout-uid"},
{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"rs-uid","controller":true}]},
"spec":{"nodeName":"n1"},"status":{"phase":"Running","startTime":"2026-03-01T08:00:00Z"}}`
)

func relation(kind, entityType, key, value string) map[string]any {
	return map[string]any{"relationship.type": kind, "entity.type": entityType, "entity.id": map[string]any{key: value}}
}

func TestState(t *testing.T) {
	inShop := relation("part_of", "k8s.namespace", "k8s.namespace.name", "shop")
	for name, tt := range map[string]struct {
		change        watchlist.Change
		entityType    string
		id            map[string]any
		description   map[string]any
		relationships []any
	}{
		"a node": {
			change: change(t, "nodes", watchlist.Snapshot, node), entityType: "k8s.node",
			id:          map[string]any{"k8s.node.uid": "node-uid"},
			description: map[string]any{"k8s.node.name": "n1", "k8s.node.label.zone": "a"},
		},
		"a pod": {
			change: change(t, "pods", watchlist.Modified, pod), entityType: "k8s.pod",
			id: map[string]any{"k8s.pod.uid": "pod-uid"},
			description: map[string]any{
				"k8s.pod.name": "web-1", "k8s.namespace.name": "shop", "k8s.node.name": "n1", "k8s.pod.start_time": "2026-03-01T08:00:00Z",
				"k8s.pod.status.phase": "Running", "k8s.pod.label.app": "web", "k8s.pod.label.empty": "",
			},
			relationships: []any{
				relation("scheduled_on", "k8s.node", "k8s.node.uid", "node-uid"), inShop,
				relation("owned_by", "k8s.object", "k8s.object.uid", "rollout-uid"),
				relation("managed_by", "k8s.replicaset", "k8s.replicaset.uid", "rs-uid"),
			},
		},
		"a pod on a node that is not known": {
			change:     change(t, "pods", watchlist.Added, `{"metadata":{"name":"a","namespace":"shop","uid":"u"},"spec":{"nodeName":"n2"}}`),
			entityType: "k8s.pod", id: map[string]any{"k8s.pod.uid": "u"},
			description:   map[string]any{"k8s.pod.name": "a", "k8s.namespace.name": "shop", "k8s.node.name": "n2"},
			relationships: []any{relation("scheduled_on", "k8s.node", "k8s.node.name", "n2"), inShop},
		},
		"a pod that waits for a node": {
			change:     change(t, "pods", watchlist.Added, `{"metadata":{"name":"a","namespace":"shop","uid":"u"}}`),
			entityType: "k8s.pod", id: map[string]any{"k8s.pod.uid": "u"},
			description:   map[string]any{"k8s.pod.name": "a", "k8s.namespace.name": "shop"},
			relationships: []any{inShop},
		},
		"a mirror pod, which a node controls": {
			change: change(t, "pods", watchlist.Added, `{"metadata":{"name":"a","namespace":"shop","uid":"u",
				"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"node-uid","controller":true}]}}`),
			entityType: "k8s.pod", id: map[string]any{"k8s.pod.uid": "u"},
			description:   map[string]any{"k8s.pod.name": "a", "k8s.namespace.name": "shop"},
			relationships: []any{inShop, relation("managed_by", "k8s.node", "k8s.node.uid", "node-uid")},
		},
		"a namespace, whose name is its identity": {
			change: change(t, "namespaces", watchlist.Added, `{"metadata":{"name":"shop","uid":"ns-uid","labels":{"team":"a"}}}`), entityType: "k8s.namespace",
			id: map[string]any{"k8s.namespace.name": "shop"}, description: map[string]any{"k8s.namespace.label.team": "a"},
		},
		"a replica set": {
			change: change(t, "replicasets.apps", watchlist.Added, `{"metadata":{"name":"web-1","namespace":"shop","uid":"rs-uid",
				"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"d-uid","controller":true}]}}`), entityType: "k8s.replicaset",
			id: map[string]any{"k8s.replicaset.uid": "rs-uid"}, description: map[string]any{"k8s.replicaset.name": "web-1", "k8s.namespace.name": "shop"},
			relationships: []any{inShop, relation("managed_by", "k8s.deployment", "k8s.deployment.uid", "d-uid")},
		},
		"a custom resource, owned by another": {
			change: change(t, "services.serving.knative.dev", watchlist.Added, `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"s","namespace":"shop","uid":"s-uid",
				"labels":{"a/b":"c"},"ownerReferences":[{"apiVersion":"example.com/v1","kind":"App","name":"x","uid":"x-uid","controller":true}]}}`), entityType: "k8s.object",
			id: map[string]any{"k8s.object.uid": "s-uid"},
			description: map[string]any{"k8s.object.kind": "Service", "k8s.object.api_version": "serving.knative.dev/v1", "k8s.object.name": "s",
				"k8s.namespace.name": "shop", "k8s.object.label.a/b": "c"},
			relationships: []any{inShop, relation("managed_by", "k8s.object", "k8s.object.uid", "x-uid")},
		},
		"metadata of the wrong form": {
			change:     change(t, "widgets.example.com", watchlist.Added, `{"kind":"Widget","metadata":{"name":"w","uid":"w-uid","labels":["a"],"ownerReferences":{"uid":"x"}}}`),
			entityType: "k8s.object", id: map[string]any{"k8s.object.uid": "w-uid"},
			description: map[string]any{"k8s.object.kind": "Widget", "k8s.object.name": "w"},
		},
		"only the identity and the owner are known": {
			change: watchlist.Change{Scope: scopeOf("pods"), Type: watchlist.Modified, ReadAt: read, Object: redact.Object{
				Identity: redact.Identity{Name: "a", Namespace: "shop", UID: "u"}, RedactionFailed: true,
				Owner: redact.Owner{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j-uid", Controls: true},
			}},
			entityType: "k8s.pod", id: map[string]any{"k8s.pod.uid": "u"},
			description:   map[string]any{"k8s.pod.name": "a", "k8s.namespace.name": "shop"},
			relationships: []any{inShop, relation("managed_by", "k8s.job", "k8s.job.uid", "j-uid")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Options{ReportInterval: 90 * time.Minute})
			e.Learn(nodes, "n1", "node-uid")
			record := event(t, e, tt.change)
			assert.Equal(t, "entity.state", record.EventName())
			assert.Equal(t, read, record.Timestamp().AsTime())
			want := map[string]any{
				"entity.type": tt.entityType, "entity.id": tt.id, "entity.description": tt.description, "entity.report.interval": int64(5400),
			}
			if tt.relationships != nil {
				want["entity.relationships"] = tt.relationships
			}
			assert.Equal(t, want, record.Attributes().AsRaw())
		})
	}
}

func TestDelete(t *testing.T) {
	deleted := change(t, "pods", watchlist.Deleted, `{"metadata":{"name":"a","uid":"u","deletionTimestamp":"2026-03-04T10:59:00Z"}}`)
	inferred := watchlist.Change{Scope: scopeOf("namespaces"), Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, ReadAt: read,
		Object: redact.Object{Identity: redact.Identity{Name: "shop", UID: "ns-uid"}}}
	for _, tt := range []struct {
		change watchlist.Change
		at     time.Time
		want   map[string]any
	}{
		{deleted, read.Add(-time.Minute), map[string]any{"entity.type": "k8s.pod", "entity.id": map[string]any{"k8s.pod.uid": "u"}}},
		{inferred, read, map[string]any{"entity.type": "k8s.namespace", "entity.id": map[string]any{"k8s.namespace.name": "shop"}}},
	} {
		record := event(t, New(Options{}), tt.change)
		assert.Equal(t, "entity.delete", record.EventName())
		assert.Equal(t, tt.at, record.Timestamp().AsTime())
		assert.Equal(t, tt.want, record.Attributes().AsRaw())
	}
}

func TestLegacy(t *testing.T) {
	e := New(Options{Legacy: true, ReportInterval: 2 * time.Second})
	record := event(t, e, change(t, "nodes", watchlist.Added, node))
	assert.Empty(t, record.EventName())
	assert.Equal(t, map[string]any{
		"otel.entity.event.type": "entity_state", "otel.entity.type": "k8s.node", "otel.entity.id": map[string]any{"k8s.node.uid": "node-uid"},
		"otel.entity.attributes": map[string]any{"k8s.node.name": "n1", "k8s.node.label.zone": "a"}, "otel.entity.interval": int64(2000),
	}, record.Attributes().AsRaw())

	record = event(t, e, change(t, "nodes", watchlist.Deleted, node))
	assert.Empty(t, record.EventName())
	assert.Equal(t, map[string]any{
		"otel.entity.event.type": "entity_delete", "otel.entity.type": "k8s.node", "otel.entity.id": map[string]any{"k8s.node.uid": "node-uid"},
	}, record.Attributes().AsRaw())
}

// A node is known from its own changes, and one that is gone does not take its successor of the same name with it.
func TestNodes(t *testing.T) {
	e := New(Options{})
	onNode := func() any {
		record := event(t, e, change(t, "pods", watchlist.Snapshot, `{"metadata":{"name":"a","uid":"u"},"spec":{"nodeName":"n1"}}`))
		return record.Attributes().AsRaw()["entity.relationships"].([]any)[0].(map[string]any)["entity.id"]
	}
	byName := map[string]any{"k8s.node.name": "n1"}
	assert.Equal(t, byName, onNode())
	event(t, e, change(t, "nodes", watchlist.Snapshot, node))
	assert.Equal(t, map[string]any{"k8s.node.uid": "node-uid"}, onNode())
	event(t, e, change(t, "nodes", watchlist.Added, `{"metadata":{"name":"n1","uid":"second"}}`))
	event(t, e, change(t, "nodes", watchlist.Deleted, node))
	assert.Equal(t, map[string]any{"k8s.node.uid": "second"}, onNode())
	event(t, e, change(t, "nodes", watchlist.Deleted, `{"metadata":{"name":"n1","uid":"second"}}`))
	assert.Equal(t, byName, onNode())
	e.Learn(nodes, "", "x")
	e.Learn(nodes, "n1", "")
	assert.Equal(t, byName, onNode())
}

func TestWhatIsNoEntity(t *testing.T) {
	object := redact.Object{Identity: redact.Identity{Name: "a", UID: "u"}}
	for _, c := range []watchlist.Change{
		{Scope: scopeOf("events"), Type: watchlist.Added, Object: object},
		{Scope: scopeOf("events.events.k8s.io"), Type: watchlist.Deleted, Object: object},
		{Scope: scopeOf("pods"), Type: watchlist.Gap, Gap: &watchlist.GapInfo{}},
		{Scope: scopeOf("pods"), Type: watchlist.SnapshotEnd, Snapshot: &watchlist.SnapshotInfo{}},
		{Scope: scopeOf("pods"), Type: watchlist.Known, Object: object},
		{Scope: scopeOf("pods.metrics.k8s.io"), Type: watchlist.Added, Object: redact.Object{Identity: redact.Identity{Name: "a"}}},
	} {
		assert.Empty(t, appended(t, New(Options{}), c), "%v of %s", c.Type, c.Scope)
	}
}

func podOn(t *testing.T, changeType watchlist.Type, uid, node, app string) watchlist.Change {
	t.Helper()
	return change(t, "pods", changeType, fmt.Sprintf(`{"metadata":{"name":"web","namespace":"shop","uid":%q,"labels":{"app":%q}},"spec":{"nodeName":%q}}`, uid, app, node))
}

// A state event is sent for a change of the description or the relationships, and whenever the entity is reported as such.
func TestUnchangedStateIsNotSentAgain(t *testing.T) {
	e := New(Options{})
	send := func(changes ...watchlist.Change) []string {
		t.Helper()
		events := list(appended(t, e, changes...))
		e.Accepted()
		return events
	}
	modified := func(app string) watchlist.Change { return podOn(t, watchlist.Modified, "u", "n1", app) }
	assert.Equal(t, []string{"state u"}, send(podOn(t, watchlist.Added, "u", "n1", "a")))
	assert.Empty(t, send(modified("a")))
	assert.Equal(t, []string{"state u"}, send(modified("b")))
	assert.Equal(t, []string{"state u", "state u"}, send(modified("a"), modified("b")), "the second differs from the first, if not from what was accepted")
	assert.Empty(t, send(modified("b"), modified("b")))
	assert.Equal(t, []string{"state u"}, send(podOn(t, watchlist.Snapshot, "u", "n1", "b")))

	e.Learn(nodes, "n1", "node-uid")
	assert.Equal(t, []string{"state u"}, send(modified("b")), "its relationship has changed")
	assert.Equal(t, []string{"delete u", "state u"}, send(podOn(t, watchlist.Deleted, "u", "n1", "b"), podOn(t, watchlist.Added, "u", "n1", "b")))
	assert.Equal(t, []string{"delete u"}, send(podOn(t, watchlist.Deleted, "u", "n1", "b")))
	assert.Empty(t, e.sent, "what is gone is forgotten")

	assert.Equal(t, []string{"state u"}, send(modified("b")), "it is not known, as after a restart")
}

// An event that the consumer refuses for a while, or for good, was not sent.
func TestRefusedEvents(t *testing.T) {
	e := New(Options{})
	appended(t, e, podOn(t, watchlist.Added, "u", "n1", "a"))
	e.Accepted()
	changed := podOn(t, watchlist.Modified, "u", "n1", "b")
	for range 3 {
		assert.Equal(t, []string{"state u"}, list(appended(t, e, changed)))
	}
	e.Dropped()
	e.Accepted() // of what was no record in the same batch
	assert.Equal(t, []string{"state u"}, list(appended(t, e, changed)))
	e.Accepted()
	assert.Empty(t, appended(t, e, changed))
}

// A namespace is identified by its name. A comparison finds the old one gone after it has found the new one.
func TestNamespaceThatWasReplaced(t *testing.T) {
	e := New(Options{})
	e.Learn(scopeOf("namespaces").GroupResource, "shop", "first")
	of := func(changeType watchlist.Type, uid string) watchlist.Change {
		return change(t, "namespaces", changeType, fmt.Sprintf(`{"metadata":{"name":"shop","uid":%q}}`, uid))
	}
	assert.Equal(t, []string{"state shop"}, list(appended(t, e, of(watchlist.Added, "second"), of(watchlist.Deleted, "first"))))
	e.Accepted()
	assert.Equal(t, []string{"delete shop"}, list(appended(t, e, of(watchlist.Deleted, "second"))))
}

// A pod whose node is known only by name is sent again with the UID, once.
func TestPodsThatComeBeforeTheirNode(t *testing.T) {
	e := New(Options{})
	e.Reads(nodes)
	nodeOf := func(event plog.LogRecord) any {
		return event.Attributes().AsRaw()["entity.relationships"].([]any)[0].(map[string]any)["entity.id"]
	}
	first := appended(t, e, podOn(t, watchlist.Snapshot, "a", "n1", "x"), podOn(t, watchlist.Snapshot, "b", "n2", "x"), podOn(t, watchlist.Snapshot, "gone", "n1", "x"))
	require.Equal(t, []string{"state a", "state b", "state gone"}, list(first))
	assert.Equal(t, map[string]any{"k8s.node.name": "n1"}, nodeOf(first[0]))
	e.Accepted()

	batch := []watchlist.Change{podOn(t, watchlist.Deleted, "gone", "n1", "x"), change(t, "nodes", watchlist.Snapshot, node)}
	for range 2 { // the consumer refuses the first try
		events := appended(t, e, batch...)
		require.Equal(t, []string{"delete gone", "state node-uid", "state a"}, list(events))
		assert.Equal(t, map[string]any{"k8s.node.uid": "node-uid"}, nodeOf(events[2]))
		assert.Equal(t, map[string]any{"k8s.pod.name": "web", "k8s.namespace.name": "shop", "k8s.node.name": "n1", "k8s.pod.label.app": "x"},
			events[2].Attributes().AsRaw()["entity.description"])
	}
	e.Dropped()
	assert.Equal(t, []string{"state a"}, list(appended(t, e, podOn(t, watchlist.Modified, "b", "n2", "x")))[:1], "it was not accepted")
	e.Accepted()
	assert.Empty(t, appended(t, e, podOn(t, watchlist.Modified, "a", "n1", "x"), podOn(t, watchlist.Modified, "b", "n2", "x")), "both were sent")
	e.Accepted()

	e.Learn(nodes, "n2", "second") // from a checkpoint
	assert.Equal(t, []string{"state c", "state b"}, list(appended(t, e, podOn(t, watchlist.Added, "c", "n2", "x"))))
	e.Accepted()
	assert.Empty(t, e.waiting.nodes)
	assert.Empty(t, e.waiting.pods)
}

func TestWaitingIsBounded(t *testing.T) {
	e := New(Options{})
	e.Reads(nodes)
	c := podOn(t, watchlist.Snapshot, "u", "n1", "x")
	for i := range maxWaiting + 10 {
		c.Object.UID = fmt.Sprint(i)
		c.Key = watchlist.KeyOf(c.Object.UID)
		appended(t, e, c)
		e.Accepted()
	}
	assert.Len(t, e.waiting.nodes, maxWaiting)
	assert.Len(t, appended(t, e, change(t, "nodes", watchlist.Snapshot, node)), maxWaiting+1)
	e.Accepted()
	assert.Empty(t, e.waiting.nodes)

	e = New(Options{}) // nodes are not read
	e.Reads(scopeOf("pods").GroupResource)
	e.Reads(scopeOf("nodes.metrics.k8s.io").GroupResource)
	appended(t, e, podOn(t, watchlist.Snapshot, "a", "n1", "x"))
	assert.Empty(t, e.waiting.nodes)
}

// The reference has exactly the attributes of entity events.
func TestReference(t *testing.T) {
	table, err := reference.ReadFile("../../docs/records.md")
	require.NoError(t, err)
	coverage := table.NewCoverage()
	for _, legacy := range []bool{false, true} {
		e := New(Options{Legacy: legacy})
		logs := plog.NewLogs()
		e.Append([]watchlist.Change{change(t, "pods", watchlist.Added, pod), change(t, "pods", watchlist.Deleted, pod)},
			func() plog.ScopeLogs { return logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty() })
		assert.Equal(t, 2, logs.LogRecordCount())
		assert.Empty(t, coverage.AddLogs(logs))
	}
	assert.Empty(t, coverage.Missing(reference.Entity, reference.Scope), "in the reference, but not emitted")
}
