package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// withStorage returns the configuration of a Collector that writes records to a file and checkpoints to a folder.
func withStorage(receiver, folder string) string {
	return strings.Replace(toFile(receiver+"\nstorage: file_storage\n"), "\nservice:\n", `
extensions:
  file_storage:
    directory: `+folder+`
service:
  extensions: [file_storage]
`, 1)
}

// requireInventory requires that the stored inventory of pods equals what the API server holds.
func requireInventory(t *testing.T, c *harness.Cluster, folder string) {
	t.Helper()
	report(t, "differences between the inventory and the LIST", c.InventoryDifferences(t, folder, nil, harness.Pods))
}

func objectsOf(collectors ...*harness.Collector) []fold.Record {
	var all []fold.Record
	for _, c := range collectors {
		all = append(all, harness.Objects(c.Records.All(), "pods")...)
	}
	return all
}

// A restarted Collector continues where it stopped. It emits the changes of the downtime, and repeats nothing.
func TestRestartWithCheckpoint(t *testing.T) {
	t.Parallel()
	const pods = 1000
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", pods, harness.SmallPod)
	folder := t.TempDir()
	config := withStorage(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", folder)

	first := harness.StartCollector(t, config)
	first.Records.AwaitSnapshot(t, "pods", catchUp)
	c.CreatePods(t, "live", 1, harness.SmallPod)
	first.Records.AwaitObject(t, "pods", "live-00000", "ADDED", catchUp)
	first.Interrupt(t)
	requireInventory(t, c, folder)

	c.CreatePods(t, "down", 5, harness.SmallPod)
	c.DeletePods(t, "live", 1)
	began := time.Now()
	second := harness.StartCollector(t, config)
	second.Records.AwaitObject(t, "pods", "live-00000", "DELETED", catchUp)
	t.Logf("the changes of the downtime arrived %s after the start", time.Since(began).Round(time.Millisecond))
	c.CreatePods(t, "after", 1, harness.SmallPod)
	second.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	second.Interrupt(t)
	requireInventory(t, c, folder)

	listed := c.List(t, harness.Pods)
	objects := objectsOf(first, second)
	report(t, "differences between the fold and the LIST", fold.Fold(objects).Differences(listed.State))
	requireOnceAndInOrder(t, objects)
	// Five pods, one that is marked and then deleted, and the last one.
	if n := len(objectsOf(second)); n != 5+2+1 {
		t.Errorf("%d records of pods arrived after the restart, want 8: %v", n, objectsOf(second))
	}
	requireNothingRecovered(t, second.Records.All())
}

// The history of the downtime is gone. Exactly its net differences are emitted, including deletions.
func TestRestartAfterCompaction(t *testing.T) {
	t.Parallel()
	const each = 20
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 200, harness.SmallPod)
	c.CreatePods(t, "changed", each, harness.SmallPod)
	c.CreatePods(t, "deleted", each, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, c)
	folder := t.TempDir()
	config := withStorage(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", folder)

	first := harness.StartCollector(t, config)
	first.Records.AwaitSnapshot(t, "pods", catchUp)
	c.CreatePods(t, "live", 1, harness.SmallPod)
	last := first.Records.AwaitObject(t, "pods", "live-00000", "ADDED", catchUp)
	first.Interrupt(t)
	requireInventory(t, c, folder)

	c.DeletePods(t, "deleted", each)
	c.ChangePods(t, "changed", each)
	c.CreatePods(t, "added", each, harness.SmallPod)
	etcd.Compact(t)
	c.RestartAPIServer(t)
	if err := c.WatchPodsFrom(t, last.ResourceVersion); err == nil {
		t.Fatalf("the server still has the history since %s", last.ResourceVersion)
	}
	second := harness.StartCollector(t, config)
	second.Records.Await(t, catchUp, "the record of the gap", func(records []harness.Record) string {
		if len(harness.OfStream(records, "pods", "k8s.watch.gap")) == 0 {
			return fmt.Sprintf("%d records have arrived", len(records))
		}
		return ""
	})
	second.Interrupt(t)
	requireInventory(t, c, folder)

	objects := objectsOf(first, second)
	report(t, "differences between the fold and the LIST", fold.Fold(objects).Differences(c.List(t, harness.Pods).State))
	requireOnceAndInOrder(t, objects)
	counts := map[string]int{}
	for _, record := range second.Records.All() {
		counts[summary(record)]++
	}
	want := map[string]int{
		"DELETED recovered inferred deleted": each,
		"MODIFIED recovered changed":         each,
		"ADDED recovered added":              each,
		fmt.Sprintf("k8s.watch.gap expired from %s: %d added, %d modified, %d deleted", last.ResourceVersion, each, each, each): 1,
	}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("the records after the restart are %v, want %v", counts, want)
	}
}

// The checkpoint on disk holds only the identity and version of an object, not its content.
func TestCheckpointHoldsNoObject(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 10, harness.SmallPod)
	folder := t.TempDir()
	collector := harness.StartCollector(t, withStorage(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", folder))
	collector.Records.AwaitSnapshot(t, "pods", catchUp)
	collector.Interrupt(t)
	kept := filesIn(t, folder)
	for _, known := range []string{"kept-00000", string(objectsOf(collector)[0].UID)} {
		if !strings.Contains(kept, known) {
			t.Errorf("%q is not in the storage", known)
		}
	}
	for _, secret := range []string{"containers", "image", "spec", "labels"} {
		if strings.Contains(kept, secret) {
			t.Errorf("%q is in the storage", secret)
		}
	}
}

// filesIn returns the content of all files in a folder.
func filesIn(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}
