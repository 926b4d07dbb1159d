package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/attribute"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	livingNodes = 50
	lifeSigns   = 12 // of each node, and of its Lease
	leaseSpace  = "kube-node-lease"
)

// lifeSignPause is the time between the signs of life of a node, which does not matter to the receiver. A kubelet renews its
// Lease every 10 s. NOOP_PAUSE=10s makes the test last two minutes.
func lifeSignPause(t *testing.T) time.Duration {
	text := os.Getenv("NOOP_PAUSE")
	if text == "" {
		return 100 * time.Millisecond
	}
	pause, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("NOOP_PAUSE: %v", err)
	}
	return pause
}

var living = map[schema.GroupVersionResource]string{ // prefixes in etcd
	{Version: "v1", Resource: "nodes"}:                                     "/registry/minions/",
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}:      "/registry/leases/",
	{Group: "apps", Version: "v1", Resource: "deployments"}:                "/registry/deployments/",
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}: "/registry/endpointslices/",
}

// TestSignsOfLifeAreNotEmitted: 50 nodes send heartbeats and renew their Leases, and some changes happen in between. Of the
// modifications in etcd, which are compared by their own contents, exactly those are emitted that change something.
func TestSignsOfLifeAreNotEmitted(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	l := newLife(t, c)
	etcd := harness.ConnectEtcd(t, c)
	truths := map[schema.GroupVersionResource]*harness.Truth{}
	for resource, prefix := range living {
		truths[resource] = etcd.Watch(t, prefix)
	}
	l.create()
	var said explanations
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+"resources: [nodes, leases.coordination.k8s.io, deployments.apps, endpointslices.discovery.k8s.io]", said.consumer())
	starts := map[schema.GroupVersionResource]string{}
	for resource := range living {
		starts[resource] = r.Records.AwaitSnapshot(t, harness.Name(resource), catchUp)
	}
	mark := r.Records.Len()

	pause := lifeSignPause(t)
	for round := range lifeSigns {
		next := time.Now().Add(pause)
		l.signs(round)
		if round%3 == 1 {
			l.change(round)
		}
		time.Sleep(time.Until(next))
	}

	modifications, records := 0, 0
	for resource := range living {
		name, listed := harness.Name(resource), c.List(t, resource)
		after := truths[resource].Between(t, starts[resource], listed.ResourceVersion)
		same := truths[resource].Contents().Same
		r.Records.Await(t, catchUp, "the fold of "+name+" to equal the LIST by content", func(all []harness.Record) string {
			if found := fold.Fold(harness.Objects(all, name)).DifferencesBut(listed.State, same); len(found) > 0 {
				return fmt.Sprint(found)
			}
			return ""
		})
		objects := harness.Objects(r.Records.All(), name)
		requireOnceAndInOrder(t, objects)
		emitted := harness.Objects(r.Records.After(mark), name)
		report(t, "changes of "+name+" that were not emitted", notEmittedOfSubstance(after, objects, same))
		report(t, "records of "+name+" that change nothing", emittedWithoutSubstance(objects, same))
		t.Logf("%-34s %5d modifications, %3d records", name, len(after), len(emitted))
		modifications, records = modifications+len(after), records+len(emitted)
	}
	less := 100 - 100*float64(records)/float64(modifications)
	t.Logf("%d nodes, %d signs of life each, one every %s: %d modifications, %d records, %.1f %% fewer", livingNodes, lifeSigns, pause, modifications, records, less)
	if modifications < 2*livingNodes*lifeSigns {
		t.Errorf("only %d modifications happened", modifications)
	}
	if less < 95 {
		t.Errorf("the records are only %.1f %% fewer than the modifications", less)
	}
	suppressed := r.Count(t, "otelcol_k8s_watchlist_suppressed", attribute.String("reason", "noop"))
	if suppressed < int64(modifications-records) {
		t.Errorf("%d modifications were counted as suppressed, want at least %d", suppressed, modifications-records)
	}
	r.Shutdown(t)
	said.require(t, "nodes "+nodeName(3), "[spec] by ") // the server keeps no managedFields of these nodes
	said.require(t, "nodes "+nodeName(7), "[status] by ")
	said.require(t, "leases "+nodeName(4), "[spec] by somebody, <nil>")
	said.require(t, "deployments web", "[spec] by somebody, <nil>")
	said.require(t, "endpointslices web-1", "[endpoints] by somebody, <nil>")
}

// notEmittedOfSubstance returns the events without a record, except for modifications after which the object has the content of
// its record before.
func notEmittedOfSubstance(events []harness.Event, records []fold.Record, same fold.Same) (missing []string) {
	last := map[string]string{} // emitted version, by UID
	emitted := map[string][]string{}
	for _, record := range records {
		emitted[record.UID] = append(emitted[record.UID], record.ResourceVersion)
	}
	for _, event := range events {
		rv := strconv.FormatInt(event.Revision, 10)
		for _, version := range emitted[event.UID] {
			if n, err := strconv.ParseInt(version, 10, 64); err == nil && n <= event.Revision {
				last[event.UID] = version
			}
		}
		if last[event.UID] != rv && (event.Type != "MODIFIED" || !same(event.UID, last[event.UID], rv)) {
			missing = append(missing, fmt.Sprintf("%s %s@%s, last emitted at %s", event.Type, event.Key, rv, last[event.UID]))
		}
	}
	return missing
}

