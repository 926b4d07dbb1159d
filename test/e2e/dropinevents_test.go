package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// k8sEventsDifferences are all differences of format k8sevents.
var k8sEventsDifferences = []difference{
	{
		text: "The scope has a name and a version",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			theirs.ScopeName = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8seventsreceiver"
			theirs.ScopeVersion = collectorVersion
			return true
		},
	},
	{
		text: "Records have the attributes `k8s.event.reporting_controller` and `k8s.event.reporting_instance`",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			reporter := storyEvents[nameOfEvent(*theirs)].reporter
			theirs.Attributes["k8s.event.reporting_controller"] = reporter[0]
			theirs.Attributes["k8s.event.reporting_instance"] = reporter[1]
			return true
		},
	},
	{
		text: "Types `Error` and `Critical`, in any case, have a severity",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			switch nameOfEvent(*theirs) {
			case "error":
				theirs.Severity, theirs.SeverityText = plog.SeverityNumberError, "Error"
			case "critical":
				theirs.Severity, theirs.SeverityText = plog.SeverityNumberFatal, "CRITICAL"
			default:
				return false
			}
			return true
		},
	},
	{
		text: "ObservedTimestamp is set",
		apply: func(theirs *harness.RawRecord, ours harness.RawRecord) bool {
			unset := theirs.Observed.IsZero() && !ours.Observed.IsZero()
			theirs.Observed = ours.Observed
			return unset
		},
	},
	{
		text: "Timestamp is the last observation of a series, and `k8s.event.count` its count",
		apply: func(theirs *harness.RawRecord, ours harness.RawRecord) bool {
			if nameOfEvent(*theirs) != "series" || ours.Attributes["k8s.event.count"] == nil {
				return false // before it has become one
			}
			theirs.Timestamp = lastOfSeries
			theirs.Attributes["k8s.event.count"] = int64(2)
			return true
		},
	},
	{
		text: "Secret values in messages are masked",
		apply: func(theirs *harness.RawRecord, _ harness.RawRecord) bool {
			if theirs.Body != "refused password="+plain+" of web" {
				return false
			}
			theirs.Body = "refused password=[REDACTED] of web"
			return true
		},
	},
}

// lastOfSeries is when the series of the test was last observed.
var lastOfSeries = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// storyEvents are the Events of the test by name.
var storyEvents = map[string]struct {
	resource schema.GroupVersionResource
	fields   string // of the object, after its metadata, where NOW is the time in seconds and PRECISE in microseconds
	reporter [2]string
}{
	"warning": {coreEvents, `"type":"Warning","reason":"BackOff","message":"line\nbreak \"<&>\" größe","count":3,"firstTimestamp":"NOW","lastTimestamp":"NOW",
		"source":{"component":"kubelet","host":"n1"},"reportingComponent":"kubelet","reportingInstance":"n1","involvedObject":{"kind":"Pod","namespace":"default",
		"name":"web","uid":"0b6a1d8e-5a0f-4a7e-9c61-3d2f8e7b9a10","apiVersion":"v1","resourceVersion":"7","fieldPath":"spec.containers{c}"}`, [2]string{"kubelet", "n1"}},
	"secret": {coreEvents, `"type":"Normal","reason":"LoginFailed","message":"refused password=` + plain + ` of web","lastTimestamp":"NOW",
		"involvedObject":{"kind":"Pod","namespace":"default","name":"web"}`, [2]string{}},
	"source": {coreEvents, `"type":"Normal","lastTimestamp":"NOW","source":{"component":"c","host":"n2"},"involvedObject":{"kind":"Pod","namespace":"default","name":"web"}`,
		[2]string{"c", "n2"}},
	"node":     {coreEvents, `"type":"Normal","message":"ready","lastTimestamp":"NOW","involvedObject":{"kind":"Node","name":"n1"}`, [2]string{}},
	"error":    {coreEvents, `"type":"Error","message":"m","lastTimestamp":"NOW","involvedObject":{"kind":"Pod","namespace":"default","name":"web"}`, [2]string{}},
	"critical": {coreEvents, `"type":"CRITICAL","message":"m","lastTimestamp":"NOW","involvedObject":{"kind":"Pod","namespace":"default","name":"web"}`, [2]string{}},
	"unknown":  {coreEvents, `"type":"Notice","message":"m","lastTimestamp":"NOW","involvedObject":{"kind":"Pod","namespace":"default","name":"web"}`, [2]string{}},
	"series": {newEvents, `"type":"Normal","reason":"Scaled","action":"Scale","note":"up","eventTime":"PRECISE","reportingController":"example.com/c","reportingInstance":"c-1",
		"regarding":{"kind":"Pod","namespace":"default","name":"web"}`, [2]string{"example.com/c", "c-1"}},
	"last": {coreEvents, `"type":"Normal","message":"the last","lastTimestamp":"NOW","involvedObject":{"kind":"Pod","namespace":"default","name":"web"}`, [2]string{}},
}

