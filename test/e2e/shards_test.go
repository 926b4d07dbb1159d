package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	sentByShard = "the API server sends only the objects of this shard"
	sentAll     = "the API server sends the objects of all shards"
)

// shards are receivers that each read one shard of the same cluster.
type shards []*harness.Receiver

func startShards(t *testing.T, total int, config string) shards {
	t.Helper()
	var all shards
	for index := range total {
		all = append(all, harness.StartReceiver(t, fmt.Sprintf("shard: {total: %d, index: %d}\n%s", total, index, config), nil))
	}
	for _, r := range all {
		r.Records.AwaitSnapshot(t, "pods", catchUp)
	}
	return all
}

// objects returns the records of pods, by receiver.
func (s shards) objects() [][]fold.Record {
	var all [][]fold.Record
	for _, r := range s {
		all = append(all, harness.Objects(r.Records.All(), "pods"))
	}
	return all
}

// await waits until the union of the folds is what the API server lists.
func (s shards) await(t *testing.T, c *harness.Cluster) {
	t.Helper()
	listed := c.List(t, harness.Pods).State
	harness.Poll(t, catchUp, "the union of the shards to equal the LIST", func() string {
		union := fold.State{}
		for _, records := range s.objects() {
			maps.Copy(union, fold.Fold(records))
		}
		return strings.Join(union.Differences(listed), "; ")
	})
}

// requireDisjoint requires that no object has records of two receivers, and none has them in a wrong order or twice.
func (s shards) requireDisjoint(t *testing.T) {
	t.Helper()
	owner := map[string]int{}
	var found []string
	for index, records := range s.objects() {
		requireOnceAndInOrder(t, records)
		for _, record := range records {
			if first, ok := owner[record.UID]; ok && first != index {
				found = append(found, fmt.Sprintf("%s, of shards %d and %d", record, first, index))
			}
			owner[record.UID] = index
		}
		requireNothingRecovered(t, s[index].Records.All())
	}
	report(t, "objects were emitted by two shards", found)
}

// events returns how many watch events of an origin each receiver has read.
func (s shards) events(t *testing.T, origin string) []int64 {
	t.Helper()
	var counts []int64
	for _, r := range s {
		var n int64
		for _, event := range []string{"added", "modified", "deleted"} {
			n += r.Count(t, "otelcol_k8s_watchlist_events", attribute.String("type", event), attribute.String("origin", origin), attribute.String("resource", "pods"))
		}
		counts = append(counts, n)
	}
	return counts
}

// Several receivers emit every object once, together. With the feature gate the API server sends each of them only its shard,
// in the initial state, in the live stream and in a relist of metadata; without it, everything.
func TestShards(t *testing.T) {
	t.Parallel()
	const each = 200
	for name, gates := range map[string]map[string]bool{"sent by shard": {"ShardedListAndWatch": true}, "sent to all": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := harness.StartCluster(t, controlplane.Options{FeatureGates: gates})
			c.CreatePods(t, "kept", each, harness.SmallPod)
			c.CreatePods(t, "recreated", each, harness.SmallPod)
			for _, total := range []int{1, 2, 4} {
				c.CreatePods(t, "gone", each, harness.SmallPod)
				all := startShards(t, total, kubeconfig(c.Kubeconfig())+"resources: [pods]\nrelist: {interval: 2s}")
				initial := all.events(t, "initial")

				labelPods(t, c, "kept", each, fmt.Sprint(total))
				c.DeletePods(t, "recreated", each)
				c.CreatePods(t, "recreated", each, harness.SmallPod) // the same names, but perhaps of other shards
				c.DeletePods(t, "gone", each)
				all.await(t, c)
				changes := 0
				for index, r := range all {
					seen := r.CompleteRelists(t)
					harness.Poll(t, 2*catchUp, fmt.Sprintf("a relist of shard %d", index), func() string {
						changes++ // of each shard, so that every stream soon passes the snapshot
						labelPods(t, c, "kept", 20*total, fmt.Sprintf("%d-%d", total, changes))
						if r.CompleteRelists(t) == seen {
							return "none is complete"
						}
						return ""
					})
				}
				all.await(t, c)
				all.requireDisjoint(t)
				all.requireSent(t, initial, each, gates != nil)
				for _, r := range all {
					r.Shutdown(t)
				}
			}
		})
	}
}

