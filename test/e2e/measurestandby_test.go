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
	followedPods    = 20_000
	followedChanges = 5_000
)

// TestMeasureStandby measures what a standby costs, beside a leader that does the whole work: at the start with 20,000 pods of 8 KB, and
// for 5,000 changes of them. The Collectors discard the records. What kube-apiserver spends on the changes is measured twice, with
// the leader alone and with both, so that the difference is the standby's.
func TestMeasureStandby(t *testing.T) {
	if os.Getenv("MEASURE_STANDBY") == "" {
		t.Skip("a measurement of some minutes: set MEASURE_STANDBY=1")
	}
	t.Logf("%d pods, %d changes, %d cores of %s", followedPods, followedChanges, runtime.NumCPU(), processor())
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "large", followedPods, harness.LargePod)
	server := func() time.Duration { return harness.UsageOf(t, c.APIServerPID()).CPU }

	before, began := server(), time.Now()
	leader := startFollowed(t, c, "leader", "this replica leads")
	leader.awaitRecords(t, followedPods+2)
	rows := []string{
		"| | CPU s | peak RSS MB | RSS MB | kube-apiserver CPU s | wall s |",
		"|---|---:|---:|---:|---:|---:|",
		leader.atStart(t, "leader, initial state", server()-before, time.Since(began)),
	}
	before, began = server(), time.Now()
	standby := startFollowed(t, c, "standby", "standby is ready to take over")
	rows = append(rows, standby.atStart(t, "standby, until it is ready", server()-before, time.Since(began)))

	rounds := 0
	change := func() (ofServer time.Duration) {
		rounds++
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":%q}}}`, fmt.Sprint(time.Now().UnixNano()))
		before := server()
		harness.EachOf(t, "large", followedChanges, func(ctx context.Context, name string) error {
			_, err := c.Client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		leader.awaitRecords(t, followedPods+2+rounds*followedChanges)
		return server() - before
	}
	ofLeader, ofStandby := leader.cpu(t), standby.cpu(t)
	both := change()
	ofLeader, ofStandby = leader.cpu(t)-ofLeader, standby.cpu(t)-ofStandby
	standby.Interrupt(t)
	alone := change()
	rows = append(rows,
		fmt.Sprintf("| leader, %d changes | %.1f | | | %.1f | |", followedChanges, ofLeader.Seconds(), alone.Seconds()),
		fmt.Sprintf("| standby, the same | %.1f | | | %.1f | |", ofStandby.Seconds(), (both-alone).Seconds()))
	leader.Interrupt(t)
	t.Log("\n" + strings.Join(rows, "\n"))
}

// followed is a replica that is measured.
type followed struct {
	*harness.Collector
	metrics string
}

// startFollowed starts a replica and waits until it has logged something.
func startFollowed(t *testing.T, c *harness.Cluster, name, until string) *followed {
	address := harness.FreeAddress(t)
	f := &followed{metrics: address, Collector: harness.StartCollector(t, `
receivers:
  k8s_watchlist:
`+indent(kubeconfig(c.Kubeconfig())+"resources: [pods]\nleader_election: {enabled: true, lease_name: measured, lease_namespace: default, identity: "+name+"}")+`
exporters:
  nop:
service:
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [nop]}
  telemetry:
    metrics: `+otelcol.PullMetrics(address)+`
`)}
	f.AwaitLog(t, until, 5*time.Minute)
	return f
}

func (f *followed) awaitRecords(t *testing.T, records int) {
	harness.Poll(t, 10*time.Minute, "the leader's records", func() string {
		scraped, err := otelcol.ReadMetrics(t.Context(), f.metrics)
		if err != nil {
			return err.Error()
		}
		if n := scraped.Sum("otelcol_receiver_accepted_log_records"); n < float64(records) {
			return fmt.Sprintf("%.0f of %d records", n, records)
		}
		return ""
	})
}

func (f *followed) cpu(t *testing.T) time.Duration { return harness.UsageOf(t, f.PID()).CPU }

// atStart returns the row of a replica that has started.
func (f *followed) atStart(t *testing.T, name string, server, took time.Duration) string {
	u := harness.UsageOf(t, f.PID())
	return fmt.Sprintf("| %s | %.1f | %.0f | %.0f | %.1f | %.1f |", name, u.CPU.Seconds(), float64(u.PeakResident)/1e6, float64(u.Resident)/1e6, server.Seconds(), took.Seconds())
}
