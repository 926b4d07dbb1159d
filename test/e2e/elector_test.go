package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover/elector"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const leaseName = "k8s-watchlist"

// Between the deadline and the duration is less than the usual 5 seconds, which makes the test shorter. The deadline is the
// usual one, so that a busy machine does not end a leadership.
const leaseDuration, renewDeadline, retryPeriod = 12 * time.Second, 10 * time.Second, time.Second

// candidate is an elector with a connection of its own.
type candidate struct {
	*elector.Elector
	proxy *harness.Proxy
	stop  func() // releases the Lease, and waits for that
}

func startCandidate(t *testing.T, c *harness.Cluster, account *rest.Config, identity string) *candidate {
	t.Helper()
	proxy := harness.StartProxy(t, c.Address())
	config := rest.CopyConfig(account)
	config.Host, config.QPS, config.Burst = "https://"+proxy.Address(), 100, 100
	client, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	e := elector.New(elector.Options{
		Leases:   kubeclient.Leases{Client: client, Namespace: metav1.NamespaceDefault, Name: leaseName},
		Identity: identity, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Report: func(err error) { t.Logf("%s: %v", identity, err) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { e.Run(ctx) })
	stop := func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return &candidate{e, proxy, stop}
}

// awaitLeader waits until exactly one of the candidates leads. Two must never do.
func awaitLeader(t *testing.T, candidates []*candidate) *candidate {
	t.Helper()
	var leader *candidate
	harness.Poll(t, catchUp, "a leader", func() string {
		leader = nil
		for _, c := range candidates {
			if !c.Leads() {
				continue
			}
			if leader != nil && leader.Leads() { // still, although c leads
				t.Fatal("two candidates lead")
			}
			leader = c
		}
		if leader == nil {
			return "nobody leads"
		}
		return ""
	})
	return leader
}

// awaitFollower waits until a candidate no longer leads.
func awaitFollower(t *testing.T, c *candidate) {
	t.Helper()
	harness.Poll(t, catchUp, "the end of a leadership", func() string {
		if c.Leads() {
			return "it still leads"
		}
		return ""
	})
}

func readLease(t *testing.T, c *harness.Cluster) *coordinationv1.Lease {
	t.Helper()
	lease, err := c.Client.CoordinationV1().Leases(metav1.NamespaceDefault).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// grantLease grants the rights that an elector needs: no more than to create Leases, and to get and update its own.
func grantLease(t *testing.T, c *harness.Cluster) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: leaseName}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"get", "update"}, ResourceNames: []string{leaseName}},
	}}
	if _, err := c.Client.RbacV1().Roles(metav1.NamespaceDefault).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: leaseName},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: watcherUser}},
	}
	if _, err := c.Client.RbacV1().RoleBindings(metav1.NamespaceDefault).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Three candidates and a real API server: one leads; another one once it has released the Lease, or cannot renew it; and
// client-go's leader election understands the Lease.
func TestElector(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	account, err := c.ServiceAccountCredentials(t.Context(), "default", watcherName)
	if err != nil {
		t.Fatal(err)
	}
	grantLease(t, c)
	var all []*candidate
	for i := range 3 {
		all = append(all, startCandidate(t, c, account.Config, fmt.Sprintf("otelcol-%d", i)))
	}
	first := awaitLeader(t, all)
	lease := readLease(t, c)
	if *lease.Spec.HolderIdentity != first.Identity || *lease.Spec.LeaseDurationSeconds != int32(leaseDuration/time.Second) || *lease.Spec.LeaseTransitions != 1 {
		t.Fatalf("%s leads, and the Lease says %+v", first.Identity, lease.Spec)
	}

	// What others have written into it stays.
	lease.Labels = map[string]string{"team": "observability"}
	for {
		_, err := c.Client.CoordinationV1().Leases(metav1.NamespaceDefault).Update(t.Context(), lease, metav1.UpdateOptions{})
		if err == nil {
			break
		}
		lease = readLease(t, c) // it was renewed in between
		lease.Labels = map[string]string{"team": "observability"}
	}
	first.stop()
	all = slices.DeleteFunc(all, func(c *candidate) bool { return c == first })
	second := awaitLeader(t, all)
	if lease = readLease(t, c); *lease.Spec.LeaseTransitions != 2 || lease.Labels["team"] != "observability" {
		t.Fatalf("after a release the Lease is %+v %v", lease.Spec, lease.Labels)
	}

	second.proxy.Cut()
	awaitFollower(t, second)
	third := awaitLeader(t, all)
	if third == second {
		t.Fatal("a candidate leads that has no connection")
	}
	second.proxy.Restore(t)

	library, stop := startClientGo(t, account.Config)
	second.stop() // as a candidate, which changes nothing
	if *readLease(t, c).Spec.HolderIdentity != third.Identity {
		t.Fatalf("%s leads, and the Lease says %+v", third.Identity, readLease(t, c).Spec)
	}
	third.stop()
	select {
	case <-library:
	case <-time.After(catchUp):
		t.Fatal("client-go does not take a Lease that was released")
	}
	last := startCandidate(t, c, account.Config, "otelcol-last")
	if last.Leads() || *readLease(t, c).Spec.HolderIdentity != "client-go" {
		t.Fatalf("client-go leads, and the Lease says %+v", readLease(t, c).Spec)
	}
	stop()
	awaitLeader(t, []*candidate{last})
	if lease = readLease(t, c); *lease.Spec.HolderIdentity != last.Identity || *lease.Spec.LeaseTransitions < 5 {
		t.Fatalf("after client-go the Lease is %+v", lease.Spec)
	}
}

// startClientGo runs client-go's leader election, and returns a channel that is closed when it leads.
func startClientGo(t *testing.T, config *rest.Config) (leads <-chan struct{}, stop func()) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	leading := make(chan struct{})
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: leaseName}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "client-go"},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { e.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return leading, stop
}