// requireSent requires that the API server has sent each shard only its objects, or all of them.
func (s shards) requireSent(t *testing.T, initial []int64, each int64, byShard bool) {
	t.Helper()
	live, relists := s.events(t, "live"), s.events(t, "relist")
	var complete []int64
	for index, r := range s {
		complete = append(complete, r.CompleteRelists(t))
		least, most := 3*each, 3*each
		leastRelist, mostRelist := 2*each*complete[index], 3*each*(complete[index]+1) // without and with those that are gone, and one that is not complete
		switch total := int64(len(s)); {
		case total == 1:
			if said := r.Log.Lines(zapcore.InfoLevel, "the API server sends"); len(said) > 0 {
				t.Errorf("the receiver of everything says: %v", said)
			}
		case byShard:
			least, most = 7*least/total/10, 13*most/total/10
			leastRelist, mostRelist = 7*leastRelist/total/10, 13*mostRelist/total/10
			if len(r.Log.Lines(zapcore.InfoLevel, sentByShard)) != 1 || len(r.Log.Lines(zapcore.InfoLevel, sentAll)) > 0 {
				t.Errorf("shard %d does not say once that the API server divides", index)
			}
		default:
			if len(r.Log.Lines(zapcore.InfoLevel, sentAll)) != 1 || len(r.Log.Lines(zapcore.InfoLevel, sentByShard)) > 0 {
				t.Errorf("shard %d does not say once that the API server sends everything", index)
			}
		}
		if n := initial[index]; n < least || n > most {
			t.Errorf("shard %d of %d was sent %d objects in the initial state, want %d to %d", index, len(s), n, least, most)
		}
		if n := relists[index]; n < leastRelist || n > mostRelist {
			t.Errorf("shard %d of %d was sent %d objects in %d relists, want %d to %d", index, len(s), n, complete[index], leastRelist, mostRelist)
		}
	}
	t.Logf("%d shards, events that each was sent: initial %v, live %v, %v relists %v", len(s), initial, live, complete, relists)
}