// emittedWithoutSubstance returns the modifications that have the content of the object's record before.
func emittedWithoutSubstance(records []fold.Record, same fold.Same) (found []string) {
	last := map[string]string{}
	for _, record := range records {
		if before := last[record.UID]; record.Type == "MODIFIED" && before != "" && same(record.UID, before, record.ResourceVersion) {
			found = append(found, record.String())
		}
		last[record.UID] = record.ResourceVersion
	}
	return found
}

// life writes what kubelets, controllers and people write.
type life struct {
	t     *testing.T
	c     *harness.Cluster
	began time.Time
}

func newLife(t *testing.T, c *harness.Cluster) *life { return &life{t, c, time.Now()} }

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func nodeName(n int) string { return fmt.Sprintf("node-%02d", n) }

func (l *life) create() {
	ctx, client := l.t.Context(), l.c.Client
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: leaseSpace}}, metav1.CreateOptions{})
	if err != nil {
		_, err = client.CoreV1().Namespaces().Get(ctx, leaseSpace, metav1.GetOptions{})
	}
	l.must(err)
	for n := range livingNodes {
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(n)}}, metav1.CreateOptions{})
		l.must(err)
		holder, seconds := nodeName(n), int32(40)
		_, err = client.CoordinationV1().Leases(leaseSpace).Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(n)},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: l.began}},
		}, metav1.CreateOptions{})
		l.must(err)
		l.heartbeat(n, "True", l.began)
	}
	pod := harness.SmallPod("web")
	pod.Labels = map[string]string{"app": "web"}
	_, err = client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	_, err = client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}, metav1.CreateOptions{})
	l.must(err)
}

// heartbeat is what a kubelet sends about its node.
func (l *life) heartbeat(n int, ready string, at time.Time) {
	var conditions []any
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		status := "False"
		if kind == "Ready" {
			status = ready
		}
		conditions = append(conditions, map[string]any{
			"type": kind, "status": status, "lastHeartbeatTime": at.UTC().Format(time.RFC3339), "lastTransitionTime": l.began.UTC().Format(time.RFC3339),
		})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	l.must(err)
	_, err = l.c.Client.CoreV1().Nodes().Patch(l.t.Context(), nodeName(n), types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	l.must(err)
}

// signs are the signs of life of all nodes in one round, and those of controllers.
func (l *life) signs(round int) {
	ctx, client := l.t.Context(), l.c.Client
	at := l.began.Add(time.Duration(round+1) * 10 * time.Second)
	var parallel sync.WaitGroup
	for half := range 2 {
		parallel.Go(func() {
			for n := half; n < livingNodes; n += 2 {
				ready := "True"
				if n == 7 && round >= 4 {
					ready = "False" // since the change of round 4
				}
				l.heartbeat(n, ready, at)
				renewal := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, at.UTC().Format(metav1.RFC3339Micro))
				_, err := client.CoordinationV1().Leases(leaseSpace).Patch(ctx, nodeName(n), types.MergePatchType, []byte(renewal), metav1.PatchOptions{FieldManager: "kubelet"})
				l.must(err)
			}
		})
	}
	parallel.Wait()
	observed := fmt.Sprintf(`{"status":{"observedGeneration":%d}}`, round+1)
	_, err := client.AppsV1().Deployments("default").Patch(ctx, "web", types.MergePatchType, []byte(observed), metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "status")
	l.must(err)
	trigger := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, corev1.EndpointsLastChangeTriggerTime, at.UTC().Format(time.RFC3339Nano))
	_, err = client.DiscoveryV1().EndpointSlices("default").Patch(ctx, "web-1", types.MergePatchType, []byte(trigger), metav1.PatchOptions{FieldManager: "endpointslice-controller"})
	l.must(err)
}

// change makes one change of each kind that has to be emitted.
func (l *life) change(round int) {
	ctx, client := l.t.Context(), l.c.Client
	patch := metav1.PatchOptions{FieldManager: "somebody"}
	_, err := client.CoreV1().Nodes().Patch(ctx, nodeName(3), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, round%2 == 1), patch)
	l.must(err)
	_, err = client.CoordinationV1().Leases(leaseSpace).Patch(ctx, nodeName(4), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"holderIdentity":"other-%d"}}`, round), patch)
	l.must(err)
	_, err = client.AppsV1().Deployments("default").Patch(ctx, "web", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, round+2), patch)
	l.must(err)
	_, err = client.DiscoveryV1().EndpointSlices("default").Patch(ctx, "web-1", types.MergePatchType,
		fmt.Appendf(nil, `{"endpoints":[{"addresses":["10.0.1.%d"]}]}`, round), patch)
	l.must(err)
	if round == 4 {
		l.heartbeat(7, "False", l.began.Add(time.Hour))
	}
}

// explanations are what records say about modifications, by the names of objects.
type explanations struct {
	mu  sync.Mutex
	all map[string][]string
}

func (e *explanations) consumer() *harness.Consumer {
	e.all = map[string][]string{}
	return &harness.Consumer{Each: func(record plog.LogRecord) {
		attributes := record.Attributes().AsRaw()
		if attributes["k8s.change.type"] != "MODIFIED" {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		name := fmt.Sprintf("%v %v", attributes["k8s.resource.name"], attributes["k8s.object.name"])
		e.all[name] = append(e.all[name], fmt.Sprintf("%v by %v, %v", attributes["k8s.change.sections"], attributes["k8s.change.manager"], attributes["k8s.change.subresource"]))
	}}
}

// require requires that one of the explanations of an object begins in this way.
func (e *explanations) require(t *testing.T, name, want string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.all[name], func(said string) bool { return strings.HasPrefix(said, want) }) {
		t.Errorf("%s: no record says %q, but %q", name, want, e.all[name])
	}
}
