package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

var (
	created = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	updated = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	marked  = time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	read    = time.Date(2026, 3, 4, 11, 0, 0, 123456789, time.UTC)

	pods        = &scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}}
	nodes       = &scope.Scope{GroupResource: schema.GroupResource{Resource: "nodes"}}
	events      = &scope.Scope{GroupResource: schema.GroupResource{Resource: "events"}}
	events2     = &scope.Scope{GroupResource: schema.GroupResource{Group: "events.k8s.io", Resource: "events"}}
	shardOfPods = &scope.Scope{GroupResource: pods.GroupResource, Shard: shard.Shard{Index: 2, Total: 4, By: shard.Namespace}}
	teamWeb     = &scope.Scope{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "shop", LabelSelector: "team=web", FieldSelector: "metadata.name!=x"}
)

func pod() redact.Object {
	return redact.Object{
		Identity:   redact.Identity{UID: "pod-uid", ResourceVersion: "1042", Namespace: "shop", Name: "web-1"},
		APIVersion: "v1",
		Kind:       "Pod",
		Generation: 2,
		Owner:      redact.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d", UID: "rs-uid", Controls: true},
		Times:      redact.Times{Created: created, Updated: updated},
		Pod:        &redact.Pod{Node: "n1", Phase: "Running", IP: "10.0.0.7", Started: "2026-03-01T08:00:01Z", TemplateHash: "7c9d"},
		JSON:       `{"kind":"Pod","metadata":{"name":"web-1"},"spec":{"containers":[{"name":"c","ports":[80,8.5]}],"hostNetwork":false}}`,
	}
}

func podWith(change func(*redact.Object)) redact.Object {
	o := pod()
	change(&o)
	return o
}

// podAttributes returns the attributes of pod(), with those that a case adds or (nil) removes.
func podAttributes(more map[string]any) map[string]any {
	all := map[string]any{
		"k8s.change.inferred":         false,
		"k8s.resource.name":           "pods",
		"k8s.object.kind":             "Pod",
		"k8s.object.api_version":      "v1",
		"k8s.object.name":             "web-1",
		"k8s.object.uid":              "pod-uid",
		"k8s.object.resource_version": "1042",
		"k8s.object.generation":       int64(2),
		"k8s.namespace.name":          "shop",
		"k8s.owner.kind":              "ReplicaSet",
		"k8s.owner.name":              "web-7c9d",
		"k8s.owner.uid":               "rs-uid",
		"k8s.owner.api_version":       "apps/v1",
		"k8s.replicaset.name":         "web-7c9d",
		"k8s.replicaset.uid":          "rs-uid",
		"k8s.deployment.name":         "web",
		"k8s.node.name":               "n1",
		"k8s.pod.start_time":          "2026-03-01T08:00:01Z",
		"k8s.pod.status.phase":        "Running",
		"k8s.pod.name":                "web-1",
		"k8s.pod.uid":                 "pod-uid",
	}
	for key, value := range more {
		if value == nil {
			delete(all, key)
		} else {
			all[key] = value
		}
	}
	return all
}

var podBody = map[string]any{
	"kind":     "Pod",
	"metadata": map[string]any{"name": "web-1"},
	"spec": map[string]any{
		"containers":  []any{map[string]any{"name": "c", "ports": []any{80.0, 8.5}}},
		"hostNetwork": false,
	},
}

type recordCase struct {
	name       string
	change     watchlist.Change
	event      string
	severity   plog.SeverityNumber
	text       string // of the severity
	timestamp  time.Time
	attributes map[string]any
	body       any
}

