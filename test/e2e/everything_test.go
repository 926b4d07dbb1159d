package e2e

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	manyDefinitions = 200
	objectsOfEach   = 10
	// allSynced is within what time everything has to be read.
	allSynced = time.Minute
)

// TestMeasureManyResources measures how long the real Collector takes to read 200 custom resources with ten objects each,
// and everything else that the pattern * selects, and what that costs it and kube-apiserver. It does so with and without
// storage, and after a restart.
func TestMeasureManyResources(t *testing.T) {
	if os.Getenv("MEASURE_RESOURCES") == "" {
		t.Skip("a measurement of some minutes: set MEASURE_RESOURCES=1")
	}
	c := harness.StartCluster(t, controlplane.Options{})
	began := time.Now()
	defineMany(t, c)
	t.Logf("%d CRDs with %d objects each, created in %s", manyDefinitions, objectsOfEach, time.Since(began).Round(time.Second))
	expected := selected(t, c)

	metrics := harness.FreeAddress(t)
	config := func(storage string) string {
		receiver, extension, extensions := "", "", "[]"
		if storage != "" {
			receiver = "storage: file_storage\n"
			extension = "extensions:\n  file_storage: {directory: " + storage + "}\n"
			extensions = "[file_storage]"
		}
		return `
receivers:
  k8s_watchlist:
` + indent(kubeconfig(c.Kubeconfig())+receiver+`resources: ["*"]`) + `
exporters:
  nop:
` + extension + `
service:
  extensions: ` + extensions + `
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [nop]}
  telemetry:
    metrics: ` + otelcol.PullMetrics(metrics) + `
`
	}
	t.Run("without storage", func(t *testing.T) { measureResources(t, c, config(""), metrics, len(expected)) })
	folder := t.TempDir()
	t.Run("with storage", func(t *testing.T) { measureResources(t, c, config(folder), metrics, len(expected)) })
	t.Run("with storage, restarted", func(t *testing.T) { measureResources(t, c, config(folder), metrics, len(expected)) })
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
	}
	t.Logf("%d files in the storage: %s", len(names), strings.Join(names, " "))
}

func measureResources(t *testing.T, c *harness.Cluster, config, metrics string, resources int) {
	server := c.APIServerPID()
	before := harness.UsageOf(t, server).CPU
	began := time.Now()
	collector := harness.StartCollector(t, config)
	var inventory, streams, connections float64
	harness.Poll(t, 5*time.Minute, "the collector to read everything", func() string {
		scraped, err := otelcol.ReadMetrics(t.Context(), metrics)
		if err != nil {
			return err.Error() // not started yet
		}
		inventory = scraped.Sum("otelcol_k8s_watchlist_inventory_objects")
		streams = scraped.Sum("otelcol_k8s_watchlist_open_streams")
		connections = scraped.Sum("otelcol_k8s_watchlist_open_connections")
		// Two more streams are those of CRDs and APIServices for the catalog itself.
		if inventory < manyDefinitions*objectsOfEach || streams < float64(resources+2) {
			return fmt.Sprintf("it knows %.0f objects over %.0f of %d streams", inventory, streams, resources+2)
		}
		return ""
	})
	took := time.Since(began)
	usage := harness.UsageOf(t, collector.PID())
	t.Logf("%d resources and %.0f objects in %s, %.0f streams over %.0f connections, peak RSS %.1f MB, CPU %s, kube-apiserver CPU %s, on %d cores of %s",
		resources, inventory, took.Round(100*time.Millisecond), streams, connections, float64(usage.PeakResident)/1e6,
		usage.CPU, harness.UsageOf(t, server).CPU-before, runtime.NumCPU(), processor())
	if took > allSynced {
		t.Errorf("it took longer than %s", allSynced)
	}
	collector.Interrupt(t)
}

// defineMany creates CRDs in ten API groups, and their objects.
func defineMany(t *testing.T, c *harness.Cluster) {
	t.Helper()
	const groups = 10
	var defining sync.WaitGroup
	turns := make(chan struct{}, 8)
	for i := range manyDefinitions {
		defining.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			plural, group := fmt.Sprintf("things%03d", i), fmt.Sprintf("group%d.example.com", i%groups)
			define(t, c, plural, group, "Namespaced", "v1")
			resource := c.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}).Namespace("default")
			for n := range objectsOfEach {
				object := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": group + "/v1", "kind": strings.ToUpper(plural[:1]) + plural[1:],
					"metadata": map[string]any{"name": fmt.Sprintf("object-%d", n)}, "spec": map[string]any{"size": int64(n)},
				}}
				var err error
				for deadline := time.Now().Add(catchUp); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
					if _, err = resource.Create(context.Background(), object, metav1.CreateOptions{}); err == nil {
						break
					}
				}
				if err != nil {
					t.Errorf("cannot create an object of %s: %v", plural, err)
					return
				}
			}
		})
	}
	defining.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
