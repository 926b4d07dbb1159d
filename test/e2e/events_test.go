package e2e

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/attribute"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

var (
	coreEvents = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	newEvents  = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
)

// content is the content of a record.
type content struct {
	Attributes map[string]any // except those of the change and its resource
	Body       any
	Severity   plog.SeverityNumber
	Type       string
	Timestamp  time.Time
}

// contents collects the contents of records by resource and k8s.event.name or k8s.object.name.
type contents struct {
	mu  sync.Mutex
	all map[string][]content
}

func (s *contents) consumer() *harness.Consumer {
	s.all = map[string][]content{}
	return &harness.Consumer{Each: func(record plog.LogRecord) {
		attributes := record.Attributes().AsRaw()
		name, ok := attributes["k8s.event.name"]
		if !ok {
			name = attributes["k8s.object.name"]
		}
		key := fmt.Sprintf("%v %v %v", attributes["k8s.resource.name"], attributes["k8s.resource.group"], name)
		for _, of := range []string{"id", "type", "origin", "inferred", "manager", "operation", "subresource"} {
			delete(attributes, "k8s.change."+of)
		}
		delete(attributes, "k8s.resource.name")
		delete(attributes, "k8s.resource.group")
		delete(attributes, "k8s.snapshot.epoch")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all[key] = append(s.all[key], content{attributes, record.Body().AsRaw(), record.SeverityNumber(), record.SeverityText(), record.Timestamp().AsTime()})
	}}
}

// last returns the content of the last record of the object.
func (s *contents) last(resource schema.GroupVersionResource, name string) content {
	s.mu.Lock()
	defer s.mu.Unlock()
	var group any
	if resource.Group != "" {
		group = resource.Group
	}
	all := s.all[fmt.Sprintf("%v %v %v", resource.Resource, group, name)]
	if len(all) == 0 {
		return content{}
	}
	return all[len(all)-1]
}

// TestEventsOfBothAPIs: an Event that was written by either API, as the old recorder does and as the new one does, makes
// the same record through both, and it is about the object that the Event regards.
func TestEventsOfBothAPIs(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	first := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	last := metav1.NewTime(first.Add(30 * time.Minute))
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-1", UID: "pod-uid", ResourceVersion: "7", FieldPath: "spec.containers{web}"}
	old, err := c.Client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "old"}, InvolvedObject: pod, Reason: "BackOff", Message: `Back-off restarting "web"`, Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: "kubelet", Host: "n1"}, FirstTimestamp: first, LastTimestamp: last, Count: 11,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := c.Client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "of-a-node"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1"}, Reason: "Rebooted", Type: "Normal",
		Source: corev1.EventSource{Component: "kubelet", Host: "n1"}, FirstTimestamp: first, LastTimestamp: first, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	type reading struct {
		records  contents
		receiver *harness.Receiver
	}
	readings := map[schema.GroupVersionResource]*reading{coreEvents: {}, newEvents: {}}
	for resource, r := range readings {
		r.receiver = harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+fmt.Sprintf("resources: [%s]", harness.Name(resource)), r.records.consumer())
		r.receiver.Records.AwaitSnapshot(t, harness.Name(resource), catchUp)
	}
	created, err := c.Client.EventsV1().Events("default").Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, EventTime: metav1.NowMicro(), ReportingController: "default-scheduler", ReportingInstance: "cp-1",
		Action: "Scheduling", Reason: "FailedScheduling", Note: "0/3 nodes", Type: "Warning", Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-1", UID: "pod-uid"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Series = &eventsv1.EventSeries{Count: 4, LastObservedTime: metav1.NewMicroTime(created.EventTime.Add(time.Minute))}
	created, err = c.Client.EventsV1().Events("default").Update(t.Context(), created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for resource, r := range readings {
		r.receiver.Records.AwaitObject(t, harness.Name(resource), "new", "MODIFIED", catchUp)
		r.receiver.Shutdown(t)
	}

	event := func(of metav1.Object, more map[string]any) map[string]any {
		all := map[string]any{
			"k8s.event.name": of.GetName(), "k8s.event.uid": string(of.GetUID()), "k8s.event.resource_version": of.GetResourceVersion(),
			"k8s.event.start_time": of.GetCreationTimestamp().UTC().Format(time.RFC3339),
		}
		for key, value := range more {
			all[key] = value
		}
		return all
	}
	for name, want := range map[string]content{
		"old": {Attributes: event(old, map[string]any{
			"k8s.event.type": "Warning", "k8s.event.reason": "BackOff", "k8s.event.count": int64(11),
			"k8s.event.reporting_controller": "kubelet", "k8s.event.reporting_instance": "n1",
			"k8s.object.kind": "Pod", "k8s.object.api_version": "v1", "k8s.object.name": "web-1", "k8s.object.uid": "pod-uid",
			"k8s.object.resource_version": "7", "k8s.object.fieldpath": "spec.containers{web}", "k8s.namespace.name": "default",
			"k8s.pod.name": "web-1", "k8s.pod.uid": "pod-uid", "k8s.node.name": "n1",
		}), Body: `Back-off restarting "web"`, Severity: plog.SeverityNumberWarn, Type: "Warning", Timestamp: last.UTC()},
		"of-a-node": {Attributes: event(node, map[string]any{
			"k8s.event.type": "Normal", "k8s.event.reason": "Rebooted", "k8s.event.count": int64(1),
			"k8s.event.reporting_controller": "kubelet", "k8s.event.reporting_instance": "n1",
			"k8s.object.kind": "Node", "k8s.object.name": "n1", "k8s.object.uid": "n1", "k8s.node.name": "n1",
		}), Severity: plog.SeverityNumberInfo, Type: "Normal", Timestamp: first.UTC()},
		"new": {Attributes: event(created, map[string]any{
			"k8s.event.type": "Warning", "k8s.event.reason": "FailedScheduling", "k8s.event.action": "Scheduling", "k8s.event.count": int64(4),
			"k8s.event.reporting_controller": "default-scheduler", "k8s.event.reporting_instance": "cp-1",
			"k8s.object.kind": "Pod", "k8s.object.api_version": "v1", "k8s.object.name": "web-1", "k8s.object.uid": "pod-uid",
			"k8s.namespace.name": "default", "k8s.pod.name": "web-1", "k8s.pod.uid": "pod-uid",
		}), Body: "0/3 nodes", Severity: plog.SeverityNumberWarn, Type: "Warning"},
	} {
		for resource, r := range readings {
			got := r.records.last(resource, name)
			if name == "new" { // a minute ahead of our clock, it is when it was read
				want.Timestamp = got.Timestamp
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, read as %s, says\n%+v, want\n%+v", name, harness.Name(resource), got, want)
			}
		}
	}
	for resource, r := range readings {
		objects := harness.Objects(r.receiver.Records.All(), harness.Name(resource))
		requireOnceAndInOrder(t, objects)
		report(t, "differences between the fold and the LIST", fold.Fold(objects).Differences(c.List(t, resource).State))
	}
}