func recordCases() []recordCase {
	set := &watchlist.SnapshotInfo{Epoch: "e7"}
	warning := redact.Object{
		Identity:   redact.Identity{UID: "ev-uid", ResourceVersion: "77", Namespace: "shop", Name: "web-1.18c"},
		APIVersion: "v1", Kind: "Event",
		Event: &redact.Event{
			Type: "Warning", Reason: "BackOff", Action: "Restarting", Note: "Back-off restarting web", Count: 11,
			ReportingController: "kubelet", ReportingInstance: "n1", Host: "n1",
			Regarding: redact.Reference{
				APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "pod-uid", ResourceVersion: "1042", FieldPath: "spec.containers{web}",
			},
		},
		Times: redact.Times{Created: created, Observed: updated},
		JSON:  `{"reason":"BackOff"}`,
	}
	eventAttributes := func(group, changeType, origin string) map[string]any {
		m := map[string]any{
			"k8s.change.type": changeType, "k8s.change.origin": origin, "k8s.change.inferred": false, "k8s.resource.name": "events",
			"k8s.event.name": "web-1.18c", "k8s.event.uid": "ev-uid", "k8s.event.resource_version": "77",
			"k8s.event.type": "Warning", "k8s.event.reason": "BackOff", "k8s.event.action": "Restarting", "k8s.event.count": int64(11),
			"k8s.event.start_time": "2026-03-01T08:00:00Z", "k8s.event.reporting_controller": "kubelet", "k8s.event.reporting_instance": "n1",
			"k8s.object.kind": "Pod", "k8s.object.api_version": "v1", "k8s.object.name": "web-1", "k8s.object.uid": "pod-uid",
			"k8s.object.resource_version": "1042", "k8s.object.fieldpath": "spec.containers{web}", "k8s.namespace.name": "shop",
			"k8s.pod.name": "web-1", "k8s.pod.uid": "pod-uid", "k8s.node.name": "n1",
		}
		if group != "" {
			m["k8s.resource.group"] = group
		}
		return m
	}
	suppressed := eventAttributes("", "MODIFIED", "live")
	suppressed["k8s.event.suppressed"] = int64(3)
	return []recordCase{
		{
			name:      "initial snapshot",
			change:    watchlist.Change{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Initial, Object: pod(), ReadAt: read},
			event:     "k8s.object.snapshot",
			timestamp: updated,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "SNAPSHOT", "k8s.change.origin": "initial"}),
			body: podBody,
		},
		{
			name:      "snapshot of a set",
			change:    watchlist.Change{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Relist, Object: pod(), ReadAt: read, Snapshot: set},
			event:     "k8s.object.snapshot",
			timestamp: updated,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "SNAPSHOT", "k8s.change.origin": "relist", "k8s.snapshot.epoch": "e7"}),
			body: podBody,
		},
		{
			name:      "added",
			change:    watchlist.Change{Scope: pods, Type: watchlist.Added, Origin: watchlist.Live, Object: pod(), ReadAt: read},
			event:     "k8s.object.added",
			timestamp: created,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "ADDED", "k8s.change.origin": "live"}),
			body: podBody,
		},
		{
			name:      "modified",
			change:    watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Recovered, Object: pod(), ReadAt: read},
			event:     "k8s.object.modified",
			timestamp: updated,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "MODIFIED", "k8s.change.origin": "recovered"}),
			body: podBody,
		},
		{
			name: "modified, and it is known where and by whom",
			change: watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(), ReadAt: read,
				Sections: sections(`{"spec":1,"status":1,"metadata":{"labels":{}}}`, `{"spec":1,"status":2,"metadata":{}}`),
				Manager:  redact.Manager{Name: "kubelet", Operation: "Update", Subresource: "status"}},
			event:     "k8s.object.modified",
			timestamp: updated,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "MODIFIED", "k8s.change.origin": "live", "k8s.change.sections": []any{"metadata.labels", "status"},
				"k8s.change.manager": "kubelet", "k8s.change.operation": "Update", "k8s.change.subresource": "status"}),
			body: podBody,
		},
		{
			name: "modified, and its last state is known",
			change: watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(), ReadAt: read,
				Diff: &diff.Diff{More: 3, Changes: []diff.Change{{Path: "spec.nodeName", New: diff.Value{JSON: `"n1"`}}}}},
			event:     "k8s.object.modified",
			timestamp: updated,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "MODIFIED", "k8s.change.origin": "live",
				"k8s.change.diff": []any{map[string]any{"path": "spec.nodeName", "new": "n1"}}, "k8s.change.diff_more": int64(3)}),
			body: podBody,
		},
		{
			name: "deleted",
			change: watchlist.Change{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Live, ReadAt: read,
				Object: podWith(func(o *redact.Object) { o.Times.Deleted = marked })},
			event:     "k8s.object.deleted",
			timestamp: marked,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "DELETED", "k8s.change.origin": "live"}),
			body: podBody,
		},
		{
			name: "inferred delete",
			change: watchlist.Change{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, ReadAt: read,
				Object: redact.Object{Identity: pod().Identity, APIVersion: "v1", Kind: "Pod"}},
			event:     "k8s.object.deleted",
			timestamp: read,
			attributes: podAttributes(map[string]any{
				"k8s.change.type": "DELETED", "k8s.change.origin": "recovered", "k8s.change.inferred": true,
				"k8s.object.generation": nil, "k8s.owner.kind": nil, "k8s.owner.name": nil, "k8s.owner.uid": nil, "k8s.owner.api_version": nil,
				"k8s.replicaset.name": nil, "k8s.replicaset.uid": nil, "k8s.deployment.name": nil,
				"k8s.node.name": nil, "k8s.pod.start_time": nil, "k8s.pod.status.phase": nil}),
		},
		{
			name:       "warning event",
			change:     watchlist.Change{Scope: events, Type: watchlist.Added, Origin: watchlist.Live, Object: warning, ReadAt: read},
			event:      "k8s.event",
			severity:   plog.SeverityNumberWarn,
			text:       "Warning",
			timestamp:  updated,
			attributes: eventAttributes("", "ADDED", "live"),
			body:       "Back-off restarting web",
		},
		{
			name:       "event of events.k8s.io, expired",
			change:     watchlist.Change{Scope: events2, Type: watchlist.Deleted, Origin: watchlist.Live, ReadAt: read, Object: warning},
			event:      "k8s.event",
			severity:   plog.SeverityNumberWarn,
			text:       "Warning",
			timestamp:  updated,
			attributes: eventAttributes("events.k8s.io", "DELETED", "live"),
			body:       "Back-off restarting web",
		},
		{
			name:       "last of several states of an event",
			change:     watchlist.Change{Scope: events, Type: watchlist.Modified, Origin: watchlist.Live, Object: warning, ReadAt: read, Suppressed: 3},
			event:      "k8s.event",
			severity:   plog.SeverityNumberWarn,
			text:       "Warning",
			timestamp:  updated,
			attributes: suppressed,
			body:       "Back-off restarting web",
		},
		{
			name: "inferred deletion of an event",
			change: watchlist.Change{Scope: events, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, ReadAt: read,
				Object: redact.Object{Identity: warning.Identity, APIVersion: "v1", Kind: "Event"}},
			event:     "k8s.event",
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.type": "DELETED", "k8s.change.origin": "recovered", "k8s.change.inferred": true, "k8s.resource.name": "events",
				"k8s.event.name": "web-1.18c", "k8s.event.uid": "ev-uid", "k8s.event.resource_version": "77", "k8s.namespace.name": "shop",
			},
		},
		{
			name: "gap",
			change: watchlist.Change{Scope: teamWeb, Type: watchlist.Gap, Origin: watchlist.Recovered, ReadAt: read,
				Gap: &watchlist.GapInfo{Reason: "expired", FromRV: "100", ToRV: "250", From: created,
					To: marked.Add(5 * time.Millisecond), Added: 3, Modified: 2, Deleted: 1}},
			event:     "k8s.watch.gap",
			severity:  plog.SeverityNumberWarn,
			timestamp: marked.Add(5 * time.Millisecond),
			attributes: map[string]any{
				"k8s.change.origin": "recovered",
				"k8s.resource.name": "deployments", "k8s.resource.group": "apps", "k8s.namespace.name": "shop",
				"k8s.resource.label_selector": "team=web", "k8s.resource.field_selector": "metadata.name!=x",
				"k8s.gap.reason": "expired", "k8s.gap.from_resource_version": "100", "k8s.gap.to_resource_version": "250",
				"k8s.gap.from_time": "2026-03-01T08:00:00Z", "k8s.gap.to_time": "2026-03-03T10:00:00.005Z",
				"k8s.gap.added": int64(3), "k8s.gap.modified": int64(2), "k8s.gap.deleted": int64(1),
			},
			body: "the watch of deployments.apps did not see every change between resource versions 100 and 250 (expired); " +
				"net differences: 3 added, 2 modified, 1 deleted",
		},
		{
			name: "inferred deletion in a logical cluster",
			change: watchlist.Change{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, ReadAt: read,
				Object: redact.Object{Identity: redact.Identity{UID: "u", ResourceVersion: "9", Namespace: "shop", Name: "a", Cluster: "root:org:ws"}}},
			event:     "k8s.object.deleted",
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.type": "DELETED", "k8s.change.origin": "recovered", "k8s.change.inferred": true, "k8s.resource.name": "pods",
				"k8s.object.name": "a", "k8s.object.uid": "u", "k8s.object.resource_version": "9", "k8s.namespace.name": "shop",
				"k8s.kcp.cluster": "root:org:ws", "k8s.pod.name": "a", "k8s.pod.uid": "u",
			},
		},
		{
			name: "gap of records that were refused",
			change: watchlist.Change{Scope: pods, Type: watchlist.Gap, Origin: watchlist.Recovered, ReadAt: read,
				Gap: &watchlist.GapInfo{Reason: "dropped", FromRV: "7", ToRV: "9", To: read, Dropped: 3}},
			event:     "k8s.watch.gap",
			timestamp: read,
			severity:  plog.SeverityNumberWarn,
			attributes: map[string]any{
				"k8s.change.origin": "recovered", "k8s.resource.name": "pods",
				"k8s.gap.reason": "dropped", "k8s.gap.from_resource_version": "7", "k8s.gap.to_resource_version": "9",
				"k8s.gap.to_time": read.UTC().Format(time.RFC3339Nano),
				"k8s.gap.added":   int64(0), "k8s.gap.modified": int64(0), "k8s.gap.deleted": int64(0), "k8s.gap.dropped": int64(3),
			},
			body: "the next consumer refused 3 records of pods between resource versions 7 and 9 permanently",
		},
		{
			name: "gap of an object that cannot be read",
			change: watchlist.Change{Scope: pods, Type: watchlist.Gap, Origin: watchlist.Recovered, ReadAt: read,
				Gap: &watchlist.GapInfo{Reason: "undecodable", FromRV: "7", ToRV: "9", Object: redact.Identity{Namespace: "shop", Name: "big", UID: "u"}}},
			event:     "k8s.watch.gap",
			severity:  plog.SeverityNumberWarn,
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "recovered", "k8s.resource.name": "pods",
				"k8s.gap.reason": "undecodable", "k8s.gap.from_resource_version": "7", "k8s.gap.to_resource_version": "9",
				"k8s.gap.added": int64(0), "k8s.gap.modified": int64(0), "k8s.gap.deleted": int64(0),
				"k8s.object.name": "big", "k8s.namespace.name": "shop",
			},
			body: "the watch of pods did not see every change between resource versions 7 and 9 (undecodable); " +
				"net differences: 0 added, 0 modified, 0 deleted",
		},
		{
			name: "gap of a shard",
			change: watchlist.Change{Scope: shardOfPods, Type: watchlist.Gap, Origin: watchlist.Recovered, ReadAt: read,
				Gap: &watchlist.GapInfo{Reason: "resharded", FromRV: "7", ToRV: "9"}},
			event:     "k8s.watch.gap",
			severity:  plog.SeverityNumberWarn,
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "recovered", "k8s.resource.name": "pods",
				"k8s.watchlist.shard.index": int64(2), "k8s.watchlist.shard.total": int64(4), "k8s.watchlist.shard.by": "namespace",
				"k8s.gap.reason": "resharded", "k8s.gap.from_resource_version": "7", "k8s.gap.to_resource_version": "9",
				"k8s.gap.added": int64(0), "k8s.gap.modified": int64(0), "k8s.gap.deleted": int64(0),
			},
			body: "the watch of pods did not see every change between resource versions 7 and 9 (resharded); " +
				"net differences: 0 added, 0 modified, 0 deleted",
		},
		{
			name: "gap with few details",
			change: watchlist.Change{Scope: pods, Type: watchlist.Gap, Origin: watchlist.Recovered, ReadAt: read,
				Gap: &watchlist.GapInfo{Reason: "history_reset", ToRV: "9"}},
			event:     "k8s.watch.gap",
			severity:  plog.SeverityNumberWarn,
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "recovered", "k8s.resource.name": "pods",
				"k8s.gap.reason": "history_reset", "k8s.gap.to_resource_version": "9",
				"k8s.gap.added": int64(0), "k8s.gap.modified": int64(0), "k8s.gap.deleted": int64(0),
			},
			body: "the watch of pods did not see every change between resource versions (unknown) and 9 (history_reset); " +
				"net differences: 0 added, 0 modified, 0 deleted",
		},
		{
			name:      "begin of a set",
			change:    watchlist.Change{Scope: teamWeb, Type: watchlist.SnapshotBegin, Origin: watchlist.Relist, ReadAt: read, Snapshot: set},
			event:     "k8s.snapshot.begin",
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "relist",
				"k8s.resource.name": "deployments", "k8s.resource.group": "apps", "k8s.namespace.name": "shop",
				"k8s.resource.label_selector": "team=web", "k8s.resource.field_selector": "metadata.name!=x",
				"k8s.snapshot.epoch": "e7",
			},
		},
		{
			name: "end of the set of a shard",
			change: watchlist.Change{Scope: shardOfPods, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, ReadAt: read,
				Snapshot: &watchlist.SnapshotInfo{Epoch: "e7", ResourceVersion: "300", Objects: 2}},
			event:     "k8s.snapshot.end",
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "initial", "k8s.resource.name": "pods",
				"k8s.watchlist.shard.index": int64(2), "k8s.watchlist.shard.total": int64(4), "k8s.watchlist.shard.by": "namespace",
				"k8s.snapshot.epoch": "e7", "k8s.snapshot.resource_version": "300", "k8s.snapshot.objects": int64(2),
			},
		},
		{
			name: "end of an empty set",
			change: watchlist.Change{Scope: pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, ReadAt: read,
				Snapshot: &watchlist.SnapshotInfo{Epoch: "e7", ResourceVersion: "300"}},
			event:     "k8s.snapshot.end",
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "initial", "k8s.resource.name": "pods",
				"k8s.snapshot.epoch": "e7", "k8s.snapshot.resource_version": "300", "k8s.snapshot.objects": int64(0),
			},
		},
		{
			name: "end of an incomplete set",
			change: watchlist.Change{Scope: pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, ReadAt: read,
				Snapshot: &watchlist.SnapshotInfo{Epoch: "e7", ResourceVersion: "300", Objects: 2, Incomplete: true}},
			event:     "k8s.snapshot.end",
			timestamp: read,
			attributes: map[string]any{
				"k8s.change.origin": "initial", "k8s.resource.name": "pods",
				"k8s.snapshot.epoch": "e7", "k8s.snapshot.resource_version": "300", "k8s.snapshot.objects": int64(2),
				"k8s.snapshot.incomplete": true,
			},
		},
	}
}

