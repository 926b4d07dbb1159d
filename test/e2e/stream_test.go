package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Every connection breaks after some bytes, anywhere in a frame, repeatedly.
func TestConnectionCutMidFrame(t *testing.T) {
	t.Parallel()
	const bytesEach, cuts = 60_000, 4
	s := modern.start(t)
	s.CreatePods(t, "first", 10, harness.SmallPod)
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	r := harness.StartReceiver(t, s.access+"resources: [{name: pods}]", nil)
	from := r.Records.AwaitSnapshot(t, "pods", catchUp)

	s.proxy.Afflict(t, harness.Toxic{Type: "limit_data", Stream: "downstream", Attributes: map[string]int64{"bytes": bytesEach}})
	deadline := time.Now().Add(2 * catchUp)
	done := harness.NewWriter(t, s.Cluster).Write(t, func(harness.Operations) bool {
		return r.Opened(t, "resume") >= cuts || time.Now().After(deadline)
	})
	s.proxy.Heal(t)
	requireEveryEvent(t, s.Cluster, &r.Records, truth, from)
	t.Logf("%d changes over %d connections", done.Total(), r.Opened(t, "resume"))
	if n := r.Opened(t, "resume"); n < cuts {
		t.Errorf("the stream was resumed %d times, want at least %d", n, cuts)
	}
}

// An object of less than a megabyte in etcd can be many times larger as JSON.
func TestFrameOf5MiB(t *testing.T) {
	t.Parallel()
	s := modern.start(t)
	r := harness.StartReceiver(t, s.access+"resources: [{name: configmaps}]", nil)
	r.Records.AwaitSnapshot(t, "configmaps", catchUp)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Data:       map[string]string{"control": strings.Repeat("\x01", 900_000)}, // each becomes \u0001
	}
	created, err := s.Client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/configmaps/large").SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) < 5<<20 {
		t.Fatalf("the object has %d bytes as JSON", len(raw))
	}
	emitted := r.Records.AwaitObject(t, "configmaps", "large", "ADDED", catchUp)
	if emitted.ResourceVersion != created.ResourceVersion {
		t.Errorf("it was emitted at %s, want %s", emitted.ResourceVersion, created.ResourceVersion)
	}
	r.Records.AwaitFold(t, "configmaps", s.List(t, configMaps).State, catchUp)
	requireNothingRecovered(t, r.Records.All())
}

// When a lease ends, etcd deletes all of its Events at one revision. Each deletion has to be emitted.
func TestDeletedTogetherAtOneRevision(t *testing.T) {
	t.Parallel()
	const together = 4
	s := modern.start(t)
	etcd := harness.ConnectEtcd(t, s.Cluster)
	var keys []string
	for i := range together {
		name := fmt.Sprintf("event-%05d", i)
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Reason: "Tested", Type: corev1.EventTypeNormal,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name},
		}
		if _, err := s.Client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, "/registry/events/default/"+name)
	}
	s.CreatePods(t, "pod", together, harness.SmallPod)
	for i := range together {
		keys = append(keys, fmt.Sprintf("/registry/pods/default/pod-%05d", i))
	}
	r := harness.StartReceiver(t, s.access+"resources: [{name: events}, {name: pods}]\nevents: {deleted: true}", nil)
	r.Records.AwaitSnapshot(t, "events", catchUp)
	r.Records.AwaitSnapshot(t, "pods", catchUp)

	etcd.DeleteTogether(t, keys...)
	for _, resource := range []string{"events", "pods"} {
		versions := map[string]int{}
		r.Records.Await(t, catchUp, "the deletions of "+resource, func(records []harness.Record) string {
			clear(versions)
			n := 0
			for _, record := range harness.Objects(records, resource) {
				if record.Type == "DELETED" && record.Origin == "live" {
					versions[record.ResourceVersion]++
					n++
				}
			}
			if n < together {
				return fmt.Sprintf("%d have come", n)
			}
			return ""
		})
		if len(versions) != 1 {
			t.Errorf("the deletions of %s are not of one version: %v", resource, versions)
		}
		requireOnceAndInOrder(t, harness.Objects(r.Records.All(), resource))
	}
}

// An object that is deleted and recreated is another object.
func TestRecreatedUnderTheSameName(t *testing.T) {
	t.Parallel()
	const lives = 30
	s := modern.start(t)
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	r := harness.StartReceiver(t, s.access+"resources: [{name: pods}]", nil)
	from := r.Records.AwaitSnapshot(t, "pods", catchUp)
	for range lives {
		s.CreatePods(t, "phoenix", 1, harness.SmallPod)
		s.DeletePods(t, "phoenix", 1)
	}
	s.CreatePods(t, "phoenix", 1, harness.SmallPod)
	requireEveryEvent(t, s.Cluster, &r.Records, truth, from)
	uids := map[string]bool{}
	for _, record := range harness.Objects(r.Records.All(), "pods") {
		uids[record.UID] = true
	}
	if len(uids) != lives+1 {
		t.Errorf("%d objects were emitted, want %d", len(uids), lives+1)
	}
}
