package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// edit changes a Lease by hand.
func (r *replicas) edit(name string, change func(*coordinationv1.Lease)) {
	r.t.Helper()
	leases := r.cluster.Client.CoordinationV1().Leases("default")
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(lease)
		_, err = leases.Update(r.t.Context(), lease, metav1.UpdateOptions{})
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replicas) deleteLease(name string) {
	r.t.Helper()
	if err := r.cluster.Client.CoordinationV1().Leases("default").Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replicas) setProgress(text string) {
	r.t.Helper()
	r.edit(progressLease, func(l *coordinationv1.Lease) { l.Annotations[harness.ProgressAnnotation] = text })
}

// holder waits until exactly the replica leads that the Lease names, and returns it.
func (r *replicas) holder() *member {
	r.t.Helper()
	var holder *member
	harness.Poll(r.t, catchUp, "the Lease and its holder", func() string {
		lease, err := r.cluster.Client.CoordinationV1().Leases("default").Get(r.t.Context(), electionLease, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return fmt.Sprintf("there is no holder: %v", err)
		}
		holder = nil
		for _, m := range r.all {
			if m.over {
				continue
			}
			if is := strings.HasPrefix(*lease.Spec.HolderIdentity, m.name+"_"); is != leads(m) {
				return fmt.Sprintf("%s leads: %t, and the Lease names %s", m.name, !is, *lease.Spec.HolderIdentity)
			} else if is {
				holder = m
			}
		}
		if holder == nil {
			return "the Lease names " + *lease.Spec.HolderIdentity
		}
		return ""
	})
	return holder
}

// identity returns that of a replica's process, which has a random part.
func (m *member) identity(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(m.name) + "_[0-9a-f]{8}").FindString(m.Log())
	if found == "" {
		t.Fatalf("%s has not logged its identity", m.name)
	}
	return found
}

// Somebody deletes or edits the Leases: a replica is elected again, and publishes again. Nothing is lost.
func TestLeasesEditedByHand(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 2, kind{})
	x.deleteLease(electionLease)
	x.holder()
	old := x.holder()
	somebody := "somebody"
	x.edit(electionLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &somebody })
	old.AwaitLog(t, "this replica no longer leads", catchUp)
	leader := x.holder()
	x.awaitReady()

	for _, text := range []string{"", "{", `{"v":1,"term":-3,"readers":{"pods/0":{"w":"soon"}}}`} {
		if text == "" {
			x.deleteLease(progressLease)
		} else {
			x.setProgress(text)
		}
		x.awaitPublished()
		x.awaitReady()
	}
	// The leader overwrites nothing that it does not understand.
	const newer = `{"v":1000}`
	x.setProgress(newer)
	x.holder().AwaitLog(t, "newer version of the receiver", catchUp)
	if lease, err := x.cluster.Client.CoordinationV1().Leases("default").Get(t.Context(), progressLease, metav1.GetOptions{}); err != nil || lease.Annotations[harness.ProgressAnnotation] != newer {
		t.Errorf("the progress of a newer version became %v %v", lease, err)
	}
	x.deleteLease(progressLease)
	x.awaitPublished()
	if now := x.holder(); now != leader {
		t.Errorf("%s leads instead of %s, although only the progress was edited", now.name, leader.name)
	}
	x.awaitReady()
	x.holder().stop(t)
	x.holder()
	repeated := x.finish()
	t.Logf("%d of %d records are repeated", len(repeated), len(x.objects()))
	requireNothingRecovered(t, x.records())

	// While nothing changes, the progress is written again too.
	x.awaitPublished()
	x.deleteLease(progressLease)
	x.awaitPublished()
}

// The leadership changes every few seconds, since somebody writes the other replica into the Lease. Each change costs one watch
// The leadership changes every few seconds, since somebody writes the other replica into the Lease. Each change costs one watch
// of each replica, or one more if that is cut at the same time, and no initial state. For a moment both replicas believe that they
// hold the Lease.
func TestFlappingLeadership(t *testing.T) {
	t.Parallel()
	const changes = 6
	x := startTakeovers(t, 2, kind{audited: true})
	watches := func() (n, snapshots int) {
		for _, request := range x.cluster.RequestsOf(t, "admin") {
			if request.Verb != "watch" || request.ObjectRef.Resource != "pods" || request.Stage != "ResponseStarted" {
				continue
			}
			n++
			if strings.Contains(request.RequestURI, "sendInitialEvents=true") {
				snapshots++
			}
		}
		return n, snapshots
	}
	before, snapshotsBefore := watches()
	began := time.Now()
	for range changes {
		old := x.holder()
		for _, m := range x.all {
			if m != old {
				next := m.identity(t)
				x.edit(electionLease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &next })
			}
		}
		if x.holder() == old {
			t.Errorf("%s leads again", old.name)
		}
		x.awaitReady()
	}
	took := time.Since(began)
	n, snapshots := watches()
	t.Logf("%d changes in %s opened %d watches, %d of them with an initial state", changes, took.Round(time.Millisecond), n-before, snapshots-snapshotsBefore)
	if n-before > 3*changes || snapshots > snapshotsBefore {
		t.Errorf("%d watches were opened, %d of them with an initial state, want at most %d and none", n-before, snapshots-snapshotsBefore, 3*changes)
	}
	repeated := x.finish()
	t.Logf("%d of %d records are repeated", len(repeated), len(x.objects()))
	requireNothingRecovered(t, x.records())
}

// The clocks of replicas differ: another one has renewed the Lease with the time of a clock that is an hour ahead or behind, and has
// ended. The takeover takes as long as any other.
func TestTakeoverAndClocks(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	r := startReplicas(t, harness.StartCluster(t, controlplane.Options{}), 2, kind{})
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		old := r.leader()
		other := "other" + skew.String()
		renew := func() (at time.Time) {
			r.edit(electionLease, func(l *coordinationv1.Lease) {
				at = time.Now()
				renewed := metav1.NewMicroTime(at.Add(skew))
				l.Spec.HolderIdentity, l.Spec.RenewTime = &other, &renewed
			})
			return at
		}
		renew()
		harness.Poll(t, catchUp, "the leader to notice", func() string {
			if leads(old) {
				return old.name + " still leads"
			}
			return ""
		})
		last := renew()
		r.holder()
		took := time.Since(last)
		t.Logf("a replica leads %s after the last renewal by a clock that differs by %s", took.Round(time.Millisecond), skew)
		// The lease once, or twice for standbys that are not ready, and what a candidate may be late; then the machine.
		if took < lease || took > 2*lease+44*time.Second/10+10*time.Second {
			t.Errorf("the takeover took %s with a clock that differs by %s, want at least %s", took, skew, lease)
		}
	}
}