// sections are those in which two versions of an object differ.
func sections(before, after string) redact.SectionSet {
	plan := redact.NewPlan("", "pods")
	one, _, _ := plan.Decode([]byte(before))
	other, _, _ := plan.Decode([]byte(after))
	return plan.Changed(&one.Content, &other.Content)
}

func build(t *testing.T, o Options, changes ...watchlist.Change) []plog.LogRecord {
	t.Helper()
	logs := NewBuilder(o).Build(changes)
	if logs.ResourceLogs().Len() != 1 || logs.ResourceLogs().At(0).ScopeLogs().Len() != 1 {
		t.Fatal("want one resource and one scope")
	}
	var records []plog.LogRecord
	for _, record := range logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
		records = append(records, record)
	}
	if len(records) != len(changes) {
		t.Fatalf("%d records of %d changes", len(records), len(changes))
	}
	return records
}

func TestRecords(t *testing.T) {
	for _, tt := range recordCases() {
		t.Run(tt.name, func(t *testing.T) {
			record := build(t, Options{}, tt.change)[0]

			if got := record.EventName(); got != tt.event {
				t.Errorf("event name is %q, want %q", got, tt.event)
			}
			want := tt.severity
			if want == 0 {
				want = plog.SeverityNumberInfo
			}
			if record.SeverityNumber() != want || record.SeverityText() != tt.text {
				t.Errorf("severity is %v %q, want %v", record.SeverityNumber(), record.SeverityText(), want)
			}
			if got := record.Timestamp().AsTime(); !got.Equal(tt.timestamp) {
				t.Errorf("timestamp is %v, want %v", got, tt.timestamp)
			}
			if got := record.ObservedTimestamp().AsTime(); !got.Equal(read) {
				t.Errorf("observed timestamp is %v, want %v", got, read)
			}

			attributes := record.Attributes().AsRaw()
			if id, _ := attributes["k8s.change.id"].(string); !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
				t.Errorf("k8s.change.id is %q", id)
			}
			delete(attributes, "k8s.change.id")
			if !reflect.DeepEqual(attributes, tt.attributes) {
				t.Errorf("attributes are\n%s\nwant\n%s", pretty(attributes), pretty(tt.attributes))
			}
			if n, most := record.Attributes().Len(), capacity(&tt.change, scope.IsEvents(tt.change.Scope.GroupResource)); n > most {
				t.Errorf("%d attributes, but space is reserved for %d", n, most)
			}
			if got := record.Body().AsRaw(); pretty(got) != pretty(tt.body) {
				t.Errorf("body is\n%s\nwant\n%s", pretty(got), pretty(tt.body))
			}
		})
	}
}

