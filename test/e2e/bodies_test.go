package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// emittedRecord is a record as it came out of a collector, with its resource.
type emittedRecord struct {
	resource, attributes map[string]any
	event                string
	body                 any
	bytes                int // as OTLP protobuf
}

func (r emittedRecord) text(key string) string {
	s, _ := r.attributes[key].(string)
	return s
}

// emitted returns what a collector has written to its file.
func emitted(t *testing.T, c *harness.Collector) []emittedRecord {
	t.Helper()
	var records []emittedRecord
	for line := range strings.Lines(c.Output(t)) {
		logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					records = append(records, emittedRecord{
						resource.Resource().Attributes().AsRaw(), record.Attributes().AsRaw(), record.EventName(), record.Body().AsRaw(),
						(&plog.ProtoMarshaler{}).LogRecordSize(record),
					})
				}
			}
		}
	}
	return records
}

// newest returns the last record of an object.
func newest(t *testing.T, records []emittedRecord, resource, name string) emittedRecord {
	t.Helper()
	for _, r := range slices.Backward(records) {
		if r.text("k8s.resource.name") == resource && r.text("k8s.object.name") == name {
			return r
		}
	}
	t.Fatalf("there is no record of %s %s", resource, name)
	return emittedRecord{}
}

// createDeployment creates a Deployment that nobody rolls out.
func createDeployment(t *testing.T, c *harness.Cluster, name string, change func(*appsv1.Deployment)) {
	t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/web:1"}}},
			},
		},
	}
	change(d)
	if _, err := c.Client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{FieldManager: "kubectl-create"}); err != nil {
		t.Fatal(err)
	}
}

// TestSummariesWithManifests: records that can be read, with the object in an attribute, under a resource of their own for
// each object, of a real API server and out of the real collector.
func TestSummariesWithManifests(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	createDeployment(t, c, "before", func(*appsv1.Deployment) {})
	collector := harness.StartCollector(t, toFile(kubeconfig(c.Kubeconfig())+`
resources: [{name: deployments, diff: true}, events, nodes]
body: summary
object_attribute: json
resource_grouping: object
resource_attributes: {service.name: kubernetes, shard: 3}`))
	collector.Records.AwaitSnapshot(t, "deployments.apps", catchUp)
	collector.Records.AwaitSnapshot(t, "events", catchUp)

	createDeployment(t, c, "web", func(*appsv1.Deployment) {})
	replicas := []byte(`{"spec":{"replicas":5}}`)
	if _, err := c.Client.AppsV1().Deployments("default").Patch(t.Context(), "web", types.MergePatchType, replicas, metav1.PatchOptions{FieldManager: "kubectl-scale"}); err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "web.1", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Namespace: "default", Name: "web"},
		Type:           "Normal", Reason: "ScalingReplicaSet", Message: "Scaled up replica set web-1 to 5",
	}
	if _, err := c.Client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Delete(t, deployments, "web")
	collector.Records.AwaitObject(t, "deployments.apps", "web", "DELETED", catchUp)
	collector.Records.Await(t, catchUp, "the Event", func(records []harness.Record) string {
		if len(harness.Objects(records, "events")) == 0 {
			return "no record of an Event has come"
		}
		return ""
	})
	collector.Interrupt(t)

	var sentences []string
	for _, r := range emitted(t, collector) {
		sentence, _ := r.body.(string)
		sentences = append(sentences, sentence)
		if r.resource["service.name"] != "kubernetes" || r.resource["shard"] != int64(3) {
			t.Errorf("the resource is %v", r.resource)
		}
		if r.text("k8s.resource.name") != "deployments" || r.text("k8s.change.type") == "" {
			continue
		}
		if r.resource["k8s.deployment.name"] != r.text("k8s.object.name") || r.resource["k8s.namespace.name"] != "default" {
			t.Errorf("the resource of %s is %v", sentence, r.resource)
		}
		var manifest appsv1.Deployment
		if err := json.Unmarshal([]byte(r.text("k8s.object.manifest")), &manifest); err != nil {
			t.Errorf("the manifest of %s: %v", sentence, err)
		}
		if manifest.Name != r.text("k8s.object.name") || len(manifest.Spec.Template.Spec.Containers) != 1 {
			t.Errorf("the manifest of %s is %s", sentence, r.text("k8s.object.manifest"))
		}
	}
	for _, want := range []string{
		"initial state of deployments.apps begins", "Deployment default/before exists (initial state)", "Deployment default/web added (kubectl-create)",
		"Deployment default/web modified: spec.replicas 1 → 5 (kubectl-scale)", "Deployment default/web deleted",
		"Deployment default/web ScalingReplicaSet: Scaled up replica set web-1 to 5",
	} {
		if !slices.Contains(sentences, want) {
			t.Errorf("no record has the body %q, only %q", want, sentences)
		}
	}
}

