package record

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// always is a format for every scope.
func always(f Format) func(*scope.Scope) Format { return func(*scope.Scope) Format { return f } }

// inFormat builds the one record of a change in the format of another receiver, whose scope has this name, and checks what
// all records of such formats have in common.
func inFormat(t *testing.T, format Format, scopeName string, c watchlist.Change) (record plog.LogRecord, resource map[string]any) {
	t.Helper()
	logs := NewBuilder(Options{
		ClusterUID: "8a1c", ProcessKey: true, Body: BodyJSON, EventBody: EventObject, ScopeName: "ours", ScopeVersion: "1.2.3",
		FormatOf: always(format),
	}).Build([]watchlist.Change{c})
	require.Equal(t, 1, logs.LogRecordCount())
	of := logs.ResourceLogs().At(0)
	scope := of.ScopeLogs().At(0)
	assert.Equal(t, scopeName, scope.Scope().Name())
	assert.Equal(t, "1.2.3", scope.Scope().Version())
	assert.Empty(t, of.SchemaUrl()+scope.SchemaUrl())
	record = scope.LogRecords().At(0)
	assert.Empty(t, record.EventName())
	assert.Equal(t, read, record.ObservedTimestamp().AsTime())
	return record, of.Resource().Attributes().AsRaw()
}

func k8sObject(t *testing.T, c watchlist.Change) (record plog.LogRecord, resource map[string]any) {
	t.Helper()
	record, resource = inFormat(t, FormatK8sObjects, "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sobjectsreceiver", c)
	assert.Zero(t, record.Timestamp())
	assert.Zero(t, record.SeverityNumber())
	assert.Empty(t, record.SeverityText())
	return record, resource
}

func TestK8sObjects(t *testing.T) {
	podMap := map[string]any{
		"kind":     "Pod",
		"metadata": map[string]any{"name": "web-1"},
		"spec": map[string]any{
			"containers":  []any{map[string]any{"name": "c", "ports": []any{int64(80), 8.5}}},
			"hostNetwork": false,
		},
	}
	inferred := redact.Object{
		Identity:   redact.Identity{UID: "pod-uid", ResourceVersion: "2000", Namespace: "shop", Name: "web-1"},
		APIVersion: "v1", Kind: "Pod",
	}
	clusterScoped := redact.Object{
		Identity: redact.Identity{UID: "node-uid", ResourceVersion: "7", Name: "n1"}, APIVersion: "v1", Kind: "Node",
		JSON: `{"kind":"Node","metadata":{"name":"n1"}}`,
	}
	stub := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web-1", "namespace": "shop", "resourceVersion": "2000", "uid": "pod-uid"},
	}
	of := func(name string, more map[string]any) map[string]any {
		attributes := map[string]any{"event.domain": "k8s", "event.name": name, "k8s.resource.name": "pods"}
		for key, value := range more {
			attributes[key] = value
		}
		return attributes
	}
	shop := map[string]any{"k8s.namespace.name": "shop"}
	for name, tt := range map[string]struct {
		change     watchlist.Change
		resource   map[string]any
		attributes map[string]any
		body       any
	}{
		"added": {
			change:   watchlist.Change{Scope: pods, Type: watchlist.Added, Origin: watchlist.Live, Object: pod()},
			resource: shop, attributes: of("web-1", nil),
			body: map[string]any{"type": "ADDED", "object": podMap},
		},
		"modified": {
			change:   watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod()},
			resource: shop, attributes: of("web-1", nil),
			body: map[string]any{"type": "MODIFIED", "object": podMap},
		},
		"deleted": {
			change:   watchlist.Change{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Live, Object: pod()},
			resource: shop, attributes: of("web-1", nil),
			body: map[string]any{"type": "DELETED", "object": podMap},
		},
		"snapshot": {
			change:   watchlist.Change{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Initial, Object: pod(), Snapshot: &watchlist.SnapshotInfo{Epoch: "e"}},
			resource: shop, attributes: map[string]any{"k8s.resource.name": "pods"},
			body: podMap,
		},
		"cluster-scoped": {
			change:   watchlist.Change{Scope: nodes, Type: watchlist.Snapshot, Origin: watchlist.Relist, Object: clusterScoped},
			resource: map[string]any{}, attributes: map[string]any{"k8s.resource.name": "nodes"},
			body: map[string]any{"kind": "Node", "metadata": map[string]any{"name": "n1"}},
		},
		"recovered": {
			change:   watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Recovered, Object: pod()},
			resource: shop, attributes: of("web-1", map[string]any{"k8s.change.origin": "recovered"}),
			body: map[string]any{"type": "MODIFIED", "object": podMap},
		},
		"inferred deletion": {
			change:   watchlist.Change{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, Object: inferred},
			resource: shop, attributes: of("web-1", map[string]any{"k8s.change.origin": "recovered", "k8s.change.inferred": true}),
			body: map[string]any{"type": "DELETED", "object": stub},
		},
		"not redacted but cut to its identity": {
			change: watchlist.Change{Scope: pods, Type: watchlist.Added, Origin: watchlist.Live,
				Object: podWith(func(o *redact.Object) { o.RedactionFailed, o.JSON = true, `{"kind":"Pod"}` })},
			resource: shop, attributes: of("web-1", map[string]any{"k8s.redaction.failed": true}),
			body: map[string]any{"type": "ADDED", "object": map[string]any{"kind": "Pod"}},
		},
		"undecodable body": {
			change: watchlist.Change{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Initial,
				Object: podWith(func(o *redact.Object) { o.Identity, o.JSON = inferred.Identity, `{"kind":` })},
			resource:   shop,
			attributes: map[string]any{"k8s.resource.name": "pods", "k8s.body.error": "cannot make map of object: unexpected EOF at offset 8"},
			body:       stub,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.change.ReadAt = read
			record, resource := k8sObject(t, tt.change)
			assert.Equal(t, tt.resource, resource)
			assert.Equal(t, tt.attributes, record.Attributes().AsRaw())
			assert.Equal(t, tt.body, record.Body().AsRaw())
		})
	}
}

