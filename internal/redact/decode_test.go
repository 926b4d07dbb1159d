package redact

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

func decode(t *testing.T, plan *Plan, data string) Object {
	t.Helper()
	obj, _, err := plan.Decode([]byte(data))
	require.NoError(t, err)
	return obj
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, s)
	require.NoError(t, err)
	return parsed.UTC()
}

func TestDecodeReturnsFacts(t *testing.T) {
	obj, _, err := pods.Decode(realObject(t, "pod.json"))
	require.NoError(t, err)
	obj.JSON, obj.Content = "", Content{}
	assert.Equal(t, Object{
		Identity:   Identity{UID: "8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a77", ResourceVersion: "184467", Namespace: "shop", Name: "web-7c9d5f8b6d-x2v4k"},
		APIVersion: "v1",
		Kind:       "Pod",
		Generation: 1,
		Owner:      Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d5f8b6d", UID: "51a3e6c2-77ab-4b1e-8d39-0f6f4f3a2c10", Controls: true},
		Times:      Times{Created: at(t, "2026-07-30T09:14:18Z"), Updated: at(t, "2026-07-30T09:14:22Z")},
		Managers:   [2]Manager{{Name: "kubelet", Operation: "Update", Subresource: "status"}},
		Pod: &Pod{
			Node: "ip-10-0-12-34.eu-central-1.compute.internal", Phase: "Running", IP: "10.0.45.67", Started: "2026-07-30T09:14:18Z",
			TemplateHash: "7c9d5f8b6d",
		},
	}, obj)
}

func TestDecodeReturnsTheNewestManager(t *testing.T) {
	obj := decode(t, pods, `{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-04T00:00:00Z","managedFields":[
		{"time":"2026-01-02T00:00:00Z","fieldsV1":{"time":"2027-01-01T00:00:00Z"}},
		{"time":"2026-01-03T01:00:00+01:00"},{"time":"2026-01-01T00:00:00Z"},{"time":"never"},{"time":7},{},"2028-01-01T00:00:00Z"]},
		"spec":{"metadata":{"managedFields":[{"time":"2029-01-01T00:00:00Z"}]}}}`)
	assert.Equal(t, Times{
		Created: at(t, "2026-01-01T00:00:00Z"), Deleted: at(t, "2026-01-04T00:00:00Z"), Updated: at(t, "2026-01-03T00:00:00Z"),
	}, obj.Times)
}

func TestDecodeReturnsTheControllingOwner(t *testing.T) {
	for owners, want := range map[string]string{
		``:                          "",
		`{"name":"a"}`:              "a",
		`{"name":"a"},{"name":"b"}`: "a",
		`{"name":"a"},{"name":"b","controller":true}`:                     "b",
		`{"name":"a"},{"controller":true,"name":"b"}`:                     "b",
		`{"name":"a","controller":false},{"name":"b","controller":true}`:  "b",
		`{"name":"a","controller":true},{"name":"b","controller":true}`:   "a",
		`{"name":"a","controller":"true"},{"name":"b","controller":true}`: "b",
		`"x",{"name":"a"}`: "a",
	} {
		obj := decode(t, pods, `{"metadata":{"ownerReferences":[`+owners+`]}}`)
		assert.Equal(t, want, obj.Owner.Name, owners)
	}
}

func TestDecodeReturnsTheLastObservationOfEvents(t *testing.T) {
	times := []string{
		`"firstTimestamp":"2026-01-01T00:00:01Z"`,
		`"eventTime":"2026-01-01T00:00:02.000002Z"`,
		`"lastTimestamp":"2026-01-01T00:00:03Z"`,
		`"series":{"lastObservedTime":"2026-01-01T00:00:04.5Z"}`,
	}
	want := []string{"2026-01-01T00:00:01Z", "2026-01-01T00:00:02.000002Z", "2026-01-01T00:00:03Z", "2026-01-01T00:00:04.5Z"}
	for _, plan := range []*Plan{NewPlan("", "events"), NewPlan("events.k8s.io", "events")} {
		for i := range times {
			obj := decode(t, plan, `{"type":"Warning",`+strings.Join(times[:i+1], ",")+`}`)
			assert.Equal(t, at(t, want[i]), obj.Times.Observed)
			assert.Equal(t, "Warning", obj.Event.Type)
		}
	}
	obj := decode(t, NewPlan("events.k8s.io", "events"), `{"series":null,"deprecatedLastTimestamp":null,"eventTime":null,"deprecatedFirstTimestamp":"2026-01-01T00:00:01Z"}`)
	assert.Equal(t, at(t, "2026-01-01T00:00:01Z"), obj.Times.Observed)

	obj = decode(t, pods, `{"type":"x",`+times[0]+`}`)
	assert.Nil(t, obj.Event, "only Events have it")
	assert.Zero(t, obj.Times.Observed)
}

