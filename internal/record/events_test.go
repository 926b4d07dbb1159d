package record

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// eventFrom builds the record of an Event as an API server writes it.
func eventFrom(t *testing.T, o Options, of *scope.Scope, event string) plog.LogRecord {
	t.Helper()
	object, _, err := redact.NewPlan(of.Group, of.Resource).Decode([]byte(event))
	require.NoError(t, err)
	return build(t, o, watchlist.Change{Scope: of, Type: watchlist.Added, Origin: watchlist.Live, ReadAt: read, Object: object})[0]
}

func realEvent(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../redact/testdata/objects/" + file)
	require.NoError(t, err)
	return string(data)
}

// what are the attributes of a record but for those that are about the change.
func what(record plog.LogRecord) map[string]any {
	attributes := record.Attributes().AsRaw()
	for _, key := range []string{keyChangeID, keyChangeInferred, keyChangeOrigin, keyChangeType, keyResourceName, keyResourceGroup} {
		delete(attributes, key)
	}
	return attributes
}

func TestRealEventsOfBothAPIs(t *testing.T) {
	record := eventFrom(t, Options{}, events, realEvent(t, "event-core.json"))
	assert.Equal(t, map[string]any{
		"k8s.event.name": "web-7c9d5f8b6d-x2v4k.17c2f1a5b2d3e4f6", "k8s.event.uid": "6a9b8c7d-1e2f-4a3b-9c8d-7e6f5a4b3c2d",
		"k8s.event.resource_version": "184490", "k8s.event.type": "Warning", "k8s.event.reason": "Unhealthy", "k8s.event.count": int64(11),
		"k8s.event.start_time": "2026-07-30T09:20:00Z", "k8s.event.reporting_controller": "kubelet", "k8s.event.reporting_instance": "ip-10-0-12-34",
		"k8s.object.kind": "Pod", "k8s.object.api_version": "v1", "k8s.object.name": "web-7c9d5f8b6d-x2v4k",
		"k8s.object.uid": "8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a77", "k8s.object.resource_version": "184467", "k8s.object.fieldpath": "spec.containers{web}",
		"k8s.namespace.name": "shop", "k8s.pod.name": "web-7c9d5f8b6d-x2v4k", "k8s.pod.uid": "8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a77",
		"k8s.node.name": "ip-10-0-12-34",
	}, what(record))
	assert.Equal(t, `Readiness probe failed: HTTP probe failed with statuscode: 503 <nil> & "down"`, record.Body().Str())
	assert.Equal(t, plog.SeverityNumberWarn, record.SeverityNumber())
	assert.Equal(t, "Warning", record.SeverityText())

	record = eventFrom(t, Options{}, events2, realEvent(t, "event-v1.json"))
	assert.Equal(t, map[string]any{
		"k8s.event.name": "web-1.17c2f1a5b2d3e4f7", "k8s.event.uid": "6a9b8c7d-1e2f-4a3b-9c8d-7e6f5a4b3c2e",
		"k8s.event.resource_version": "184491", "k8s.event.type": "Warning", "k8s.event.reason": "FailedScheduling",
		"k8s.event.action": "Scheduling", "k8s.event.count": int64(4), "k8s.event.start_time": "2026-07-30T09:20:01Z",
		"k8s.event.reporting_controller": "default-scheduler", "k8s.event.reporting_instance": "default-scheduler-cp-1",
		"k8s.object.kind": "Pod", "k8s.object.name": "web-1", "k8s.object.uid": "8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a78",
		"k8s.namespace.name": "shop", "k8s.pod.name": "web-1", "k8s.pod.uid": "8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a78",
	}, what(record))
	assert.Equal(t, "0/3 nodes are available", record.Body().Str())
}