func pretty(v any) string {
	b, _ := json.MarshalIndent(v, "", "  ")
	return string(b)
}

func TestBodyJSON(t *testing.T) {
	record := build(t, Options{Body: BodyJSON},
		watchlist.Change{Scope: pods, Type: watchlist.Added, Origin: watchlist.Live, Object: pod(), ReadAt: read})[0]
	if got := record.Body().AsRaw(); got != pod().JSON {
		t.Errorf("body is %v", got)
	}
	record = build(t, Options{Body: BodyJSON},
		watchlist.Change{Scope: pods, Type: watchlist.Deleted, Inferred: true, Object: redact.Object{Identity: pod().Identity}, ReadAt: read})[0]
	if got := record.Body().AsRaw(); got != nil {
		t.Errorf("body of an inferred delete is %v", got)
	}
}

// A record whose object cannot be converted to a map still reports the change, and the fault.
func TestBodyThatCannotBeMapped(t *testing.T) {
	records := build(t, Options{},
		watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, ReadAt: read,
			Object: podWith(func(o *redact.Object) { o.JSON = `{"kind":"Pod","metadata":` })},
		watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, ReadAt: read, Object: pod()})
	broken := records[0]
	if got := broken.Body().AsRaw(); got != nil {
		t.Errorf("body is %v", got)
	}
	if _, ok := broken.Attributes().Get("k8s.body.error"); !ok {
		t.Error("no attribute reports the fault")
	}
	if name, _ := broken.Attributes().Get("k8s.object.name"); name.AsString() != "web-1" {
		t.Error("the identity is missing")
	}
	if got := records[1].Body().AsRaw(); !reflect.DeepEqual(got, any(podBody)) && pretty(got) != pretty(podBody) {
		t.Errorf("body of the next record is %v", got)
	}
}