// TestK8sEventsDropIn: the Collector with contrib's k8s_events and ours, beside each other on one API server, send the
// same records of the same Events, but for the listed differences.
func TestK8sEventsDropIn(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	createStoryEvent(t, c, coreEvents, "before", storyEvents["node"].fields, time.Now()) // neither is to send it

	ours, theirs := harness.StartRawSink(t), harness.StartRawSink(t)
	collector := harness.StartCollector(t, toOTLP(ours, "k8s_watchlist", kubeconfig(c.Kubeconfig())+"format: k8sevents\ninitial_state: skip\nresources: [events]"))
	// It has the times of the API server in its own time zone.
	peer := harness.StartPeer(t, []string{"KUBECONFIG=" + c.Kubeconfig(), "TZ=UTC"}, toOTLP(theirs, "k8s_events", "auth_type: kubeConfig"))
	// Contrib's sends no Event that was observed before it was started, which it says only by sending others.
	probes := 0
	harness.Poll(t, catchUp, "both to send Events", func() string {
		probes++
		createStoryEvent(t, c, newEvents, fmt.Sprintf("probe-%d", probes), storyEvents["series"].fields, time.Now())
		if len(ours.All()) == 0 || len(theirs.All()) == 0 {
			return fmt.Sprintf("%d records of ours and %d of contrib's", len(ours.All()), len(theirs.All()))
		}
		return ""
	})
	started := time.Now()
	harness.Poll(t, catchUp, "the next second", func() string {
		if time.Now().Unix() > started.Unix() { // times of Events may be in whole seconds
			return ""
		}
		return "the same"
	})

	now := time.Now()
	for name, event := range storyEvents {
		if name != "last" {
			createStoryEvent(t, c, event.resource, name, event.fields, now)
		}
	}
	patchEvent(t, c, coreEvents, "warning", `{"count":4,"message":"once more"}`)
	patchEvent(t, c, newEvents, "series", `{"series":{"count":2,"lastObservedTime":"`+lastOfSeries.Format(metav1.RFC3339Micro)+`"}}`)
	for name := range storyEvents {
		if name != "last" {
			c.Delete(t, coreEvents, name) // which is no observation
		}
	}
	createStoryEvent(t, c, coreEvents, "last", storyEvents["last"].fields, now)
	for _, sink := range []*harness.RawSink{ours, theirs} {
		sink.Await(t, catchUp, "the last Event", func(records []harness.RawRecord) string {
			if slices.ContainsFunc(records, func(r harness.RawRecord) bool { return nameOfEvent(r) == "last" }) {
				return ""
			}
			return fmt.Sprintf("%d records have come", len(records))
		})
	}
	collector.Interrupt(t)
	peer.Interrupt(t)

	compared := compare(t, byEvent(theirs.All()), byEvent(ours.All()), k8sEventsDifferences)
	if want := len(storyEvents) + 2; len(compared) != want {
		t.Errorf("compared %q, want %d records", compared, want)
	}
}

func createStoryEvent(t *testing.T, c *harness.Cluster, resource schema.GroupVersionResource, name, fields string, now time.Time) {
	t.Helper()
	fields = strings.NewReplacer("NOW", now.UTC().Format(time.RFC3339), "PRECISE", now.UTC().Format(metav1.RFC3339Micro)).Replace(fields)
	event := &unstructured.Unstructured{}
	if err := event.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":%q,"kind":"Event","metadata":{"name":%q},%s}`, resource.GroupVersion(), name, fields))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dynamic.Resource(resource).Namespace("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatalf("cannot create Event %s: %v", name, err)
	}
}

func patchEvent(t *testing.T, c *harness.Cluster, resource schema.GroupVersionResource, name, patch string) {
	t.Helper()
	if _, err := c.Dynamic.Resource(resource).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("cannot patch Event %s: %v", name, err)
	}
}

func nameOfEvent(record harness.RawRecord) string {
	name, _ := record.Attributes["k8s.event.name"].(string)
	return name
}

// byEvent returns the records of the Events of the test by their names, numbered in the order in which they came.
func byEvent(records []harness.RawRecord) map[string]harness.RawRecord {
	found := map[string]harness.RawRecord{}
	for _, record := range records {
		name := nameOfEvent(record)
		if strings.HasPrefix(name, "probe-") {
			continue
		}
		n := 1
		for found[fmt.Sprintf("%s %d", name, n)].Attributes != nil {
			n++
		}
		found[fmt.Sprintf("%s %d", name, n)] = record
	}
	return found
}