// expiry is how long Events live in these tests, and expiryPatience how long etcd may take to end their leases.
const (
	expiry         = "6s"
	expiryPatience = 2 * time.Minute
)

// TestExpiredEventsAreNoRecordsAndNoGaps: an Event that expires while it is watched, behind the back of the watch or while
// nobody looks is not emitted as gone, and no gap is reported. What is known of it is forgotten all the same.
func TestExpiredEventsAreNoRecordsAndNoGaps(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{APIServerArgs: []string{"--event-ttl=" + expiry}})
	awaitExpiry := func() {
		t.Helper()
		harness.Poll(t, expiryPatience, "all Events to expire", func() string {
			if n := len(c.List(t, coreEvents).State); n > 0 {
				return fmt.Sprintf("%d are left", n)
			}
			return ""
		})
	}
	require := func(records []harness.Record, want int) {
		t.Helper()
		objects := harness.Objects(records, "events")
		for _, record := range objects {
			if record.Type == "DELETED" {
				t.Errorf("%s was emitted", record)
			}
		}
		if len(objects) != want {
			t.Errorf("%d records of Events came, want %d: %v", len(objects), want, objects)
		}
		requireNothingRecovered(t, records)
	}

	createEvent(t, c, "before")
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+"resources: [events]\nrelist: {interval: 1s}", nil)
	r.Records.AwaitSnapshot(t, "events", catchUp)
	createEvent(t, c, "live")
	r.Records.AwaitObject(t, "events", "live", "ADDED", catchUp)
	awaitExpiry()
	harness.Poll(t, catchUp, "the deletions to be counted", func() string {
		if n := r.Count(t, "otelcol_k8s_watchlist_suppressed", attribute.String("reason", "deleted")); n < 2 {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	relists := r.CompleteRelists(t)
	harness.Poll(t, catchUp, "another relist", func() string {
		createEvent(t, c, fmt.Sprintf("seen-%d", time.Now().UnixNano()))
		if r.CompleteRelists(t) < relists+2 {
			return "none is complete"
		}
		return ""
	})
	r.Shutdown(t)
	require(r.Records.All(), len(harness.Objects(r.Records.All(), "events")))

	folder := t.TempDir()
	config := withStorage(kubeconfig(c.Kubeconfig())+"resources: [events]", folder)
	awaitExpiry()
	createEvent(t, c, "kept")
	first := harness.StartCollector(t, config)
	first.Records.AwaitObject(t, "events", "kept", "SNAPSHOT", catchUp)
	first.Interrupt(t)
	require(first.Records.All(), 1)
	awaitExpiry()
	second := harness.StartCollector(t, config)
	createEvent(t, c, "after")
	second.Records.AwaitObject(t, "events", "after", "ADDED", catchUp)
	awaitExpiry()
	second.Interrupt(t)
	require(second.Records.All(), 1)
	if left := c.StoredInventories(t, folder, coreEvents)[coreEvents].State; len(left) > 1 { // the last one, if its deletion was on the way
		t.Errorf("the checkpoint still has %v", left)
	}
}

// TestEventsWithinAnInterval: of an Event that is counted up again and again the first and the last state come, the last
// one when the interval is over, when the receiver is stopped, or after a crash.
func TestEventsWithinAnInterval(t *testing.T) {
	t.Parallel()
	const counts, interval = 20, 5 * time.Second
	c := harness.StartCluster(t, controlplane.Options{})
	count := func(name string, from, to int) {
		t.Helper()
		for n := from; n <= to; n++ {
			patch := fmt.Appendf(nil, `{"count":%d}`, n)
			if _, err := c.Client.CoreV1().Events("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}

	var records contents
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+fmt.Sprintf("resources: [events]\nevents: {dedup_interval: %s}", interval), records.consumer())
	r.Records.AwaitSnapshot(t, "events", catchUp)
	createEvent(t, c, "repeated")
	r.Records.AwaitObject(t, "events", "repeated", "ADDED", catchUp)
	count("repeated", 2, counts)
	r.Records.AwaitObject(t, "events", "repeated", "MODIFIED", catchUp)
	createEvent(t, c, "stopped")
	r.Records.AwaitObject(t, "events", "stopped", "ADDED", catchUp)
	count("stopped", 2, 3)
	createEvent(t, c, "after") // which is read after the last state of the other
	r.Records.AwaitObject(t, "events", "after", "ADDED", catchUp)
	harness.Poll(t, catchUp, "the states between to be suppressed", func() string {
		if n := r.Count(t, "otelcol_k8s_watchlist_suppressed", attribute.String("reason", "dedup_interval")); n < 1 {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	r.Shutdown(t)
	objects := harness.Objects(r.Records.All(), "events")
	requireOnceAndInOrder(t, objects)
	report(t, "differences between the fold and the LIST", fold.Fold(objects).Differences(c.List(t, coreEvents).State))
	// A busy machine may take longer than the interval to write the counts, so that there may be more than the two.
	total := 0
	for _, c := range records.all["events <nil> repeated"] {
		total++
		if n, ok := c.Attributes["k8s.event.suppressed"].(int64); ok {
			total += int(n)
		}
	}
	if last := records.last(coreEvents, "repeated"); total != counts || last.Attributes["k8s.event.count"] != int64(counts) || len(records.all["events <nil> repeated"]) > counts/2 {
		t.Errorf("%d records and what they say was suppressed are %d states, want %d; the last is %v", len(records.all["events <nil> repeated"]), total, counts, last.Attributes)
	}
	if last := records.last(coreEvents, "stopped"); last.Attributes["k8s.event.count"] != int64(3) {
		t.Errorf("when the receiver was stopped the last state was not emitted: %v", last.Attributes)
	}

	// A state waits for an hour when the collector is killed.
	config := withStorage(kubeconfig(c.Kubeconfig())+"resources: [events]\nevents: {dedup_interval: 1h}", t.TempDir())
	first := harness.StartCollector(t, config)
	first.Records.AwaitSnapshot(t, "events", catchUp)
	createEvent(t, c, "crashed")
	first.Records.AwaitObject(t, "events", "crashed", "ADDED", catchUp)
	count("crashed", 2, 5)
	createEvent(t, c, "beside")
	first.Records.AwaitObject(t, "events", "beside", "ADDED", catchUp)
	first.Kill(t)
	second := harness.StartCollector(t, config)
	second.Records.AwaitObject(t, "events", "crashed", "MODIFIED", catchUp)
	second.Interrupt(t)
	requireNothingRecovered(t, append(first.Records.All(), second.Records.All()...))
	objects = append(harness.Objects(first.Records.All(), "events"), harness.Objects(second.Records.All(), "events")...)
	report(t, "differences between the fold and the LIST", fold.Fold(objects).Differences(c.List(t, coreEvents).State))
	for _, record := range harness.Objects(first.Records.All(), "events") {
		if record.Name == "crashed" && record.Type == "MODIFIED" {
			t.Errorf("%s came before the crash, so that nothing was tested", record)
		}
	}
}
