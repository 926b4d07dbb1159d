package e2e

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	shardedPods    = 20_000
	shardedChanges = 5_000
)

// TestMeasureShards measures what the initial state of 20,000 pods of 8 KB, and then 5,000 changes of pods, cost several Collectors
// that read a shard each, and kube-apiserver, with and without the feature gate. The Collectors discard the records.
func TestMeasureShards(t *testing.T) {
	if os.Getenv("MEASURE_SHARDS") == "" {
		t.Skip("a measurement of some minutes: set MEASURE_SHARDS=1")
	}
	t.Logf("%d pods, %d changes, %d cores of %s", shardedPods, shardedChanges, runtime.NumCPU(), processor())
	rows := []string{
		"| feature gate | shards | kube-apiserver CPU s | each Collector: CPU s | peak RSS MB | read MB | wall s | 5,000 changes, each Collector: CPU s | read MB |",
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|",
	}
	for _, gate := range []bool{false, true} {
		c := harness.StartCluster(t, controlplane.Options{FeatureGates: map[string]bool{"ShardedListAndWatch": gate}})
		c.CreatePods(t, "large", shardedPods, harness.LargePod)
		for _, total := range []int{1, 2, 4} {
			name := map[bool]string{false: "off", true: "on"}[gate]
			t.Run(fmt.Sprintf("%s %d", name, total), func(t *testing.T) {
				rows = append(rows, fmt.Sprintf("| %s | %d | %s |", name, total, measureShards(t, c, total)))
			})
		}
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}

// measureShards returns the cells of a row.
func measureShards(t *testing.T, c *harness.Cluster, total int) string {
	var addresses []string
	var collectors []*harness.Collector
	server, began := harness.UsageOf(t, c.APIServerPID()).CPU, time.Now()
	for index := range total {
		addresses = append(addresses, harness.FreeAddress(t))
		collectors = append(collectors, harness.StartCollector(t, `
receivers:
  k8s_watchlist:
`+indent(fmt.Sprintf("%sresources: [pods]\nshard: {total: %d, index: %d}", kubeconfig(c.Kubeconfig()), total, index))+`
exporters:
  nop:
service:
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [nop]}
  telemetry:
    metrics: `+otelcol.PullMetrics(addresses[index])+`
`))
	}
	// sum returns the sum of a metric over all Collectors.
	sum := func(metric string) (total float64, err error) {
		for _, address := range addresses {
			scraped, err := otelcol.ReadMetrics(t.Context(), address)
			if err != nil {
				return 0, err
			}
			total += scraped.Sum(metric)
		}
		return total, nil
	}
	await := func(what string, records int) {
		harness.Poll(t, 10*time.Minute, what, func() string {
			n, err := sum("otelcol_receiver_accepted_log_records")
			if err != nil {
				return err.Error() // not started yet
			}
			if n < float64(records) {
				return fmt.Sprintf("%.0f of %d records", n, records)
			}
			return ""
		})
	}
	usage := func() (cpu time.Duration, peak int64, read float64) {
		for _, collector := range collectors {
			u := harness.UsageOf(t, collector.PID())
			cpu, peak = cpu+u.CPU, max(peak, u.PeakResident)
		}
		read, err := sum("otelcol_k8s_watchlist_received")
		if err != nil {
			t.Fatal(err)
		}
		return cpu, peak, read
	}
	await("the initial state", shardedPods+2*total)
	took := time.Since(began)
	server = harness.UsageOf(t, c.APIServerPID()).CPU - server
	cpu, peak, read := usage()

	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":%q}}}`, fmt.Sprint(time.Now().UnixNano()))
	harness.EachOf(t, "large", shardedChanges, func(ctx context.Context, name string) error {
		_, err := c.Client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	await("the changes", shardedPods+2*total+shardedChanges)
	liveCPU, _, liveRead := usage()
	for _, collector := range collectors {
		collector.Interrupt(t)
	}
	each := float64(total)
	return fmt.Sprintf("%.1f | %.1f | %.0f | %.0f | %.1f | %.1f | %.0f", server.Seconds(), cpu.Seconds()/each, float64(peak)/1e6, read/each/1e6, took.Seconds(),
		(liveCPU-cpu).Seconds()/each, (liveRead-read)/each/1e6)
}