// An Event has the same facts through both APIs.
func TestDecodeEvent(t *testing.T) {
	regarding := Reference{
		APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u", ResourceVersion: "7", FieldPath: "spec.containers{web}",
	}
	const object = `{"kind":"Pod","namespace":"shop","name":"web-1","uid":"u","apiVersion":"v1","resourceVersion":"7","fieldPath":"spec.containers{web}"}`
	old := Event{
		Type: "Warning", Reason: "BackOff", Note: `Back-off "web"`, Count: 11, ReportingController: "kubelet", ReportingInstance: "n1",
		Host: "n1", Regarding: regarding,
	}
	series := Event{
		Type: "Warning", Reason: "FailedScheduling", Action: "Scheduling", Note: "0/3 nodes", Count: 4,
		ReportingController: "default-scheduler", ReportingInstance: "cp-1", Regarding: regarding,
	}
	single := series
	single.Count = 0
	core, v1 := NewPlan("", "events"), NewPlan("events.k8s.io", "events")
	for _, c := range []struct {
		name  string
		plan  *Plan
		event string
		want  Event
	}{
		{"old", core, `{"involvedObject":` + object + `,"reason":"BackOff","message":"Back-off \"web\"","source":{"component":"kubelet","host":"n1"},
			"firstTimestamp":"2026-01-01T00:00:01Z","count":11,"type":"Warning","eventTime":null,"reportingComponent":"","reportingInstance":""}`, old},
		{"old, with a reporting component", core, `{"involvedObject":` + object + `,"reason":"BackOff","message":"Back-off \"web\"","source":{"component":"kubelet","host":"n1"},
			"count":11,"type":"Warning","reportingComponent":"kubelet","reportingInstance":"n1"}`, old},
		{"old, in the new API", v1, `{"regarding":` + object + `,"reason":"BackOff","note":"Back-off \"web\"","deprecatedSource":{"component":"kubelet","host":"n1"},
			"deprecatedCount":11,"type":"Warning","eventTime":null}`, old},
		{"series", v1, `{"eventTime":"2026-01-01T00:00:01.000001Z","series":{"count":4,"lastObservedTime":"2026-01-01T00:00:02.000001Z"},
			"reportingController":"default-scheduler","reportingInstance":"cp-1","action":"Scheduling","reason":"FailedScheduling",
			"regarding":` + object + `,"note":"0/3 nodes","type":"Warning","deprecatedSource":{}}`, series},
		{"series, in the old API", core, `{"eventTime":"2026-01-01T00:00:01.000001Z","series":{"count":4,"lastObservedTime":"2026-01-01T00:00:02.000001Z"},
			"reportingComponent":"default-scheduler","reportingInstance":"cp-1","action":"Scheduling","reason":"FailedScheduling",
			"involvedObject":` + object + `,"message":"0/3 nodes","type":"Warning","source":{},"count":1}`, series},
		{"single", v1, `{"eventTime":"2026-01-01T00:00:01.000001Z","series":null,"reportingController":"default-scheduler","reportingInstance":"cp-1",
			"action":"Scheduling","reason":"FailedScheduling","regarding":` + object + `,"note":"0/3 nodes","type":"Warning"}`, single},
		{"nothing", v1, `{"regarding":{},"series":{},"deprecatedSource":null,"note":7}`, Event{}},
		{"with secrets", core, `{"message":"cannot dial postgres://shop:hunter2@db/x","reason":"Failed","involvedObject":{"kind":"Pod","name":"web-1"}}`,
			Event{Note: "cannot dial postgres://shop:[REDACTED]@db/x", Reason: "Failed", Regarding: Reference{Kind: "Pod", Name: "web-1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, *decode(t, c.plan, c.event).Event)
		})
	}
}

func TestDecodeIgnoresOtherPlaces(t *testing.T) {
	obj := decode(t, pods, `{"spec":{"kind":"K","metadata":{"name":"n","uid":"u"}},"metadata":{"labels":{"name":"n"},"annotations":{"uid":"u"},"resourceVersion":7},"name":"n"}`)
	obj.JSON, obj.Content = "", Content{}
	assert.Equal(t, Object{Pod: &Pod{}}, obj)
}

func TestDecodeReadsOneObject(t *testing.T) {
	data := []byte(` {"kind":"A"} {"kind":"B"}`)
	obj, n, err := pods.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, "A", obj.Kind)
	obj, n2, err := pods.Decode(data[n:])
	require.NoError(t, err)
	assert.Equal(t, "B", obj.Kind)
	assert.Equal(t, len(data), n+n2)
}