// The same Event read through either API makes the same record, but for the API group and the id.
func TestBothAPIsMakeTheSameRecord(t *testing.T) {
	const metadata = `"metadata":{"name":"e","namespace":"shop","uid":"u","resourceVersion":"9","creationTimestamp":"2026-03-01T08:00:00Z"}`
	const regarded = `{"kind":"ReplicaSet","namespace":"shop","name":"web-1","uid":"r","apiVersion":"apps/v1","resourceVersion":"7"}`
	core := eventFrom(t, Options{}, events, `{"kind":"Event","apiVersion":"v1",`+metadata+`,"involvedObject":`+regarded+`,"reason":"SuccessfulCreate",
		"message":"Created pod: web-1-x","source":{"component":"replicaset-controller"},"firstTimestamp":"2026-03-01T08:00:00Z","lastTimestamp":"2026-03-02T08:00:00Z",
		"count":3,"type":"Normal","eventTime":null,"reportingComponent":"replicaset-controller","reportingInstance":""}`)
	v1 := eventFrom(t, Options{}, events2, `{"kind":"Event","apiVersion":"events.k8s.io/v1",`+metadata+`,"regarding":`+regarded+`,"reason":"SuccessfulCreate",
		"note":"Created pod: web-1-x","deprecatedSource":{"component":"replicaset-controller"},"deprecatedFirstTimestamp":"2026-03-01T08:00:00Z",
		"deprecatedLastTimestamp":"2026-03-02T08:00:00Z","deprecatedCount":3,"type":"Normal","eventTime":null,"reportingController":"replicaset-controller"}`)
	assert.Equal(t, what(core), what(v1))
	assert.Equal(t, map[string]any{
		"k8s.event.name": "e", "k8s.event.uid": "u", "k8s.event.resource_version": "9", "k8s.event.type": "Normal", "k8s.event.reason": "SuccessfulCreate",
		"k8s.event.count": int64(3), "k8s.event.start_time": "2026-03-01T08:00:00Z", "k8s.event.reporting_controller": "replicaset-controller",
		"k8s.object.kind": "ReplicaSet", "k8s.object.api_version": "apps/v1", "k8s.object.name": "web-1", "k8s.object.uid": "r",
		"k8s.object.resource_version": "7", "k8s.namespace.name": "shop", "k8s.replicaset.name": "web-1", "k8s.replicaset.uid": "r",
	}, what(core))
	for _, record := range []plog.LogRecord{core, v1} {
		assert.Equal(t, "Created pod: web-1-x", record.Body().Str())
		assert.Equal(t, "2026-03-02T08:00:00Z", record.Timestamp().AsTime().Format("2006-01-02T15:04:05Z"))
		assert.Equal(t, plog.SeverityNumberInfo, record.SeverityNumber())
		assert.Equal(t, "Normal", record.SeverityText())
	}
}

func TestWhatEventsAreAbout(t *testing.T) {
	for name, tt := range map[string]struct {
		event string
		want  map[string]any
	}{
		"a node, as its kubelet calls it": {
			`"involvedObject":{"kind":"Node","name":"n1","uid":"n1"},"source":{"component":"kubelet","host":"n1"}`,
			map[string]any{"k8s.object.kind": "Node", "k8s.object.name": "n1", "k8s.object.uid": "n1", "k8s.node.name": "n1",
				"k8s.event.reporting_controller": "kubelet", "k8s.event.reporting_instance": "n1"},
		},
		"a node, as a controller calls it": {
			`"involvedObject":{"kind":"Node","name":"n1","uid":"u","apiVersion":"v1"}`,
			map[string]any{"k8s.object.kind": "Node", "k8s.object.name": "n1", "k8s.object.uid": "u", "k8s.object.api_version": "v1",
				"k8s.node.name": "n1", "k8s.node.uid": "u"},
		},
		"a pod that the scheduler reports, which may run on any node": {
			`"involvedObject":{"kind":"Pod","namespace":"shop","name":"p","uid":"u","apiVersion":"v1"},"source":{"component":"default-scheduler","host":"cp"}`,
			map[string]any{"k8s.object.kind": "Pod", "k8s.object.name": "p", "k8s.object.uid": "u", "k8s.object.api_version": "v1",
				"k8s.namespace.name": "shop", "k8s.pod.name": "p", "k8s.pod.uid": "u",
				"k8s.event.reporting_controller": "default-scheduler", "k8s.event.reporting_instance": "cp"},
		},
		"a namespace": {
			`"involvedObject":{"kind":"Namespace","name":"shop","uid":"u","apiVersion":"v1"}`,
			map[string]any{"k8s.object.kind": "Namespace", "k8s.object.name": "shop", "k8s.object.uid": "u", "k8s.object.api_version": "v1", "k8s.namespace.name": "shop"},
		},
		"a custom resource that is called like a built-in one": {
			`"involvedObject":{"kind":"Service","namespace":"shop","name":"s","uid":"u","apiVersion":"serving.knative.dev/v1"}`,
			map[string]any{"k8s.object.kind": "Service", "k8s.object.name": "s", "k8s.object.uid": "u", "k8s.object.api_version": "serving.knative.dev/v1",
				"k8s.namespace.name": "shop"},
		},
		"an autoscaler of any version": {
			`"involvedObject":{"kind":"HorizontalPodAutoscaler","namespace":"shop","name":"h","uid":"u","apiVersion":"autoscaling/v2"}`,
			map[string]any{"k8s.object.kind": "HorizontalPodAutoscaler", "k8s.object.name": "h", "k8s.object.uid": "u", "k8s.object.api_version": "autoscaling/v2",
				"k8s.namespace.name": "shop", "k8s.hpa.name": "h", "k8s.hpa.uid": "u"},
		},
		"nothing": {`"involvedObject":{}`, map[string]any{"k8s.namespace.name": "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			record := eventFrom(t, Options{}, events, `{"metadata":{"namespace":"default"},`+tt.event+`}`)
			assert.Equal(t, tt.want, what(record))
		})
	}
}

