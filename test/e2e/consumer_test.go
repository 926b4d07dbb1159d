package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// A consumer that refuses for a while and then hangs costs only time: the stream is closed when the queue is full, and
// resumed.
func TestConsumerRefusesAndBlocks(t *testing.T) {
	t.Parallel()
	s := modern.start(t)
	s.CreatePods(t, "first", 200, harness.SmallPod)
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	next := &harness.Consumer{}
	next.Refuse(errors.New("not now"))
	r := harness.StartReceiver(t, s.access+`
resources: [{name: pods}]
queue: {max_bytes: 131072}
batch: {max_bytes: 16384}
`, next)
	next.AwaitCalls(t, 3, catchUp) // the same batch each time
	next.Accept()
	from := r.Records.AwaitSnapshot(t, "pods", catchUp)

	next.Refuse(errors.New("not now either"))
	writer := harness.NewWriter(t, s.Cluster)
	writer.Write(t, harness.Times(100))
	next.AwaitCalls(t, 2, catchUp)
	next.Block()
	deadline := time.Now().Add(catchUp)
	writer.Write(t, func(o harness.Operations) bool {
		return o.Total() >= 400 && r.Count(t, "otelcol_k8s_watchlist_paused") > 0 || time.Now().After(deadline)
	})
	paused := r.Count(t, "otelcol_k8s_watchlist_paused")
	writer.Write(t, harness.Times(100))
	next.Accept()

	requireEveryEvent(t, s.Cluster, &r.Records, truth, from)
	if paused == 0 {
		t.Error("the queue was never full")
	}
}
