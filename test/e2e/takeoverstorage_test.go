package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// again starts a replica that continues with the storage of one that has ended.
func (r *replicas) again(m *member) *member {
	r.t.Helper()
	return r.addIn(m.folder)
}

// Each replica has a storage. The leader is stopped, then killed, and continues as a standby. At last all are killed, and the
// history is gone when they are back: one of them still knows what was emitted, so that its differences are emitted, with
// deletions, and nothing else.
func TestTakeoverWithStorage(t *testing.T) {
	t.Parallel()
	const each = 20
	x := startTakeovers(t, 2, kind{stored: true})
	old := x.leader()
	old.stop(t)
	now, took := x.next(old)
	t.Logf("%s leads %s after %s was stopped", now.name, took.Round(time.Millisecond), old.name)
	x.again(old)
	x.awaitReady()
	report(t, "records were repeated after an orderly stop", x.repeated())

	now.kill(t)
	last, took := x.next(now)
	t.Logf("%s leads %s after %s was killed", last.name, took.Round(time.Millisecond), now.name)
	other := x.again(now)
	x.awaitReady()
	x.cluster.CreatePods(t, "changed", each, harness.SmallPod)
	x.cluster.CreatePods(t, "deleted", each, harness.SmallPod)
	repeated := x.finish()
	t.Logf("%d of %d records are repeated", len(repeated), len(x.objects()))
	requireNothingRecovered(t, x.records())
	x.awaitPublished()

	before := len(x.records())
	last.kill(t)
	other.kill(t)
	x.cluster.DeletePods(t, "deleted", each)
	x.cluster.ChangePods(t, "changed", each)
	x.cluster.CreatePods(t, "added", each, harness.SmallPod)
	x.etcd.CompactBehind(t, x.truth)
	x.cluster.RestartAPIServer(t)
	x.again(last)
	x.again(other)
	x.awaitFold()
	leader := x.leader()
	leader.sink.Records.Await(t, catchUp, "the record of the gap", func(records []harness.Record) string {
		if len(harness.OfStream(records, "pods", "k8s.watch.gap")) == 0 {
			return fmt.Sprintf("%d records have arrived", len(records))
		}
		return ""
	})
	// What was accepted in the last second before a kill may not be in the checkpoint yet, and is emitted again. That is at most
	// 200 changes, or more on a slow machine, but not each of the 500 pods that were there from the beginning.
	const mostUnwritten = 300
	counts := map[string]int{}
	more := 0
	for _, record := range x.records()[before:] {
		if record.Object == nil {
			continue
		}
		if record.Object.Origin != "recovered" {
			t.Errorf("after the end of all, %s was emitted", record)
		}
		switch prefix := harness.Prefix(record.Object.Name); {
		case prefix == "deleted" && record.Object.Type == "DELETED", prefix == "added" && record.Object.Type == "ADDED", prefix == "changed":
			counts[prefix]++
		default:
			more++
		}
	}
	want := map[string]int{"added": each, "changed": each, "deleted": each}
	if fmt.Sprint(counts) != fmt.Sprint(want) || more > mostUnwritten {
		t.Errorf("after the end of all, the records of pods are %v and %d more, want %v", counts, more, want)
	}
	t.Logf("after the end of all, %d records were emitted that are not of the downtime", more)
	report(t, "changes are in no gap and were not emitted", harness.NotAccountedFor(t, x.truth.Between(t, x.from, x.cluster.List(t, harness.Pods).ResourceVersion), x.records(), "pods"))
	report(t, "differences between the fold and the LIST", fold.Fold(x.objects()).Differences(x.cluster.List(t, harness.Pods).State))
}