// labelPods changes a label of the first n of such pods.
func labelPods(t *testing.T, c *harness.Cluster, prefix string, n int, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":%q}}}`, value)
	harness.EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		_, err := c.Client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// Behind one address are API servers with the feature gate and such without, which ignore the parameter. Streams move from one to
// the other, and nothing is missed or repeated, and no deletion is emitted of an object that exists.
func TestShardsBehindServersThatDiffer(t *testing.T) {
	t.Parallel()
	const each = 100
	c, front, access := behindFrontOf(t, controlplane.Options{FeatureGates: map[string]bool{"ShardedListAndWatch": true}})
	var requests atomic.Int64
	front.Rewrite(func(query url.Values) {
		if query.Has("shardSelector") && requests.Add(1)%2 == 0 {
			query.Del("shardSelector")
		}
	})
	c.CreatePods(t, "kept", each, harness.SmallPod)
	c.CreatePods(t, "gone", each, harness.SmallPod)
	all := startShards(t, 2, access+"resources: [pods]\nrelist: {interval: 2s}")
	for round := range 4 {
		front.CutStreams()
		labelPods(t, c, "kept", each, fmt.Sprint(round))
		if round == 2 {
			c.DeletePods(t, "gone", each)
		}
		all.await(t, c)
	}
	for index, r := range all {
		seen := r.CompleteRelists(t)
		changes := 0
		harness.Poll(t, 2*catchUp, fmt.Sprintf("two relists of shard %d", index), func() string {
			changes++
			labelPods(t, c, "kept", 40, fmt.Sprintf("r%d", changes))
			return strings.Repeat("they are not complete", int(max(0, seen+2-r.CompleteRelists(t))))
		})
	}
	all.await(t, c)
	all.requireDisjoint(t)
	met := map[string]int{}
	for _, r := range all {
		for _, text := range []string{sentByShard, sentAll} {
			met[text] += len(r.Log.Lines(zapcore.InfoLevel, text))
		}
	}
	if met[sentByShard] == 0 || met[sentAll] == 0 {
		t.Errorf("the shards have met not both kinds of servers: %v", met)
	}
}

// The number of shards changes, with a storage for each process, as in a StatefulSet. While nothing runs, objects of all shards
// are created, changed and deleted. A backend that applies the sets of the shards has what the API server lists.
func TestAnotherNumberOfShards(t *testing.T) {
	t.Parallel()
	const each = 60
	c := harness.StartCluster(t, controlplane.Options{})
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}
	c.CreatePods(t, "kept", each, harness.SmallPod)
	c.CreatePods(t, "recreated", each, harness.SmallPod)
	backend := fold.State{}
	for round, total := range []int{1, 2, 4, 4, 2, 1} {
		var collectors []*harness.Collector
		for index := range total {
			config := fmt.Sprintf("resources: [pods]\nshard: {total: %d, index: %d}", total, index)
			collectors = append(collectors, harness.StartCollector(t, withStorage(kubeconfig(c.Kubeconfig())+config, folders[index])))
		}
		c.CreatePods(t, fmt.Sprintf("new%d", round), each, harness.SmallPod) // those of the round before are deleted
		listed := c.List(t, harness.Pods).State
		var state fold.State
		harness.Poll(t, catchUp, "the backend to have what the API server lists", func() string {
			state = maps.Clone(backend)
			for _, collector := range collectors {
				applySets(state, collector.Records.All())
			}
			return strings.Join(state.Differences(listed), "; ")
		})
		owners := map[string]int{}
		sets, gaps := 0, map[string]int{}
		for index, collector := range collectors {
			collector.Interrupt(t)
			records := collector.Records.All()
			for _, object := range harness.Objects(records, "pods") {
				if owner, ok := owners[object.UID]; ok && owner != index {
					t.Errorf("%s was emitted by two shards", object)
				}
				owners[object.UID] = index
			}
			sets += len(harness.OfStream(records, "pods", "k8s.snapshot.end"))
			for _, gap := range harness.OfStream(records, "pods", "k8s.watch.gap") {
				gaps[fmt.Sprint(gap.Stream["k8s.gap.reason"])]++
			}
		}
		t.Logf("round %d, %d shards: %d objects in records, %d sets, gaps %v", round, total, len(owners), sets, gaps)
		// Whoever reads a part of what it read before continues, and the others begin with a set.
		want := []struct{ sets, resharded int }{{1, 0}, {1, 0}, {3, 0}, {0, 0}, {2, 1}, {1, 1}}[round]
		if sets != want.sets || gaps["resharded"] != want.resharded || len(gaps) > 1 {
			t.Errorf("round %d, %d shards: %d sets and gaps %v, want %d sets and %d resharded", round, total, sets, gaps, want.sets, want.resharded)
		}
		backend = state

		c.DeletePods(t, fmt.Sprintf("new%d", round), each)
		c.DeletePods(t, "recreated", each)
		c.CreatePods(t, "recreated", each, harness.SmallPod)
		labelPods(t, c, "kept", each, fmt.Sprint(round))
	}
}

// applySets applies records as docs/records.md says: an object of the shard of a set that has no record since its begin is gone.
func applySets(state fold.State, records []harness.Record) {
	seen := map[string]bool{}
	for _, r := range records {
		switch {
		case r.Object != nil && r.Object.Type == "DELETED":
			delete(state, r.Object.UID)
		case r.Object != nil:
			state[r.Object.UID] = r.Object.ResourceVersion
			seen[r.Object.UID] = true
		case r.Event == "k8s.snapshot.begin":
			clear(seen)
		case r.Event == "k8s.snapshot.end":
			var of shard.Shard
			if total, ok := r.Stream["k8s.watchlist.shard.total"].(int64); ok {
				index, _ := r.Stream["k8s.watchlist.shard.index"].(int64)
				of = shard.Shard{Index: int(index), Total: int(total)}
			}
			maps.DeleteFunc(state, func(uid, _ string) bool { return of.Owns(uid, "") && !seen[uid] })
		}
	}
}