func TestDecodeRejectsOtherValues(t *testing.T) {
	for _, data := range []string{`[]`, `"secret"`, `1`, `null`, `x`, `}`, `,{}`, `{"a":1]`, `{"a":tru}`, `{"a":01}`, "{\"a\":\"\n\"}", `{"a":"\q"}`, `{"a" "b"}`, `{"a":1,}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":-}`} {
		_, _, err := pods.Decode([]byte(data))
		require.Error(t, err, data)
		assert.False(t, errors.Is(err, io.ErrUnexpectedEOF), data)
		assert.Regexp(t, `^cannot decode object: [a-z ]+ at offset \d+$`, err.Error())
	}
	for _, data := range []string{``, ` `, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":[`, `{"a":[1,`, `{"metadata":{"managedFields":[`} {
		_, _, err := pods.Decode([]byte(data))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, data)
	}
}

func TestDecodeNestsAsDeepAsEncodingJSON(t *testing.T) {
	nested := func(depth int, open, end string) []byte {
		return []byte(strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth))
	}
	for _, depth := range []int{jsonscan.MaxDepth, jsonscan.MaxDepth + 1, 20 * jsonscan.MaxDepth} {
		for _, data := range [][]byte{
			nested(depth, `{"a":`, `}`),
			append(append([]byte(`{"a":`), nested(depth-1, `[`, `]`)...), '}'),
			append(append([]byte(`{"metadata":{"managedFields":`), nested(depth-2, `[`, `]`)...), '}', '}'),
		} {
			obj, n, err := pods.Decode(data)
			require.NoError(t, err)
			require.Equal(t, depth > jsonscan.MaxDepth, obj.RedactionFailed)
			require.Equal(t, len(data), n)
			if obj.RedactionFailed {
				require.Equal(t, `{"metadata":{}}`, obj.JSON)
			}
		}
	}
}

// The time for an object stays linear, whatever its structure.
func TestDecodeOfHostileObjectsIsLinear(t *testing.T) {
	for name, data := range map[string]string{
		"Secrets in Secrets":             strings.Repeat(`{"data":{"a":"b"},"x":`, 9000) + `1` + strings.Repeat(`,"kind":"Secret"}`, 9000),
		"Secrets in the data of Secrets": strings.Repeat(`{"data":`, 9000) + `1` + strings.Repeat(`,"kind":"Secret"}`, 9000),
		"Secrets beside Secrets":         `{"a":[` + strings.Repeat(`{"data":{"a":"b"},"kind":"Secret"},`, 20_000) + `1]}`,
		"white space":                    `{"a":[` + strings.Repeat("1 , ", 200_000) + `1]}`,
		"metadata in metadata":           strings.Repeat(`{"metadata":`, 9000) + `1` + strings.Repeat(`,"managedFields":[1,2]}`, 9000),
		"environments in environments":   strings.Repeat(`{"containers":[{"env":[`, 1900) + `1` + strings.Repeat(`]}]}`, 1900),
		"bytes that are not UTF-8":       `{"a":"` + strings.Repeat("\xff", 500_000) + `"}`,
	} {
		start := time.Now()
		obj := decode(t, pods, data)
		assert.Less(t, time.Since(start), 5*time.Second, name)
		assert.True(t, jsonscan.Valid([]byte(obj.JSON)), name)
	}
}

func TestDecodeAllocatesWhatItReturns(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties the pool")
	}
	for _, o := range benchmarkObjects[:5] {
		if o.resource == "secrets" {
			continue // each fingerprint is a string
		}
		data, plan := realObject(t, o.file), NewPlan(o.group, o.resource)
		allocations := 1.0 // the JSON
		switch o.file {
		case "pod.json": // and what only pods have
			allocations = 2
		case "event-core.json": // and what only Events have, and the message, which is escaped in the JSON
			allocations = 3
		}
		assert.LessOrEqual(t, testing.AllocsPerRun(200, func() { _, _, _ = plan.Decode(data) }), allocations, o.file)
		assert.LessOrEqual(t, testing.AllocsPerRun(200, func() { _, _ = plan.Identify(data) }), 1.0, o.file)
		assert.Zero(t, testing.AllocsPerRun(200, func() { _, _ = plan.IdentifyBytes(data) }), o.file)
	}
}

func TestPlanIsSafeForConcurrentUse(t *testing.T) {
	plan, data := NewPlan("", "pods"), realObject(t, "pod.json")
	want := decode(t, plan, string(data))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				if obj, _, err := plan.Decode(data); err != nil || !reflect.DeepEqual(obj, want) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	all.Wait()
}