// TestLargeObjectsAreCut: of objects as large as an API server takes them, what makes them large is left out and named.
func TestLargeObjectsAreCut(t *testing.T) {
	t.Parallel()
	const most = 16 << 10
	c := harness.StartCluster(t, controlplane.Options{})
	large := func(n int) string { return strings.Repeat("0123456789abcdef", n/16) }

	pod := harness.SmallPod("annotated")
	pod.Annotations = map[string]string{"example.com/small": "kept", "example.com/large": large(200_000)}
	pod.Spec.Containers[0].Args = []string{"serve", large(5000)} // fits once the annotation is gone
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "dashboard"},
		Data:       map[string]string{"mode": "plain-value", "dashboard.json": large(900_000)},
	}
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fields := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "many"}, Data: map[string]string{}}
	for i := range 5000 {
		fields.Data[fmt.Sprintf("key-%05d", i)] = "some value"
	}
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), fields, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/%05d/%s", i, large(256))}})
	}
	node.Status.NodeInfo.KubeletVersion = "v1.37.2"
	status, err := json.Marshal(map[string]any{"status": node.Status})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	properties := map[string]any{}
	for i := range 500 {
		properties[fmt.Sprintf("field%d", i)] = map[string]any{"type": "string", "description": large(512)}
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": properties}},
			}},
		},
	}}
	if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	for _, body := range []string{"map", "json"} {
		collector := harness.StartCollector(t, toFile(kubeconfig(c.Kubeconfig())+fmt.Sprintf(`
resources: [pods, {name: configmaps, namespaces: [default]}, nodes, customresourcedefinitions.apiextensions.k8s.io]
max_record_bytes: %d
body: %s
redaction: {configmaps: scan}`, most, body)))
		for _, resource := range []string{"pods", "configmaps", "nodes", "customresourcedefinitions.apiextensions.k8s.io"} {
			collector.Records.AwaitSnapshot(t, resource, catchUp)
		}
		collector.Interrupt(t)
		records := emitted(t, collector)
		for _, test := range []struct{ resource, name, cut, left string }{
			{"pods", "annotated", "metadata.annotations.example.com/large", large(5000)},
			{"configmaps", "dashboard", "data.dashboard.json", "plain-value"},
			{"configmaps", "many", "data", `"name":"many"`},
			{"nodes", "n1", "status.images", "v1.37.2"},
			{"customresourcedefinitions", "gadgets.example.com", "spec.versions.0.schema.openAPIV3Schema", `"plural":"gadgets"`},
		} {
			r := newest(t, records, test.resource, test.name)
			object, ok := r.body.(string)
			if !ok {
				text, err := json.Marshal(r.body)
				if err != nil {
					t.Fatal(err)
				}
				object = string(text)
			}
			if r.bytes > most || !json.Valid([]byte(object)) {
				t.Errorf("the record of %s has %d bytes with body %s", test.name, r.bytes, body)
			}
			if got := fmt.Sprint(r.attributes["k8s.record.truncated"]); got != "["+test.cut+"]" {
				t.Errorf("of %s %s was cut, want %s", test.name, got, test.cut)
			}
			if !strings.Contains(object, test.left) {
				t.Errorf("of %s too much was cut: %.500s", test.name, object)
			}
		}
	}
}