// A batch has one resource for each namespace, as a list of the k8s_objects receiver does, and the records in order.
func TestK8sObjectsByNamespace(t *testing.T) {
	in := func(namespace, name string) watchlist.Change {
		return watchlist.Change{Scope: pods, Type: watchlist.Added, ReadAt: read, Object: podWith(func(o *redact.Object) {
			o.Namespace, o.Name = namespace, name
		})}
	}
	logs := NewBuilder(Options{FormatOf: always(FormatK8sObjects), ClusterName: "prod"}).Build(
		[]watchlist.Change{in("a", "1"), in("b", "1"), in("a", "2"), in("", "1"), in("b", "2")})
	var got [][]string
	for _, resource := range logs.ResourceLogs().All() {
		cluster, _ := resource.Resource().Attributes().Get("k8s.cluster.name")
		assert.Equal(t, "prod", cluster.Str())
		namespace, _ := resource.Resource().Attributes().Get("k8s.namespace.name")
		names := []string{namespace.Str()}
		require.Equal(t, 1, resource.ScopeLogs().Len())
		for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
			name, _ := record.Attributes().Get("event.name")
			names = append(names, name.Str())
		}
		got = append(got, names)
	}
	assert.Equal(t, [][]string{{"a", "1", "2"}, {"b", "1", "2"}, {"", "1"}}, got)
}

// Scopes of different formats may share a batch. Records about the stream keep the receiver's own format, and those of
// scopes with another format exist only on request.
func TestMixedFormats(t *testing.T) {
	formatOf := func(s *scope.Scope) Format {
		if s == pods {
			return FormatK8sObjects
		}
		return FormatWatchlist
	}
	gap := &watchlist.GapInfo{Reason: "expired", FromRV: "5", ToRV: "9"}
	set := &watchlist.SnapshotInfo{Epoch: "e7"}
	changes := []watchlist.Change{
		{Scope: pods, Type: watchlist.SnapshotBegin, Snapshot: set, ReadAt: read},
		{Scope: pods, Type: watchlist.Snapshot, Snapshot: set, Object: pod(), ReadAt: read},
		{Scope: pods, Type: watchlist.Advanced, Object: pod()},
		{Scope: nodes, Type: watchlist.SnapshotEnd, Snapshot: set, ReadAt: read},
		{Scope: pods, Type: watchlist.SnapshotEnd, Snapshot: set, ReadAt: read},
		{Scope: nodes, Type: watchlist.Gap, Gap: gap, ReadAt: read},
		{Scope: pods, Type: watchlist.Gap, Gap: gap, ReadAt: read},
	}
	for name, tt := range map[string]struct {
		streamRecords bool
		own           []string // event name and resource of the records in our format
		records       []bool
	}{
		"by default": {
			own:     []string{"k8s.snapshot.end nodes", "k8s.watch.gap nodes"},
			records: []bool{false, true, false, true, false, true, false},
		},
		"on request": {
			streamRecords: true,
			own: []string{"k8s.snapshot.begin pods", "k8s.snapshot.end nodes", "k8s.snapshot.end pods",
				"k8s.watch.gap nodes", "k8s.watch.gap pods"},
			records: []bool{true, true, false, true, true, true, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(Options{ScopeName: "ours", FormatOf: formatOf, StreamRecords: tt.streamRecords})
			for i, want := range tt.records {
				assert.Equal(t, want, b.IsRecord(&changes[i]), "change %d", i)
			}
			var own []string
			theirs := 0
			for _, resource := range b.Build(changes).ResourceLogs().All() {
				scope := resource.ScopeLogs().At(0)
				for _, record := range scope.LogRecords().All() {
					if scope.Scope().Name() != "ours" {
						theirs++
						continue
					}
					of, _ := record.Attributes().Get("k8s.resource.name")
					own = append(own, record.EventName()+" "+of.Str())
				}
			}
			assert.Equal(t, tt.own, own)
			assert.Equal(t, 1, theirs)
		})
	}
}
