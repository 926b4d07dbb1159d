package e2e

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	corev1 "k8s.io/api/core/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// behindFront starts a cluster with an HTTP proxy in front of it, and returns the configuration for access through the
// proxy.
func behindFront(t *testing.T) (*harness.Cluster, *harness.Front, string) {
	t.Helper()
	return behindFrontOf(t, controlplane.Options{})
}

// behindFrontOf does the same with options of the control plane.
func behindFrontOf(t *testing.T, o controlplane.Options) (*harness.Cluster, *harness.Front, string) {
	t.Helper()
	c := harness.StartCluster(t, o)
	front := harness.StartFront(t, c)
	account, err := c.ServiceAccountCredentials(t.Context(), "default", "reader")
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "reader"}},
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRight(t, c, "system:serviceaccount:default:reader", true)
	config := rest.CopyConfig(account.Config)
	config.CAData = front.CAs(c)
	return c, front, kubeconfig(c.KubeconfigVia(t, config, front.Address()))
}

// A proxy answers every request with its own page, for longer than it takes to accept a discovery document that lacks a
// resource. No object is reported deleted, and nothing is lost.
func TestNotFoundPagesOfAProxy(t *testing.T) {
	t.Parallel()
	const pages = 40 * time.Second
	c, front, access := behindFront(t)
	c.CreatePods(t, "kept", 20, harness.SmallPod)
	truth := harness.ConnectEtcd(t, c).Watch(t, "/registry/pods/")
	r := harness.StartReceiver(t, access+"resources: [{name: pods}]\nrelist: {interval: 5s}", nil)
	from := r.Records.AwaitSnapshot(t, "pods", catchUp)

	front.Serve(&harness.NotFoundPage)
	began := time.Now()
	c.ChangePods(t, "kept", 20)
	harness.Poll(t, pages+catchUp, "pages to be served for a while", func() string {
		if n := front.Count("pages"); n < 3 || time.Since(began) < pages {
			return fmt.Sprintf("%d in %s", n, time.Since(began))
		}
		return ""
	})
	front.Serve(nil)
	c.CreatePods(t, "after", 1, harness.SmallPod)
	r.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	requireEveryEvent(t, c, &r.Records, truth, from)
}

// The headers of the first answer are late. That proves nothing about the server: the initial state is streamed, not
// listed.
func TestSlowFirstAnswer(t *testing.T) {
	t.Parallel()
	const delay = 40 * time.Second
	c, front, access := behindFront(t)
	c.CreatePods(t, "kept", 20, harness.SmallPod)
	front.DelayFirst(map[string]time.Duration{harness.PathOf("", "v1", "pods", ""): delay})
	began := time.Now()
	r := harness.StartReceiver(t, access+"resources: [{name: pods}]", nil)
	r.Records.AwaitSnapshot(t, "pods", delay+catchUp)
	if took := time.Since(began); front.Count("late") != 1 || took < delay {
		t.Errorf("%d answers were late, and the snapshot took %s", front.Count("late"), took)
	}
	if n := r.Opened(t, "list"); n > 0 {
		t.Errorf("the receiver has listed %d times", n)
	}
	r.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, catchUp)
}

// A proxy ends a stream of Events whenever it is idle, and etcd is constantly compacted. Such streams have delivered
// everything up to their end: nothing is missed, and no gap is reported.
func TestIdleCutterOnQuietEvents(t *testing.T) {
	t.Parallel()
	const idle, cuts = 15 * time.Second, 3
	events := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	c, front, access := behindFront(t)
	etcd := harness.ConnectEtcd(t, c)
	createEvent(t, c, "first")
	front.CutIdle(idle)
	r := harness.StartReceiver(t, access+"resources: [{name: events}]", nil)
	r.Records.AwaitSnapshot(t, "events", catchUp)
	for n := 1; n <= cuts; n++ {
		c.CreatePods(t, fmt.Sprintf("other%d", n), 3, harness.SmallPod) // so that there is history to lose
		etcd.Compact(t)
		harness.Poll(t, catchUp, "the idle stream to be cut", func() string {
			if cut := front.Count("idle"); cut < n {
				return fmt.Sprintf("%d times", cut)
			}
			return ""
		})
		// What happens between a cut and the end of the initial state after it may be missed, which is a gap.
		harness.Poll(t, catchUp, "the recovery", func() string {
			bookmarks := r.Count(t, "otelcol_k8s_watchlist_events", attribute.String("type", "bookmark"))
			if bookmarks < int64(1+n) {
				return fmt.Sprintf("%d bookmarks", bookmarks)
			}
			return ""
		})
	}
	createEvent(t, c, "last")
	r.Records.AwaitFold(t, "events", c.List(t, events).State, catchUp)
	if gaps := harness.OfStream(r.Records.All(), "events", "k8s.watch.gap"); len(gaps) > 0 {
		t.Errorf("%d gaps are reported, among them %v", len(gaps), gaps[0])
	}
	requireOnceAndInOrder(t, harness.Objects(r.Records.All(), "events"))
}

func createEvent(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
		Reason:         "Quiet", Message: name, Type: corev1.EventTypeNormal,
	}
	if _, err := c.Client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