func TestResourceAndScope(t *testing.T) {
	builder := NewBuilder(Options{ClusterName: "prod", ScopeName: "example.com/receiver", ScopeVersion: "1.2.3"})
	change := []watchlist.Change{{Scope: nodes, Type: watchlist.Added, ReadAt: read}}

	logs := builder.Build(change).ResourceLogs().At(0)
	if got := logs.Resource().Attributes().AsRaw(); !reflect.DeepEqual(got, map[string]any{"k8s.cluster.name": "prod"}) {
		t.Errorf("resource is %v", got)
	}
	builder.SetClusterUID("cluster-uid")
	logs = builder.Build(change).ResourceLogs().At(0)
	if got := logs.Resource().Attributes().AsRaw(); !reflect.DeepEqual(got,
		map[string]any{"k8s.cluster.name": "prod", "k8s.cluster.uid": "cluster-uid"}) {
		t.Errorf("resource is %v", got)
	}
	scope := logs.ScopeLogs().At(0)
	if scope.Scope().Name() != "example.com/receiver" || scope.Scope().Version() != "1.2.3" {
		t.Errorf("scope is %q %q", scope.Scope().Name(), scope.Scope().Version())
	}
	const schema = "https://opentelemetry.io/schemas/1.43.0"
	if logs.SchemaUrl() != schema || scope.SchemaUrl() != schema {
		t.Errorf("schema URLs are %q and %q", logs.SchemaUrl(), scope.SchemaUrl())
	}

	logs = NewBuilder(Options{}).Build(change).ResourceLogs().At(0)
	if n := logs.Resource().Attributes().Len(); n != 0 {
		t.Errorf("the resource of an unknown cluster has %d attributes", n)
	}
	if n := builder.Build(nil).ResourceLogs().Len(); n != 0 {
		t.Errorf("no changes make %d resources", n)
	}
}

