package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/workload"
)

// kindsOfRecords are all kinds, in the order in which `make records` prints them.
var kindsOfRecords = []string{
	"k8s.snapshot.begin initial",
	"k8s.object.snapshot initial",
	"k8s.snapshot.end initial",
	"k8s.object.added live",
	"k8s.object.modified live",
	"k8s.object.deleted live",
	"k8s.event live",
	"k8s.object.added recovered",
	"k8s.object.modified recovered",
	"k8s.object.deleted recovered inferred",
	"k8s.watch.gap recovered",
}

// The real Collector emits every kind of record. `make records` prints one of each.
func TestEveryKindOfRecord(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	sample := c.Sample(t)
	resources := []string{"pods", "deployments.apps", "events", "configmaps", "nodes"}
	config := withStorage(kubeconfig(c.Kubeconfig())+"cluster_name: demo\nresources: ["+strings.Join(resources, ", ")+"]", t.TempDir())
	first := harness.StartCollector(t, config)
	for _, resource := range resources {
		first.Records.AwaitSnapshot(t, resource, catchUp)
	}
	sample.Pace = 1 // ns: at once
	sample.Round(t.Context())
	configmaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	first.Records.AwaitObject(t, "configmaps", "migration-1", "DELETED", catchUp)
	first.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, catchUp)
	first.Records.AwaitFold(t, "configmaps", c.List(t, configmaps).State, catchUp)
	first.Interrupt(t)

	// While nobody watches, and without a history of it: an object each is added, changed and deleted.
	pods := c.Client.CoreV1().Pods(workload.Namespace)
	running, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(running.Items) < 2 {
		t.Fatalf("the sample workload has %d pods: %v", len(running.Items), err)
	}
	if err := pods.Delete(t.Context(), running.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Patch(t.Context(), running.Items[1].Name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"seen":"no"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.CreatePods(t, "missed", 1, harness.SmallPod)
	harness.ConnectEtcd(t, c).Compact(t)
	c.RestartAPIServer(t)
	second := harness.StartCollector(t, config)
	second.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, 2*catchUp)
	second.Records.Await(t, catchUp, "the gap of pods", func(records []harness.Record) string {
		if len(harness.OfStream(records, "pods", "k8s.watch.gap")) == 0 {
			return "there is none"
		}
		return ""
	})
	second.Interrupt(t)

	found := map[string]plog.Logs{}
	for _, collector := range []*harness.Collector{first, second} {
		for line := range strings.Lines(collector.Output(t)) {
			logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			eachRecord(logs, func(resource plog.ResourceLogs, scope plog.ScopeLogs, record plog.LogRecord) {
				if kind := kindOf(record); found[kind] == (plog.Logs{}) {
					found[kind] = alone(resource, scope, record)
				}
			})
		}
	}
	var text strings.Builder
	for _, kind := range kindsOfRecords {
		logs, ok := found[kind]
		if !ok {
			t.Errorf("no record is %s", kind)
			continue
		}
		encoded, err := (&plog.JSONMarshaler{}).MarshalLogs(logs)
		if err != nil {
			t.Fatal(err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, encoded, "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "\n# %s\n%s\n", kind, &pretty)
	}
	for kind := range found {
		if !slices.Contains(kindsOfRecords, kind) && kind != "k8s.event recovered" && kind != "k8s.event initial" {
			t.Errorf("a record is %s, which is not a known kind", kind)
		}
	}
	if file := os.Getenv("RECORDS_FILE"); file != "" {
		if err := os.WriteFile(filepath.Clean(file), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func kindOf(record plog.LogRecord) string {
	kind := record.EventName()
	if origin, ok := record.Attributes().Get("k8s.change.origin"); ok {
		kind += " " + origin.Str()
	}
	if inferred, ok := record.Attributes().Get("k8s.change.inferred"); ok && inferred.Bool() {
		kind += " inferred"
	}
	return kind
}

func eachRecord(logs plog.Logs, do func(plog.ResourceLogs, plog.ScopeLogs, plog.LogRecord)) {
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				do(resource, scope, record)
			}
		}
	}
}

// alone returns the record without the others of its batch.
func alone(resource plog.ResourceLogs, scope plog.ScopeLogs, record plog.LogRecord) plog.Logs {
	logs := plog.NewLogs()
	r := logs.ResourceLogs().AppendEmpty()
	resource.Resource().CopyTo(r.Resource())
	r.SetSchemaUrl(resource.SchemaUrl())
	s := r.ScopeLogs().AppendEmpty()
	scope.Scope().CopyTo(s.Scope())
	s.SetSchemaUrl(scope.SchemaUrl())
	record.CopyTo(s.LogRecords().AppendEmpty())
	return logs
}
