package e2e

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	measuredPods = 20000
	// memoryBound is generous, because this is a measurement. A receiver that held the list would need ten times as
	// much.
	memoryBound = 300 << 20
)

// TestMeasureMemory measures the memory of the real Collector while it reads 20,000 pods of 8 KB, from its start until
// the snapshot is complete, and discards them.
func TestMeasureMemory(t *testing.T) {
	if os.Getenv("MEASURE_MEMORY") == "" {
		t.Skip("a measurement of some minutes: set MEASURE_MEMORY=1")
	}
	c := harness.StartCluster(t, controlplane.Options{})
	began := time.Now()
	c.CreatePods(t, "large", measuredPods, harness.LargePod)
	size := servedBytes(t, c, "large-00000")
	t.Logf("%d pods of %d bytes, %.0f MB of watch stream, created in %s",
		measuredPods, size, float64(size)*measuredPods/1e6, time.Since(began).Round(time.Second))

	metrics := harness.FreeAddress(t)
	config := `
receivers:
  k8s_watchlist:
` + indent(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]") + `
exporters:
  nop:
service:
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [nop]}
  telemetry:
    metrics: ` + otelcol.PullMetrics(metrics) + `
`
	for run := range 3 {
		t.Run(fmt.Sprintf("run %d", run+1), func(t *testing.T) {
			measureMemory(t, config, metrics)
		})
	}
}

func measureMemory(t *testing.T, config, metrics string) {
	began := time.Now()
	collector := harness.StartCollector(t, config)
	var inventory, sent float64
	harness.Poll(t, 5*time.Minute, "the collector to read all pods", func() string {
		scraped, err := otelcol.ReadMetrics(t.Context(), metrics)
		if err != nil {
			return err.Error() // not started yet
		}
		inventory = scraped.Sum("otelcol_k8s_watchlist_inventory_objects")
		sent = scraped.Sum("otelcol_receiver_accepted_log_records")
		if inventory < measuredPods || sent < measuredPods+2 { // plus the begin and end of the snapshot
			return fmt.Sprintf("it knows %.0f pods and has delivered %.0f records", inventory, sent)
		}
		return ""
	})
	took := time.Since(began)
	usage := harness.UsageOf(t, collector.PID())
	t.Logf("peak RSS %.1f MB, CPU %s, wall %s, on %d cores of %s", float64(usage.PeakResident)/1e6,
		usage.CPU, took.Round(10*time.Millisecond), runtime.NumCPU(), processor())
	if usage.PeakResident > memoryBound {
		t.Errorf("peak RSS is %d bytes, more than %d", usage.PeakResident, memoryBound)
	}
}

// servedBytes returns the size of a pod as a watch sends it.
func servedBytes(t *testing.T, c *harness.Cluster, name string) int {
	t.Helper()
	raw, err := c.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods", name).
		SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// processor returns the name of the CPU model.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t: \n")
		}
	}
	return "an unknown processor"
}