// The number of shards doubles and halves while objects are changed all the time, the last time after the history is gone. A backend
// that applies the sets of the shards has what the API server lists. E2E_SHARDS is the smaller number.
func TestAnotherNumberOfShardsUnderChanges(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	etcd := harness.ConnectEtcd(t, c)
	c.CreatePods(t, "kept", 200, harness.SmallPod)
	var folders []string
	fewer := fromEnvironment("E2E_SHARDS", 2)
	for range 2 * fewer {
		folders = append(folders, t.TempDir())
	}
	backend := fold.State{}
	stop := write(t, c)
	rounds := []struct {
		total int
		gaps  map[string]int
	}{{fewer, nil}, {2 * fewer, nil}, {fewer, map[string]int{"resharded": 1}}, {2 * fewer, map[string]int{"expired": 1 + fewer}}}
	last := len(rounds) - 1
	for round, of := range rounds {
		var collectors []*harness.Collector
		for index := range of.total {
			config := fmt.Sprintf("resources: [pods]\nshard: {total: %d, index: %d}", of.total, index)
			collectors = append(collectors, harness.StartCollector(t, withStorage(kubeconfig(c.Kubeconfig())+config, folders[index])))
		}
		for _, collector := range collectors {
			collector.AwaitLog(t, "reading resource", catchUp)
		}
		if round == last {
			stop()
		}
		later := fmt.Sprintf("later%d", round)
		c.CreatePods(t, later, 40, func(name string) *corev1.Pod {
			pod := harness.SmallPod(name)
			pod.Labels = map[string]string{"created": later}
			return pod
		})
		state := fold.State{}
		harness.Poll(t, 2*catchUp, "the backend to have what the API server lists", func() string {
			state = maps.Clone(backend)
			for _, collector := range collectors {
				applySets(state, collector.Records.All())
			}
			if round < last { // the others change meanwhile
				for uid := range c.ListSelected(t, harness.Pods, "created="+later).State {
					if state[uid] == "" {
						return uid + " is missing"
					}
				}
				return ""
			}
			return strings.Join(state.Differences(c.List(t, harness.Pods).State), "; ")
		})
		gaps := map[string]int{}
		state = maps.Clone(backend)
		for _, collector := range collectors {
			collector.Interrupt(t)
			applySets(state, collector.Records.All())
			for _, gap := range harness.OfStream(collector.Records.All(), "pods", "k8s.watch.gap") {
				gaps[fmt.Sprint(gap.Stream["k8s.gap.reason"])]++
			}
		}
		backend = state
		t.Logf("round %d, %d shards: gaps %v", round, of.total, gaps)
		// Of those that ran, only the first shard continues from what it read before. Where that is a part of what it reads now,
		// its set has a gap. In the last round, those continue too that did not run in the one before.
		if !maps.Equal(gaps, of.gaps) {
			t.Errorf("round %d: gaps %v, want %v", round, gaps, of.gaps)
		}
		if round == last-1 {
			stop()
			c.DeletePods(t, "later0", 20)
			etcd.Compact(t)
			c.RestartAPIServer(t)
		}
	}
}

// With leader_election, a shard of another number waits until no replica of the old number runs.
func TestShardsWaitForThoseOfAnotherNumber(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "divided", 40, harness.SmallPod)
	sink := harness.StartSink(t)
	start := func(total int) *harness.Collector {
		return harness.StartCollector(t, unstored(kubeconfig(c.Kubeconfig())+fmt.Sprintf(`resources: [{name: pods}]
shard: {total: %d, index: 0}
leader_election: {enabled: true, lease_namespace: default, lease_duration: 5s, renew_deadline: 3s, retry_period: 500ms}
`, total), sink))
	}
	old := start(2)
	old.AwaitLog(t, "this replica leads", catchUp)
	sink.Records.AwaitSnapshot(t, "pods", catchUp)
	changed := start(4)
	changed.AwaitLog(t, "there are still replicas with 2 shards by uid, and this one has 4 shards by uid", catchUp)
	mark := sink.Records.Len()
	old.Interrupt(t)
	if late := sink.Records.After(mark); len(late) > 0 {
		t.Errorf("%d records while the old shard ran", len(late))
	}
	changed.AwaitLog(t, "this replica leads", catchUp)
}
