package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// The API server is killed, or ends normally with open watches, 20 times in a row, while pods change whenever it runs.
// Each start discards the history.
func TestAPIServerRestarted20Times(t *testing.T) {
	t.Parallel()
	const restarts, changes = 20, 15
	s := server{options: controlplane.Options{
		// Otherwise an API server with open watches ends only after a minute.
		APIServerArgs: []string{"--shutdown-watch-termination-grace-period=500ms"},
	}}.start(t)
	s.CreatePods(t, "first", 50, harness.SmallPod)
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	r := harness.StartReceiver(t, s.access+"resources: [{name: pods}]", nil)
	from := r.Records.AwaitSnapshot(t, "pods", catchUp)

	writer := harness.NewWriter(t, s.Cluster)
	killed, stopped := 0, 0
	for restart := range restarts {
		writer.Write(t, harness.Times(changes))
		if restart%4 == 3 {
			stopAPIServer(t, s)
			stopped++
			s.BringUpAPIServer(t)
		} else {
			s.RestartAPIServer(t)
			killed++
		}
	}
	writer.Write(t, harness.Times(changes))

	listed := s.List(t, harness.Pods)
	r.Records.AwaitFold(t, "pods", listed.State, 2*catchUp)
	records := r.Records.All()
	requireOnceAndInOrder(t, harness.Objects(records, "pods"))
	events := truth.Between(t, from, listed.ResourceVersion)
	report(t, "events of etcd were lost silently", harness.NotAccountedFor(t, events, records, "pods"))
	t.Logf("%d kills, %d stops, %d events, %d records, %d gaps", killed, stopped, len(events), len(records),
		len(harness.OfStream(records, "pods", "k8s.watch.gap")))
}

func stopAPIServer(t *testing.T, s *site) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Error("the API server did not end")
	}
}