func TestOrder(t *testing.T) {
	var changes []watchlist.Change
	for _, tt := range recordCases() {
		changes = append(changes, tt.change)
	}
	for i, record := range build(t, Options{}, changes...) {
		if want := recordCases()[i].event; record.EventName() != want {
			t.Errorf("record %d is %q, want %q", i, record.EventName(), want)
		}
	}
}

// The example of the reference is the actual output.
func TestDocumentedExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "records.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "```")

	logs := NewBuilder(Options{
		ClusterName: "prod-eu-1", ClusterUID: "0b6a1d8e-5a0f-4a7e-9c61-3d2f8e7b9a10",
		ScopeName: "github.com/k8swatchlist/k8swatchlistreceiver", ScopeVersion: "0.1.0",
	}).Build([]watchlist.Change{{
		Scope: &scope.Scope{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}},
		Type:  watchlist.Modified, Origin: watchlist.Live,
		ReadAt: time.Date(2026, 3, 2, 9, 30, 0, 84_000_000, time.UTC),
		Object: redact.Object{
			Identity: redact.Identity{UID: "6f0e3a52-7c41-4c57-8f0b-2d9f6a1c7e33", ResourceVersion: "48213",
				Namespace: "shop", Name: "web"},
			APIVersion: "apps/v1", Kind: "Deployment", Generation: 7,
			Times: redact.Times{Created: created, Updated: updated},
			JSON:  `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":5}}`,
		},
	}})
	got, err := (&plog.JSONMarshaler{}).MarshalLogs(logs)
	if err != nil {
		t.Fatal(err)
	}
	var gotAny, wantAny any
	if err := json.Unmarshal(got, &gotAny); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(example), &wantAny); err != nil {
		t.Fatalf("example is not JSON: %v", err)
	}
	// The order of attributes does not matter.
	sorted := func(v any) string {
		return pretty(sortByKey(v))
	}
	if sorted(gotAny) != sorted(wantAny) {
		t.Errorf("the example should be\n%s", pretty(gotAny))
	}
}

// sortByKey sorts OTLP key-value lists.
func sortByKey(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = sortByKey(value)
		}
	case []any:
		for i := range v {
			v[i] = sortByKey(v[i])
		}
		key := func(v any) string {
			m, _ := v.(map[string]any)
			s, _ := m["key"].(string)
			return s
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	}
	return v
}
