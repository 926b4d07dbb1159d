package e2e

import (
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

func TestInitialStateLiveChangesAndRelist(t *testing.T) {
	t.Parallel()
	initialStateLiveChangesAndRelist(t, modern, 5000, 2000)
}

func TestInitialStateLiveChangesAndRelistWithoutWatchList(t *testing.T) {
	t.Parallel()
	initialStateLiveChangesAndRelist(t, withoutWatchList, 300, 200)
}

func TestInitialStateLiveChangesAndRelistWithoutEndMarker(t *testing.T) {
	t.Parallel()
	initialStateLiveChangesAndRelist(t, withoutMarker, 300, 200)
}

// A live stream that is always behind the fresh one: the events that it has yet to deliver must neither be lost nor
// count as missed when the fresh one replaces it.
func TestInitialStateLiveChangesAndRelistBesideALaggingStream(t *testing.T) {
	t.Parallel()
	initialStateLiveChangesAndRelist(t, lagging, 300, 1000)
}

// initialStateLiveChangesAndRelist checks that while pods change at random and streams are replaced, every single
// change arrives, once and in order. etcd provides the list of changes.
func initialStateLiveChangesAndRelist(t *testing.T, kind server, pods, operations int) {
	s := kind.start(t)
	s.CreatePods(t, "first", pods, harness.SmallPod)
	truth := harness.ConnectEtcd(t, s.Cluster).Watch(t, "/registry/pods/")
	r := harness.StartReceiver(t, s.access+`
resources: [{name: pods}]
relist: {interval: 1s}
`, nil)

	from := r.Records.AwaitSnapshot(t, "pods", 2*catchUp)
	listed := s.List(t, harness.Pods)
	if len(listed.State) != pods {
		t.Fatalf("%d pods exist", len(listed.State))
	}
	r.Records.AwaitFold(t, "pods", listed.State, 0)

	writer := harness.NewWriter(t, s.Cluster)
	relistsBefore := r.CompleteRelists(t)
	deadline := time.Now().Add(catchUp)
	done := writer.Write(t, func(o harness.Operations) bool {
		if o.Total() < operations {
			return false
		}
		return r.CompleteRelists(t) >= relistsBefore+2 || time.Now().After(deadline)
	})
	relists := r.CompleteRelists(t) - relistsBefore
	t.Logf("%+v while %d streams were replaced", done, relists)
	if relists < 2 {
		t.Errorf("%d relists were completed while the pods changed", relists)
	}

	listed = s.List(t, harness.Pods)
	r.Records.AwaitFold(t, "pods", listed.State, catchUp)
	records := r.Records.All()
	objects := harness.Objects(records, "pods")
	requireOnceAndInOrder(t, objects)
	requireNothingRecovered(t, records)
	events := truth.Between(t, from, listed.ResourceVersion)
	if len(events) < done.Total() {
		t.Errorf("etcd reports %d events after %d changes", len(events), done.Total())
	}
	report(t, "events of etcd were not emitted", harness.NotEmitted(events, objects))
	report(t, "records report changes that never happened", harness.NotHappened(t, events, objects, listed.ResourceVersion))
	requireWayOf(t, kind, s, r)
}

// With emit: snapshot, a consumer that drops at the end of each set all objects without a record since its begin has
// what the server holds, and each set has as many records as its end states.
func TestRelistSnapshotIsComplete(t *testing.T) {
	t.Parallel()
	s := modern.start(t)
	s.CreatePods(t, "first", 300, harness.SmallPod)
	r := harness.StartReceiver(t, s.access+`
resources: [{name: pods}]
relist: {interval: 1s, emit: snapshot}
`, nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	deadline := time.Now().Add(catchUp)
	harness.NewWriter(t, s.Cluster).Write(t, func(o harness.Operations) bool {
		return o.Total() >= 300 && r.CompleteRelists(t) >= 3 || time.Now().After(deadline)
	})
	listed := s.List(t, harness.Pods)
	r.Records.AwaitFold(t, "pods", listed.State, catchUp)

	records := r.Records.All()
	requireOnceAndInOrder(t, harness.Objects(records, "pods"))
	requireNothingRecovered(t, records)
	pruned, sets := foldSets(t, records)
	report(t, "differences between the pruned fold and the LIST", pruned.Differences(listed.State))
	if sets < 4 {
		t.Errorf("%d sets of snapshots are complete, want the first one and three of relists", sets)
	}
}

// foldSets applies records like a consumer that trusts complete sets of snapshots, and returns its state and the number
// of sets.
func foldSets(t *testing.T, records []harness.Record) (fold.State, int) {
	t.Helper()
	state, covered, sets := fold.State{}, map[string]bool{}, 0
	var inSet int64
	for _, record := range records {
		switch {
		case record.Event == "k8s.snapshot.begin":
			covered, inSet = map[string]bool{}, 0
		case record.Event == "k8s.snapshot.end":
			sets++
			if want := record.Stream["k8s.snapshot.objects"]; want != inSet {
				t.Errorf("a set has %d records, but its end states %v", inSet, want)
			}
			for uid := range state {
				if !covered[uid] {
					delete(state, uid)
				}
			}
		case record.Object == nil:
		case record.Object.Type == "DELETED":
			delete(state, record.Object.UID)
		default:
			state[record.Object.UID] = record.Object.ResourceVersion
			covered[record.Object.UID] = true
			if record.Object.Type == "SNAPSHOT" {
				inSet++
			}
		}
	}
	return state, sets
}
