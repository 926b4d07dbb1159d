package e2e

import (
	"fmt"
	"maps"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// TestSpans: the initial state, relists and a recovery of a real API server are spans that say how much was read and what
// differed, and all of them end.
func TestSpans(t *testing.T) {
	t.Parallel()
	const pods, each = 30, 5
	s := modern.start(t)
	s.CreatePods(t, "kept", pods-2*each, harness.SmallPod)
	s.CreatePods(t, "changed", each, harness.SmallPod)
	s.CreatePods(t, "deleted", each, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, s.Cluster)
	r := harness.StartReceiver(t, s.access+"resources: [{name: pods, namespaces: [default], label_selector: 'app!=none'}]\nrelist: {interval: 2s}", nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	var relist harness.Span
	harness.Poll(t, catchUp, "a complete relist", func() string {
		all := r.Spans("k8s_watchlist.relist")
		for _, relist = range all {
			if relist.Attributes["outcome"] == "complete" {
				return ""
			}
		}
		return fmt.Sprintf("there are %+v", all)
	})

	s.proxy.Cut()
	s.DeletePods(t, "deleted", each)
	s.ChangePods(t, "changed", each)
	s.CreatePods(t, "added", each, harness.SmallPod)
	etcd.Compact(t)
	s.RestartAPIServer(t)
	listed := s.List(t, harness.Pods)
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, "pods", listed.State, catchUp)
	var recovered harness.Span
	harness.Poll(t, catchUp, "a complete recovery", func() string {
		all := r.Spans("k8s_watchlist.recover")
		for _, recovered = range all {
			if recovered.Attributes["outcome"] == "complete" {
				return ""
			}
		}
		return fmt.Sprintf("there are %+v", all)
	})
	r.Shutdown(t)
	if n := r.OpenSpans(); n != 0 {
		t.Errorf("%d spans did not end", n)
	}

	initial := r.Spans("k8s_watchlist.initial")
	if len(initial) != 1 {
		t.Fatalf("%d spans of the initial state, want one: %+v", len(initial), initial)
	}
	common := map[string]any{
		"group": "", "resource": "pods", "namespace": "default", "label_selector": "app!=none",
		"outcome": "complete", "listed": false, "objects": int64(pods),
	}
	none := map[string]any{"found.added": int64(0), "found.modified": int64(0), "found.deleted": int64(0), "found.unchanged": int64(0)}
	differences := map[string]any{
		"found.added": int64(each), "found.modified": int64(each), "found.deleted": int64(each), "found.unchanged": int64(0), "reason": "expired",
	}
	requireSpan(t, initial[0], common)
	requireSpan(t, relist, common, none, map[string]any{"metadata_only": true})
	requireSpan(t, recovered, common, differences)
}

// requireSpan requires a span with exactly these attributes, besides the number of bytes.
func requireSpan(t *testing.T, s harness.Span, wants ...map[string]any) {
	t.Helper()
	got, all := maps.Clone(s.Attributes), make(map[string]any)
	if bytes, _ := got["bytes"].(int64); bytes < 30*100 || bytes > 30*10_000 {
		t.Errorf("%d bytes: %+v", bytes, s)
	}
	delete(got, "bytes")
	delete(got, "receiver")
	for _, want := range wants {
		maps.Copy(all, want)
	}
	if !maps.Equal(got, all) {
		t.Errorf("the attributes are %v, want %v", got, all)
	}
	if id, _ := s.Attributes["receiver"].(string); id == "" {
		t.Error("the receiver is not named")
	}
	if s.Failure != "" || s.Seconds <= 0 {
		t.Errorf("%+v", s)
	}
}
