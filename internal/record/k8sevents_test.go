package record

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const coreEvent = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"web-1.18c","namespace":"shop","uid":"ev-uid","resourceVersion":"77","creationTimestamp":"2026-03-01T08:00:00Z"},
"involvedObject":{"kind":"Pod","namespace":"shop","name":"web-1","uid":"pod-uid","apiVersion":"v1","resourceVersion":"1042","fieldPath":"spec.containers{c}"},
"reason":"BackOff","message":"Back-off restarting","source":{"component":"kubelet","host":"n1"},"firstTimestamp":"2026-03-01T08:00:00Z","lastTimestamp":"2026-03-02T09:30:00Z",
"count":7,"type":"Warning","eventTime":null,"reportingComponent":"kubelet","reportingInstance":"n1"}`

const newEvent = `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"web-1.18c","namespace":"shop","uid":"ev-uid","resourceVersion":"77","creationTimestamp":"2026-03-01T08:00:00Z"},
"regarding":{"kind":"Pod","namespace":"shop","name":"web-1","uid":"pod-uid","apiVersion":"v1","resourceVersion":"1042","fieldPath":"spec.containers{c}"},
"reason":"BackOff","note":"Back-off restarting","deprecatedSource":{"component":"kubelet","host":"n1"},"deprecatedFirstTimestamp":"2026-03-01T08:00:00Z","deprecatedLastTimestamp":"2026-03-02T09:30:00Z",
"deprecatedCount":7,"type":"Warning","eventTime":null,"reportingController":"kubelet","reportingInstance":"n1"}`

// decoded returns the change of an Event that comes as JSON.
func decoded(t *testing.T, of *scope.Scope, changeType watchlist.Type, json string) watchlist.Change {
	t.Helper()
	object, _, err := redact.NewPlan(of.Group, of.Resource).Decode([]byte(json))
	require.NoError(t, err)
	return watchlist.Change{Scope: of, Type: changeType, Origin: watchlist.Live, Object: object, ReadAt: read}
}

func k8sEvent(t *testing.T, c watchlist.Change) (record plog.LogRecord, resource map[string]any) {
	t.Helper()
	return inFormat(t, FormatK8sEvents, "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8seventsreceiver", c)
}

func TestK8sEvents(t *testing.T) {
	resource := map[string]any{
		"k8s.node.name": "n1", "k8s.object.kind": "Pod", "k8s.object.name": "web-1", "k8s.object.uid": "pod-uid",
		"k8s.object.fieldpath": "spec.containers{c}", "k8s.object.api_version": "v1", "k8s.object.resource_version": "1042",
	}
	attributes := map[string]any{
		"k8s.event.reason": "BackOff", "k8s.event.action": "", "k8s.event.start_time": "2026-03-01 08:00:00 +0000 UTC",
		"k8s.event.name": "web-1.18c", "k8s.event.uid": "ev-uid", "k8s.namespace.name": "shop", "k8s.event.count": int64(7),
		"k8s.event.reporting_controller": "kubelet", "k8s.event.reporting_instance": "n1",
	}
	nowhere := map[string]any{
		"k8s.node.name": "", "k8s.object.kind": "", "k8s.object.name": "", "k8s.object.uid": "",
		"k8s.object.fieldpath": "", "k8s.object.api_version": "", "k8s.object.resource_version": "",
	}
	with := func(of map[string]any, more map[string]any) map[string]any {
		all := maps.Clone(of)
		for key, value := range more {
			if value == nil {
				delete(all, key)
			} else {
				all[key] = value
			}
		}
		return all
	}
	recovered := decoded(t, events, watchlist.Modified, coreEvent)
	recovered.Origin, recovered.Suppressed, recovered.Object.RedactionFailed = watchlist.Recovered, 3, true
	for name, tt := range map[string]struct {
		change     watchlist.Change
		resource   map[string]any
		attributes map[string]any
		severity   plog.SeverityNumber
		text       string
		body       string
		timestamp  time.Time
	}{
		"of the core group": {
			change:   decoded(t, events, watchlist.Added, coreEvent),
			resource: resource, attributes: attributes, severity: plog.SeverityNumberWarn, text: "Warning",
			body: "Back-off restarting", timestamp: updated,
		},
		"of events.k8s.io": {
			change:   decoded(t, events2, watchlist.Snapshot, newEvent),
			resource: resource, attributes: attributes, severity: plog.SeverityNumberWarn, text: "Warning",
			body: "Back-off restarting", timestamp: updated,
		},
		"a series about a node": {
			change: decoded(t, events2, watchlist.Modified, `{"metadata":{"name":"n1.1","uid":"u","creationTimestamp":"2026-03-01T08:00:00Z"},"regarding":{"kind":"Node","name":"n1"},
				"note":"up","type":"normal","eventTime":"2026-03-01T08:00:00.5Z","series":{"count":9,"lastObservedTime":"2026-03-02T09:30:00Z"},"reportingController":"c","reportingInstance":"i"}`),
			resource: with(nowhere, map[string]any{"k8s.object.kind": "Node", "k8s.object.name": "n1"}),
			attributes: with(attributes, map[string]any{"k8s.event.reason": "", "k8s.event.name": "n1.1", "k8s.event.uid": "u", "k8s.namespace.name": "",
				"k8s.event.count": int64(9), "k8s.event.reporting_controller": "c", "k8s.event.reporting_instance": "i"}),
			severity: plog.SeverityNumberInfo, text: "normal", body: "up", timestamp: updated,
		},
		"of an unknown type": {
			change:   decoded(t, events, watchlist.Added, `{"metadata":{"name":"e","namespace":"shop","uid":"u"},"type":"Notice","lastTimestamp":"2026-03-02T09:30:00Z"}`),
			resource: nowhere,
			attributes: with(attributes, map[string]any{"k8s.event.reason": "", "k8s.event.name": "e", "k8s.event.uid": "u", "k8s.namespace.name": "", "k8s.event.count": nil,
				"k8s.event.start_time": "0001-01-01 00:00:00 +0000 UTC", "k8s.event.reporting_controller": "", "k8s.event.reporting_instance": ""}),
			timestamp: updated,
		},
		"recovered, after others that were not emitted, and not redacted": {
			change:     recovered,
			resource:   resource,
			attributes: with(attributes, map[string]any{"k8s.change.origin": "recovered", "k8s.event.suppressed": int64(3), "k8s.redaction.failed": true}),
			severity:   plog.SeverityNumberWarn, text: "Warning", body: "Back-off restarting", timestamp: updated,
		},
		"of which only the identity is known": {
			change:   watchlist.Change{Scope: events, Type: watchlist.Modified, Object: redact.Object{Identity: redact.Identity{Name: "e", UID: "u"}}, ReadAt: read},
			resource: nowhere,
			attributes: with(attributes, map[string]any{"k8s.event.reason": "", "k8s.event.name": "e", "k8s.event.uid": "u", "k8s.namespace.name": "", "k8s.event.count": nil,
				"k8s.event.start_time": "0001-01-01 00:00:00 +0000 UTC", "k8s.event.reporting_controller": "", "k8s.event.reporting_instance": ""}),
			timestamp: read,
		},
	} {
		t.Run(name, func(t *testing.T) {
			record, of := k8sEvent(t, tt.change)
			assert.Equal(t, tt.resource, of)
			assert.Equal(t, tt.attributes, record.Attributes().AsRaw())
			assert.Equal(t, tt.severity, record.SeverityNumber())
			assert.Equal(t, tt.text, record.SeverityText())
			assert.Equal(t, tt.body, record.Body().AsRaw())
			assert.Equal(t, tt.timestamp, record.Timestamp().AsTime())
		})
	}
}

// Consecutive Events of one object share a resource, and the order stays.
func TestK8sEventsByObject(t *testing.T) {
	of := func(name, object string) watchlist.Change {
		return watchlist.Change{Scope: events, Type: watchlist.Added, ReadAt: read, Object: redact.Object{
			Identity: redact.Identity{Name: name}, Event: &redact.Event{Host: "n1", Regarding: redact.Reference{Kind: "Pod", Namespace: "shop", Name: object}},
		}}
	}
	logs := NewBuilder(Options{FormatOf: always(FormatK8sEvents), ClusterName: "prod"}).Build(
		[]watchlist.Change{of("1", "a"), of("2", "a"), of("3", "b"), of("4", "a")})
	var got [][]string
	for _, resource := range logs.ResourceLogs().All() {
		attributes := resource.Resource().Attributes().AsRaw()
		assert.Equal(t, "prod", attributes["k8s.cluster.name"])
		assert.NotContains(t, attributes, "k8s.namespace.name")
		names := []string{attributes["k8s.object.name"].(string)}
		for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
			name, _ := record.Attributes().Get("k8s.event.name")
			names = append(names, name.Str())
		}
		got = append(got, names)
	}
	assert.Equal(t, [][]string{{"a", "1", "2"}, {"b", "3"}, {"a", "4"}}, got)
}
