package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/etcdrestore"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// etcd is set back under two replicas: with revisions that only grow, or with those of the undone changes, while the leader goes
// on or is killed. What was undone is emitted, with a gap that says why. Nobody takes what the leader had published for what it has
// emitted of the restored history, so that another takeover after that loses nothing and emits no set either.
func TestTakeoverAndEtcdRestored(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		restore func(testing.TB, *harness.Cluster, string)
		killed  bool
	}{
		"revisions grow":                     {etcdrestore.Restore, false},
		"revisions grow, leader is killed":   {etcdrestore.Restore, true},
		"revisions repeat":                   {etcdrestore.SetBack, false},
		"revisions repeat, leader is killed": {etcdrestore.SetBack, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 10
			c := harness.StartCluster(t, controlplane.Options{})
			for _, prefix := range []string{"kept", "changed", "deleted"} {
				c.CreatePods(t, prefix, each, harness.SmallPod)
			}
			r := startReplicas(t, c, 2, kind{sink: harness.StartSink(t)})
			records := &r.kind.sink.Records
			leader := r.leader()
			records.AwaitSnapshot(t, "pods", catchUp)
			changeUntilReady(r)
			saved := filepath.Join(t.TempDir(), "etcd.db")
			etcdrestore.Save(t, c, saved)

			c.ChangePods(t, "changed", each)
			c.DeletePods(t, "deleted", each)
			c.CreatePods(t, "undone", each, harness.SmallPod)
			awaitArrived(r)
			r.awaitPublished()
			r.awaitReady()
			mark := records.Len()

			if err := c.KillAPIServer(); err != nil {
				t.Fatal(err)
			}
			if of.killed {
				leader.kill(t)
			}
			of.restore(t, c, saved)
			c.BringUpAPIServer(t)
			restored := time.Now()
			if of.killed {
				r.add()
			}
			awaitArrived(r)
			t.Logf("everything is emitted %s after etcd is back", time.Since(restored).Round(time.Millisecond))
			counts := map[string]int{}
			for _, record := range records.After(mark) {
				if record.Object == nil {
					counts[record.Event+" "+fmt.Sprint(record.Stream["k8s.gap.reason"])]++
					continue
				}
				counts[summary(record)]++
			}
			t.Logf("%v", counts)
			if counts["k8s.watch.gap history_reset"] == 0 {
				t.Errorf("no gap says that the history was set back")
			}

			// The standby has filled again, and knows what was emitted since.
			changeUntilReady(r)
			t.Logf("the standbys are ready %s after etcd is back", time.Since(restored).Round(time.Millisecond))
			c.CreatePods(t, "gone", each, harness.SmallPod)
			awaitArrived(r)
			r.awaitPublished()
			mark = records.Len()
			old := r.holder()
			old.kill(t)
			c.DeletePods(t, "gone", each)
			c.DeletePods(t, "changed", each)
			c.ChangePods(t, "deleted", each)
			c.CreatePods(t, "after", 1, harness.SmallPod)
			awaitArrived(r)
			var unexpected []string
			for _, record := range records.After(mark) {
				if record.Object == nil || record.Object.Origin != "live" {
					unexpected = append(unexpected, record.String())
				}
			}
			report(t, "records are not live after a takeover to a standby that was ready", unexpected)
			if slices.ContainsFunc(r.all, func(m *member) bool { return !m.over && leads(m) && m == old }) {
				t.Error("the leader did not change")
			}
		})
	}
}

// changeUntilReady changes a pod until the standbys are ready, since the leader has to pass the version of their snapshot.
func changeUntilReady(r *replicas) {
	r.t.Helper()
	harness.Poll(r.t, 2*catchUp, "the standbys", func() string {
		missing := r.notReady()
		if missing == "" {
			missing = r.readyForAnother()
		}
		if missing != "" {
			r.cluster.CreatePods(r.t, fmt.Sprintf("tick%d", time.Now().UnixNano()), 1, harness.SmallPod)
		}
		return missing
	})
}

// readyForAnother returns which standby is ready only for an earlier generation of the progress than the published one: it has not
// noticed yet that etcd was set back.
func (r *replicas) readyForAnother() string {
	r.t.Helper()
	lease, err := r.cluster.Client.CoordinationV1().Leases("default").Get(r.t.Context(), progressLease, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var published struct {
		Generation int `json:"g"`
	}
	if err := json.Unmarshal([]byte(lease.Annotations[harness.ProgressAnnotation]), &published); err != nil {
		return err.Error()
	}
	for _, m := range r.all {
		log := m.Log()
		line, _, _ := strings.Cut(log[max(0, strings.LastIndex(log, "standby is ready")):], "\n")
		if of := fmt.Sprintf(`"generation": %d,`, published.Generation); !m.over && !leads(m) && !strings.Contains(line, of) {
			return m.name + " is ready for another generation"
		}
	}
	return ""
}

// awaitArrived waits until what has arrived, in its order, equals what the API server lists. What is not in a set of snapshots is
// gone.
func awaitArrived(r *replicas) {
	r.t.Helper()
	harness.Poll(r.t, 5*catchUp, "the fold in order of arrival", func() string {
		listed := r.cluster.List(r.t, harness.Pods)
		var records []fold.Record
		begin := 0
		for _, record := range r.records() {
			switch {
			case record.Object != nil:
				records = append(records, *record.Object)
			case record.Event == "k8s.snapshot.begin":
				begin = len(records)
			case record.Event == "k8s.snapshot.end":
				records = slices.Clone(records[begin:])
				begin = 0
			}
		}
		if d := fold.Fold(records).Differences(listed.State); len(d) > 0 {
			return fmt.Sprintf("%d differences, such as %s", len(d), d[0])
		}
		return ""
	})
}