func TestSeverityOfEvents(t *testing.T) {
	for eventType, want := range map[string]plog.SeverityNumber{
		"Normal": plog.SeverityNumberInfo, "normal": plog.SeverityNumberInfo,
		"Warning": plog.SeverityNumberWarn, "WARNING": plog.SeverityNumberWarn, "warning": plog.SeverityNumberWarn,
		"Error": plog.SeverityNumberError, "error": plog.SeverityNumberError,
		"Critical": plog.SeverityNumberFatal, "cRITICAL": plog.SeverityNumberFatal,
		"Alarm": plog.SeverityNumberInfo, "": plog.SeverityNumberInfo,
	} {
		record := eventFrom(t, Options{}, events, `{"type":"`+eventType+`"}`)
		assert.Equal(t, want, record.SeverityNumber(), eventType)
		assert.Equal(t, eventType, record.SeverityText())
	}
	record := build(t, Options{}, watchlist.Change{Scope: events, Type: watchlist.Gap, ReadAt: read, Gap: &watchlist.GapInfo{Reason: "expired"}})[0]
	assert.Equal(t, plog.SeverityNumberWarn, record.SeverityNumber())
}

func TestBodyOfEvents(t *testing.T) {
	const event = `{"metadata":{"uid":"u"},"message":"it failed","reason":"Failed"}`
	assert.Equal(t, "it failed", eventFrom(t, Options{}, events, event).Body().AsRaw())
	assert.Equal(t, "it failed", eventFrom(t, Options{Body: BodyJSON}, events, event).Body().AsRaw())
	assert.Equal(t, event, eventFrom(t, Options{Body: BodyJSON, EventBody: EventObject}, events, event).Body().AsRaw())
	assert.Equal(t, map[string]any{"metadata": map[string]any{"uid": "u"}, "message": "it failed", "reason": "Failed"},
		eventFrom(t, Options{EventBody: EventObject}, events, event).Body().AsRaw())
	assert.Nil(t, eventFrom(t, Options{}, events, `{"metadata":{"uid":"u"}}`).Body().AsRaw())
	secret := eventFrom(t, Options{}, events, `{"message":"cannot dial postgres://shop:hunter2@db/x"}`)
	assert.Equal(t, "cannot dial postgres://shop:[REDACTED]@db/x", secret.Body().Str())
}

// The gap of an Event that cannot be read names the Event, and not what it is about.
func TestGapNamesTheEvent(t *testing.T) {
	record := build(t, Options{}, watchlist.Change{Scope: events, Type: watchlist.Gap, ReadAt: read,
		Gap: &watchlist.GapInfo{Reason: "undecodable", Object: redact.Identity{Namespace: "shop", Name: "e"}}})[0]
	name, _ := record.Attributes().Get("k8s.event.name")
	assert.Equal(t, "e", name.Str())
	_, named := record.Attributes().Get("k8s.object.name")
	assert.False(t, named)
}

// The id of a change is that of the Event's version, not of what it is about.
func TestIDOfEvents(t *testing.T) {
	of := func(event string) string {
		id, _ := eventFrom(t, Options{}, events, event).Attributes().Get(keyChangeID)
		return id.Str()
	}
	const about = `"involvedObject":{"kind":"Pod","name":"p","uid":"pod","resourceVersion":"7"}`
	one := of(`{"metadata":{"uid":"one","resourceVersion":"8"},` + about + `}`)
	assert.Equal(t, one, of(`{"metadata":{"uid":"one","resourceVersion":"8"}}`))
	assert.NotEqual(t, one, of(`{"metadata":{"uid":"two","resourceVersion":"8"},`+about+`}`))
	assert.NotEqual(t, one, of(`{"metadata":{"uid":"one","resourceVersion":"9"},`+about+`}`))
}
