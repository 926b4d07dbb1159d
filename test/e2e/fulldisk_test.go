package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// While no checkpoint can be written, the Collector logs that, and records flow. When the disk has space again, the
// checkpoint is written without a restart, and a later crash repeats nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 50, harness.SmallPod)
	folder, sink := t.TempDir(), harness.StartSink(t)
	config := stored(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", sink, folder)
	first := harness.StartCollector(t, config)
	sink.Records.AwaitSnapshot(t, "pods", catchUp)

	if err := harness.LimitFileSize(first.PID(), 0); err != nil {
		t.Skipf("a disk cannot be filled here: %v", err)
	}
	c.CreatePods(t, "full", 20, harness.SmallPod)
	sink.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, catchUp)
	first.AwaitLog(t, "file too large", catchUp)
	if err := harness.LimitFileSize(first.PID(), -1); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	harness.Poll(t, 2*catchUp, "the checkpoint to be written", func() string {
		for _, path := range matching(t, filepath.Join(folder, "*")) {
			if info, err := os.Stat(path); err == nil && info.ModTime().After(freed) {
				return ""
			}
		}
		return "it is not"
	})
	first.Kill(t)

	c.CreatePods(t, "after", 1, harness.SmallPod)
	second := harness.StartCollector(t, config)
	listed := c.List(t, harness.Pods)
	sink.Records.AwaitFold(t, "pods", listed.State, catchUp)
	second.Interrupt(t)
	objects := harness.Objects(sink.Records.All(), "pods")
	report(t, "records were repeated", fold.Duplicates(objects))
	requireInventory(t, c, folder)
}