// TestDroppedFieldsOfRealObjects: what is dropped does not leave, and what is left is masked as it was.
func TestDroppedFieldsOfRealObjects(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	planted := &sentinels{}
	planted.plant(t, c, "shop")
	planted.requireFindable(t, c)
	collector := harness.StartCollector(t, toFile(kubeconfig(c.Kubeconfig())+`
resources:
  - {name: secrets, drop_fields: [kind, apiVersion, type, metadata]}
  - {name: configmaps, drop_fields: [kind, metadata.annotations]}
  - {name: pods, keep_fields: ["spec.containers.*.env", spec.initContainers]}
  - {name: deployments, drop_fields: ["spec.template.spec.containers.*.env.*.name", spec.template.spec.initContainers, status], keep_fields: [spec]}
  - {name: cronjobs.batch, drop_fields: [kind, spec.jobTemplate.spec.template.spec.containers]}
body: json`))
	for _, resource := range sentinelResources {
		collector.Records.AwaitSnapshot(t, harness.Name(resource), catchUp)
	}
	collector.Interrupt(t)
	for _, sentinel := range planted.all {
		report(t, "traces of a secret value are in the collector's file", sentinel.Traces(collector.Output(t)))
	}
	records := emitted(t, collector)
	for _, test := range []struct {
		resource, kind string
		want, dropped  []string
	}{
		{"secrets", "Secret", []string{`{"data":{"dsn":"[REDACTED len=`, `"password":"[REDACTED len=`}, []string{"metadata", "Opaque"}},
		{"configmaps", "ConfigMap", []string{`"data":{"mode":"[REDACTED len=`, `"name":"shop"`}, []string{`"kind"`, "annotations"}},
		{"pods", "Pod", []string{
			`"kind":"Pod"`, `"spec":{"initContainers":[{"name":"init"`, `"containers":[{"env":[{"name":"TOKEN","value":"[REDACTED]"}]}]`,
		}, []string{"status", "labels", "web:1"}},
		{"deployments", "Deployment", []string{`"env":[{"value":"[REDACTED]"}]`, `"replicas":1`}, []string{"status", "initContainers", "TOKEN", "creationTimestamp\":\"2"}},
		{"cronjobs", "CronJob", []string{`"schedule":"0 0 1 1 *"`, `"env":[{"name":"TOKEN","value":"[REDACTED]"}]`}, []string{`"kind"`, `"containers"`}},
	} {
		r := newest(t, records, test.resource, "shop")
		object, _ := r.body.(string)
		if r.text("k8s.object.kind") != test.kind || r.text("k8s.object.uid") == "" || r.text("k8s.namespace.name") != "default" {
			t.Errorf("the attributes of %s are %v", test.kind, r.attributes)
		}
		for _, want := range test.want {
			if !strings.Contains(object, want) {
				t.Errorf("%s lacks %s: %s", test.kind, want, object)
			}
		}
		for _, dropped := range test.dropped {
			if strings.Contains(object, dropped) {
				t.Errorf("%s has %s: %s", test.kind, dropped, object)
			}
		}
	}
}

// TestExcludedTypesAndRestart: what is excluded does not come, is not repeated after a restart, and leads to no gap.
func TestExcludedTypesAndRestart(t *testing.T) {
	t.Parallel()
	const each = 20
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", each, harness.SmallPod)
	folder := t.TempDir()
	config := withStorage(kubeconfig(c.Kubeconfig())+`
resources:
  - {name: pods, exclude_types: [DELETED]}
  - nodes
exclude_types: [SNAPSHOT]
body: none`, folder)

	first := harness.StartCollector(t, config)
	// There is nothing to wait for but a change: the initial state is excluded.
	first.AwaitLog(t, "reading resource", catchUp)
	harness.Poll(t, catchUp, "the collector to follow the pods", func() string {
		c.CreatePods(t, "first", 1, harness.SmallPod)
		c.DeletePods(t, "first", 1)
		if len(objectsOf(first)) == 0 {
			return "no record has come"
		}
		return ""
	})
	c.ChangePods(t, "kept", each)
	c.DeletePods(t, "kept", each)
	c.CreatePods(t, "last", 1, harness.SmallPod)
	first.Records.AwaitObject(t, "pods", "last-00000", "ADDED", catchUp)
	first.Interrupt(t)
	requireInventory(t, c, folder)

	c.DeletePods(t, "last", 1)
	c.CreatePods(t, "down", each, harness.SmallPod)
	second := harness.StartCollector(t, config)
	second.Records.Await(t, catchUp, "what happened while it was down", func(records []harness.Record) string {
		if n := len(harness.Objects(records, "pods")); n < each {
			return fmt.Sprintf("%d records have come", n)
		}
		return ""
	})
	second.Interrupt(t)
	requireInventory(t, c, folder)

	objects := objectsOf(first, second)
	requireOnceAndInOrder(t, objects)
	requireNothingRecovered(t, append(first.Records.All(), second.Records.All()...))
	came := map[string]int{}
	for _, object := range objects {
		came[harness.Prefix(object.Name)+" "+object.Type]++
	}
	delete(came, "first ADDED") // as often as it took
	delete(came, "first MODIFIED")
	delete(came, "last MODIFIED") // one that is deleted may be marked before
	// Each pod of kept is changed, and marked for deletion before it goes.
	for what, want := range map[string]int{"kept MODIFIED": each, "last ADDED": 1, "down ADDED": each} {
		if came[what] < want {
			t.Errorf("%d records are %s, want %d: %v", came[what], what, want, came)
		}
		delete(came, what)
	}
	if len(came) > 0 {
		t.Errorf("records came that are excluded: %v", came)
	}
	for _, r := range append(emitted(t, first), emitted(t, second)...) {
		if r.body != nil {
			t.Errorf("a record has the body %v", r.body)
		}
	}
}
