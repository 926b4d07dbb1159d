package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/reference"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// onlyAfterGap begins what the reference says about records that recover what was missed.
var onlyAfterGap = []string{
	"k8s.gap.", "k8s.change.origin of k8s", "k8s.change.inferred of k8sobjects",
	"k8s.namespace.name of gap", "k8s.resource.namespaces of gap", "k8s.resource.label_selector of gap", "k8s.resource.field_selector of gap",
	"k8s.watchlist.shard.index of gap", "k8s.watchlist.shard.total of gap", "k8s.watchlist.shard.by of gap",
	"k8s.resource.group of gap",
}

// unreachable is what no server can cause: it reports a fault of the receiver itself.
const unreachable = "k8s.body.error "

// conventional has an object of every kind for which the conventions define attributes, and a pod that was scheduled and
// that something controls.
const conventional = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}},
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}},
{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk"},
 "spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/data"}}},
{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},
 "spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}},
{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"old"},"spec":{"selector":{"app":"old"},
 "template":{"metadata":{"labels":{"app":"old"}},"spec":{"containers":[{"name":"c","image":"registry.example.com/old:1"}]}}}},
{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"quota","namespace":"shop"},"spec":{"hard":{"pods":"100"}}},
{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
 "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"registry.example.com/web:1"}]}}}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1"},"spec":{"selector":{"matchLabels":{"app":"web"}},
 "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"registry.example.com/web:1"}]}}}},
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"serviceName":"db","selector":{"matchLabels":{"app":"db"}},
 "template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"c","image":"registry.example.com/db:1"}]}}}},
{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"agent"},"spec":{"selector":{"matchLabels":{"app":"agent"}},
 "template":{"metadata":{"labels":{"app":"agent"}},"spec":{"containers":[{"name":"c","image":"registry.example.com/agent:1"}]}}}},
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"web"},
 "spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":3}},
{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"report"},"spec":{"schedule":"0 0 1 1 *","jobTemplate":{"spec":{
 "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"registry.example.com/report:1"}]}}}}}},
{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"report-1"},"spec":{
 "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"registry.example.com/report:1"}]}}}},
{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"fast"},"provisioner":"example.com/fast"},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"},"annotations":{"kcp.io/cluster":"root:org"},
  "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"rs-uid","controller":true}]},
 "spec":{"nodeName":"n1","containers":[{"name":"c","image":"registry.example.com/web:1"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"missed","labels":{"app":"web"}},
 "spec":{"containers":[{"name":"c","image":"registry.example.com/web:1"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"large-before"},"spec":{"containers":[{"name":"c","image":"registry.example.com/web:1"}]}}]}`

// aboutEach are the kinds in conventional, with their API versions, that Events are about.
var aboutEach = map[string][]string{
	"v1": {
		"Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "ReplicationController", "ResourceQuota", "Service", "Pod",
	},
	"apps/v1": {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}, "autoscaling/v2": {"HorizontalPodAutoscaler"},
	"batch/v1": {"CronJob", "Job"}, "storage.k8s.io/v1": {"StorageClass"},
}

// everyAttribute is a story in which every attribute of the reference occurs.
type everyAttribute struct {
	*site
	records, denied *harness.RawSink
}

func (s everyAttribute) start(t *testing.T, m *harness.Middleman) *harness.Collector {
	t.Helper()
	faulty := fmt.Sprintf("auth_type: none\napi_server: http://%s\n", m.Address())
	receivers := map[string]string{
		"own": s.access + `
cluster_name: demo
pod_ip: true
resource_grouping: object
body: summary
object_attribute: json
max_record_bytes: 8192
entities: true
events: {deleted: true}
kube_api_burst: 100
resources:
- {name: deployments, diff: true}
- {name: configmaps, namespaces: [default]}
- {name: events, namespaces: [default]}
` + "- " + strings.Join([]string{
			"namespaces", "nodes", "persistentvolumes", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "services", "replicasets.apps",
			"statefulsets.apps", "daemonsets.apps", "horizontalpodautoscalers.autoscaling", "cronjobs.batch", "jobs.batch", "storageclasses.storage.k8s.io",
		}, "\n- "),
		"selective": s.access + `
body: none
object_attribute: map
entities: {enabled: true, format: legacy}
events: {dedup_interval: 2s}
resources: [{name: pods, namespaces: [default], label_selector: app=web, field_selector: metadata.name!=x}, {name: configmaps, namespaces: ["def*"]}, events.events.k8s.io, deployments]`,
		"sharded":           s.access + "shard: {total: 2, index: 1}\nresources: [leases.coordination.k8s.io]",
		"k8sobjects":        s.access + "format: k8sobjects\ncluster_name: demo\nmax_record_bytes: 8192\nresources: [pods]",
		"k8sevents":         s.access + "format: k8sevents\ncluster_name: demo\nmax_record_bytes: 8192\nevents: {dedup_interval: 2s}\ninitial_state: skip\nresources: [events]",
		"faulty":            faulty + "resources: [{name: pods, namespaces: [\"def*\"]}, events]",
		"faulty/k8sobjects": faulty + "format: k8sobjects\nresources: [nodes]",
		"faulty/k8sevents":  faulty + "format: k8sevents\nresources: [events]",
		"denied":            s.access + "resources: [{name: configmaps, namespaces: [default]}]",
	}
	var config, pipelines strings.Builder
	config.WriteString("receivers:\n")
	pipelines.WriteString("\nservice:\n  telemetry: {metrics: {level: none}}\n  pipelines:\n")
	for name, receiver := range receivers {
		sink := "records"
		if name == "denied" {
			sink = "denied"
		}
		name = strings.ReplaceAll(name, "/", "-")
		fmt.Fprintf(&config, "  k8s_watchlist/%s:\n%s\n", name, indent(receiver))
		fmt.Fprintf(&pipelines, "    logs/%s: {receivers: [k8s_watchlist/%s], exporters: [otlp_grpc/%s]}\n", name, name, sink)
	}
	config.WriteString("exporters:\n")
	for name, sink := range map[string]*harness.RawSink{"records": s.records, "denied": s.denied} {
		fmt.Fprintf(&config, "  otlp_grpc/%s: {endpoint: %q, tls: {insecure: true}, compression: none, sending_queue: {enabled: false}}\n", name, sink.Address())
	}
	return harness.StartCollector(t, config.String()+pipelines.String())
}

// tell makes records with every attribute but those of a gap.
func (s everyAttribute) tell(t *testing.T) {
	t.Helper()
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	s.patch(t, pods, "web", `{"status":{"phase":"Running","podIP":"10.0.0.7","startTime":"2026-03-01T08:00:00Z"}}`, "status")
	var labels []string
	for i := range 60 { // more than a diff has
		labels = append(labels, fmt.Sprintf(`"label-%d":"x"`, i))
	}
	s.patch(t, deployments, "web", `{"metadata":{"labels":{`+strings.Join(labels, ",")+`}}}`)

	large := strings.Repeat("0123456789abcdef", 1<<10)
	s.Annotate(t, pods, "missed", "example.com/large", large)
	s.createEvent(t, "long-message", "v1", "Pod", large)
	for version, kinds := range aboutEach {
		for _, kind := range kinds {
			s.createEvent(t, "about-"+strings.ToLower(kind), version, kind, "it was seen")
		}
	}
	s.createEvent(t, "deep-event", "v1", "Pod", "")
	s.createEvent(t, "large-event", "v1", "Pod", "")
	s.Apply(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"deep-node"}}`)
	for _, name := range []string{"deep-pod", "large-pod", "gone"} {
		if _, err := s.Client.CoreV1().Pods("default").Create(t.Context(), harness.SmallPod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Delete(t, pods, "gone")
	for _, name := range []string{"denied", "accepted"} {
		if _, err := s.Client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (s everyAttribute) patch(t *testing.T, resource schema.GroupVersionResource, name, patch string, subresource ...string) {
	t.Helper()
	_, err := s.Dynamic.Resource(resource).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	if err != nil {
		t.Fatalf("cannot patch %s: %v", name, err)
	}
}

// createEvent creates an Event about an object of a kind, as a kubelet would.
func (s everyAttribute) createEvent(t *testing.T, name, apiVersion, kind, message string) {
	t.Helper()
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name, "annotations": map[string]any{"kcp.io/cluster": "root:org"}},
		"type": "Normal", "reason": "Seen", "action": "Looking", "message": message, "count": int64(2),
		"reportingComponent": "kubelet", "reportingInstance": "n1", "firstTimestamp": time.Now().UTC().Format(time.RFC3339), "lastTimestamp": time.Now().UTC().Format(time.RFC3339),
		"involvedObject": map[string]any{
			"apiVersion": apiVersion, "kind": kind, "namespace": "default", "name": "web", "uid": "some-uid", "resourceVersion": "7", "fieldPath": "spec.containers{web}",
		},
	}}
	if _, err := s.Dynamic.Resource(coreEvents).Namespace("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatalf("cannot create Event %s: %v", name, err)
	}
}

// The real Collector emits every attribute of docs/records.md, with the types and on the kinds of records that the table
// there has, and no others.
func TestEveryAttribute(t *testing.T) {
	t.Parallel()
	s := everyAttribute{site: modern.start(t), records: harness.StartRawSink(t)}
	s.denied = harness.StartDenyingSink(t, func(r harness.RawRecord) bool { return r.Attributes["k8s.object.name"] == "denied" })
	s.Apply(t, conventional)
	s.createEvent(t, "before", "v1", "Pod", "it was seen")
	collector := s.start(t, harness.StartMiddleman(t, s.Cluster, harness.Fault{Large: "large-", Deep: "deep-"}))

	coverage := harness.Reference(t).NewCoverage()
	read := map[*harness.RawSink]int{}
	// missing returns what no record of either sink has confirmed so far.
	missing := func() []string {
		for _, sink := range []*harness.RawSink{s.records, s.denied} {
			all := sink.All()
			for _, r := range all[read[sink]:] {
				for _, difference := range coverage.Add(&reference.Record{
					Resource: r.Resource, ScopeName: r.ScopeName, Scope: r.ScopeAttributes, EventName: r.EventName, Attributes: r.Attributes,
				}) {
					t.Errorf("%s: %+v", difference, r)
				}
			}
			read[sink] = len(all)
		}
		return slices.DeleteFunc(coverage.Missing(), func(what string) bool { return strings.HasPrefix(what, unreachable) })
	}
	// await waits until nothing is missing but what begins like one of these.
	await := func(what string, exceptions ...string) {
		t.Helper()
		harness.Poll(t, 2*catchUp, what, func() string {
			return strings.Join(slices.DeleteFunc(missing(), func(one string) bool {
				return slices.ContainsFunc(exceptions, func(exception string) bool { return strings.HasPrefix(one, exception) })
			}), ", ")
		})
	}
	// Each receiver has to be watching before the story begins: what it finds in a snapshot lacks some attributes.
	probes := 0
	harness.Poll(t, catchUp, "every receiver to watch", func() string {
		probes++
		s.createEvent(t, fmt.Sprintf("probe-%d", probes), "v1", "Pod", "it was seen")
		patch := fmt.Sprintf(`{"metadata":{"labels":{"probe":"%d"}}}`, probes)
		s.patch(t, harness.Pods, "web", patch)
		s.patch(t, deployments, "web", patch)
		if _, err := s.Client.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		return s.notWatching()
	})
	s.tell(t)
	await("every attribute but those of gaps", append([]string{"k8s.event.suppressed "}, onlyAfterGap...)...)
	observed := 2
	harness.Poll(t, 2*catchUp, "states of an Event to be left out", func() string {
		observed++
		s.patch(t, coreEvents, "about-pod", fmt.Sprintf(`{"count":%d}`, observed))
		return strings.Join(slices.DeleteFunc(missing(), func(one string) bool { return !strings.HasPrefix(one, "k8s.event.suppressed ") }), ", ")
	})

	s.proxy.Cut()
	s.Delete(t, harness.Pods, "missed")
	s.Delete(t, coreEvents, "before")
	s.patch(t, harness.Pods, "web", `{"metadata":{"labels":{"seen":"no"}}}`)
	s.createEvent(t, "missed", "v1", "Pod", "nobody saw it")
	harness.ConnectEtcd(t, s.Cluster).Compact(t)
	s.RestartAPIServer(t)
	s.proxy.Restore(t)
	await("the attributes of gaps")
	collector.Interrupt(t)
	missing() // compares the last records
}

// notWatching names what has sent no record of a live change yet.
func (s everyAttribute) notWatching() string {
	waiting := []string{
		"own pods", "own events", "own deployments", "selective pods", "selective events", "named k8sobjects", "named k8sevents",
		"faulty pods", "faulty events", "nameless k8sobjects", "nameless k8sevents",
	}
	for _, r := range s.records.All() {
		resource, _ := r.Attributes["k8s.resource.name"].(string)
		isNamed := r.Resource["k8s.cluster.name"] == "demo"
		reader := "faulty " + resource
		switch {
		case strings.HasSuffix(r.ScopeName, "/k8sobjectsreceiver"):
			if r.Attributes["event.name"] == nil { // of a snapshot
				continue
			}
			reader = "k8sobjects"
		case strings.HasSuffix(r.ScopeName, "/k8seventsreceiver"):
			reader = "k8sevents"
		case r.Attributes["k8s.change.origin"] != "live":
			continue
		case isNamed:
			reader = "own " + resource
		case r.Attributes["k8s.object.manifest"] != nil:
			reader = "selective " + resource
		}
		switch {
		case !strings.HasPrefix(reader, "k8s"):
		case isNamed:
			reader = "named " + reader
		default:
			reader = "nameless " + reader
		}
		waiting = slices.DeleteFunc(waiting, func(one string) bool { return one == reader })
	}
	return strings.Join(waiting, ", ")
}
