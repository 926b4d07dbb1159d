package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// replicas are Collectors of which one leads.
type replicas struct {
	t       *testing.T
	cluster *harness.Cluster
	all     []*member // also those that have ended
	kind    kind
}

// kind is how replicas are configured.
type kind struct {
	more      string        // of the receiver's configuration
	stored    bool          // each has a storage of its own
	extension bool          // contrib's extension elects the leader
	audited   bool          // the API server logs requests
	probed    bool          // each answers health probes
	isolated  bool          // each is started without a connection to the API server
	sink      *harness.Sink // of all of them, so that what they emit has an order; nil: each has its own
}

// member is one replica. It reaches the API server through a proxy.
type member struct {
	*harness.Collector
	sink   *harness.Sink // a file would lose at a kill what the exporter has accepted
	proxy  *harness.Proxy
	name   string
	folder string // of its storage, or ""
	health string // the address for health probes, or ""
	over   bool   // it was stopped or killed
}

func startReplicas(t *testing.T, c *harness.Cluster, n int, k kind) *replicas {
	t.Helper()
	r := &replicas{t: t, cluster: c, kind: k}
	for range n {
		r.add()
	}
	return r
}

// add starts another replica.
func (r *replicas) add() *member {
	r.t.Helper()
	folder := ""
	if r.kind.stored {
		folder = r.t.TempDir()
	}
	return r.addIn(folder)
}

// addIn starts another replica, which continues with the storage in a folder if that is not "".
func (r *replicas) addIn(folder string) *member {
	r.t.Helper()
	sink := r.kind.sink
	if sink == nil {
		sink = harness.StartSink(r.t)
	}
	m := &member{
		sink: sink, proxy: harness.StartProxy(r.t, r.cluster.Address()),
		name: fmt.Sprintf("otelcol-%d", len(r.all)), folder: folder,
	}
	path := r.cluster.KubeconfigVia(r.t, r.cluster.RESTConfig(), m.proxy.Address())
	if r.kind.isolated {
		m.proxy.Cut()
	}
	receiver := kubeconfig(path) + "resources: [{name: pods}]\n" + r.kind.more
	const lease = "lease_name: watchlist, lease_namespace: default, lease_duration: 9s, renew_deadline: 6s, retry_period: 1s"
	switch elected := receiver + "\nleader_election: {enabled: true, identity: " + m.name + ", " + lease + "}\n"; {
	case r.kind.extension:
		m.Collector = harness.StartElector(r.t, []string{"KUBECONFIG=" + path}, byExtension(receiver, "{auth_type: kubeConfig, "+lease+"}", m.sink))
	case r.kind.probed:
		m.health = harness.FreeAddress(r.t)
		m.Collector = harness.StartCollector(r.t, probed(elected, m.sink, m.health), "--feature-gates="+harness.ComponentStatusGate)
	case folder != "":
		m.Collector = harness.StartCollector(r.t, stored(elected, m.sink, folder))
	default:
		m.Collector = harness.StartCollector(r.t, unstored(elected, m.sink))
	}
	r.all = append(r.all, m)
	return m
}

// leader waits until a replica leads, and returns it.
func (r *replicas) leader() *member {
	r.t.Helper()
	var leader *member
	harness.Poll(r.t, catchUp, "a leader", func() string {
		for _, m := range r.all {
			if !m.over && leads(m) {
				leader = m
				return ""
			}
		}
		return "nobody leads"
	})
	return leader
}

// leads reports whether the last that a replica logged about it is that it leads.
func leads(m *member) bool {
	log := m.Log()
	return strings.LastIndex(log, "this replica leads") > strings.LastIndex(log, "this replica no longer leads")
}

// awaitReady waits until every standby is ready.
func (r *replicas) awaitReady() {
	r.t.Helper()
	harness.Poll(r.t, 2*catchUp, "the standbys", r.notReady)
}

// notReady returns what is missing until every standby is ready.
func (r *replicas) notReady() string {
	if w, err := r.published(); w == "" {
		return fmt.Sprintf("no position is published: %v", err)
	}
	for _, m := range r.all {
		log := m.Log()
		if m.over || leads(m) || strings.LastIndex(log, "standby is ready") > max(strings.LastIndex(log, "no longer ready"), strings.LastIndex(log, "this replica no longer leads")) {
			continue
		}
		return m.name + " is not ready"
	}
	return ""
}

const (
	electionLease = "watchlist"
	progressLease = "watchlist-progress"
)

// published returns the position that the leader has published, or "" and perhaps why there is none.
func (r *replicas) published() (string, error) {
	lease, err := r.cluster.Client.CoordinationV1().Leases("default").Get(r.t.Context(), progressLease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var p struct {
		Readers map[string]struct{ W string }
	}
	if err := json.Unmarshal([]byte(lease.Annotations[harness.ProgressAnnotation]), &p); err != nil {
		return "", err
	}
	for _, reader := range p.Readers {
		return reader.W, nil
	}
	return "", nil
}

// awaitPublished waits until the leader has published that everything up to now was accepted.
func (r *replicas) awaitPublished() {
	r.t.Helper()
	var last int64 // the newest version of a pod
	for _, rv := range r.cluster.List(r.t, harness.Pods).State {
		last = max(last, revisionOf(rv))
	}
	harness.Poll(r.t, catchUp, "the position of the leader", func() string {
		if w, err := r.published(); revisionOf(w) < last {
			return fmt.Sprintf("it has published %q (%v), and a pod is at %d", w, err, last)
		}
		return ""
	})
}

// records returns what all replicas have emitted.
func (r *replicas) records() []harness.Record {
	if r.kind.sink != nil {
		return r.kind.sink.Records.All()
	}
	var all []harness.Record
	for _, m := range r.all {
		all = append(all, m.sink.Records.All()...)
	}
	return all
}

// objects returns the records of pods in the order of their versions, as a backend brings them. An inferred deletion comes
// after the event that it stands for.
func (r *replicas) objects() []fold.Record {
	objects := harness.Objects(r.records(), "pods")
	slices.SortStableFunc(objects, func(a, b fold.Record) int {
		return cmp.Compare(revisionOf(a.ResourceVersion), revisionOf(b.ResourceVersion))
	})
	return objects
}

func revisionOf(rv string) int64 {
	n, _ := strconv.ParseInt(rv, 10, 64)
	return n
}

// awaitFold waits until what all replicas have emitted equals what the API server lists.
func (r *replicas) awaitFold() harness.Listing {
	r.t.Helper()
	listed := r.cluster.List(r.t, harness.Pods)
	harness.Poll(r.t, catchUp, "the fold", func() string {
		if d := fold.Fold(r.objects()).Differences(listed.State); len(d) > 0 {
			return fmt.Sprintf("%d differences, such as %s", len(d), d[0])
		}
		return ""
	})
	return listed
}

// unstored returns the configuration of a Collector without a storage and without an exporter's queue.
func unstored(receiver string, sink *harness.Sink) string {
	return toSink(receiver, sink, "sending_queue: {enabled: false}\nretry_on_failure: {enabled: false}", `
service:
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [otlp_grpc]}
  telemetry:
    logs: {level: debug}
    metrics: {level: none}
`)
}

func (m *member) stop(t *testing.T) { m.over = true; m.Interrupt(t) }
func (m *member) kill(t *testing.T) { m.over = true; m.Kill(t) }

// write changes pods until the returned function is called, which waits for the last change.
func write(t *testing.T, c *harness.Cluster) (stop func()) {
	w := harness.NewWriter(t, c)
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		w.Write(t, func(harness.Operations) bool {
			select {
			case <-over:
				return true
			case <-time.After(20 * time.Millisecond): // four workers, so at most 200 changes a second
				return false
			}
		})
	})
	return sync.OnceFunc(func() { close(over); running.Wait() })
}

// takeovers is a test under a random writer that ends with a comparison of all records with etcd.
type takeovers struct {
	*replicas
	truth        *harness.Truth
	publications *harness.Publications
	etcd         *harness.Etcd
	from         string
	stop         func() // writing
}

func startTakeovers(t *testing.T, n int, k kind) *takeovers {
	t.Helper()
	c := harness.StartCluster(t, controlplane.Options{AuditLog: k.audited})
	c.CreatePods(t, "kept", 500, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, c)
	x := &takeovers{etcd: etcd, truth: etcd.Watch(t, "/registry/pods/"), publications: etcd.WatchPublications(t, "default", progressLease)}
	x.replicas = startReplicas(t, c, n, k)
	x.from = x.leader().sink.Records.AwaitSnapshot(t, "pods", catchUp)
	// A standby that has read a later version than the leader has emitted is ready once the leader has passed that.
	x.stop = write(t, c)
	t.Cleanup(x.stop)
	x.awaitReady()
	return x
}

// next waits for another leader than the old one, and returns it.
func (r *replicas) next(old *member) (now *member, took time.Duration) {
	r.t.Helper()
	began := time.Now()
	harness.Poll(r.t, catchUp, "another leader", func() string {
		for _, m := range r.all {
			if m != old && !m.over && leads(m) {
				now = m
				return ""
			}
		}
		return "nobody else leads"
	})
	return now, time.Since(began)
}

// repeated returns the records that have been emitted more than once so far.
func (r *replicas) repeated() []string { return fold.Duplicates(r.objects()) }

// unexplained returns the repeated records that the next leader could have known to be accepted.
func (x *takeovers) unexplained() []string {
	x.t.Helper()
	uncertain := x.publications.Uncertain(x.t)
	return fold.Duplicates(slices.DeleteFunc(x.objects(), func(r fold.Record) bool { return uncertain(revisionOf(r.ResourceVersion)) }))
}

// finish stops writing and requires that every change was emitted, and only that again of which nobody could know whether it
// was accepted. It returns the repeated records.
func (x *takeovers) finish() []string {
	x.t.Helper()
	x.stop()
	listed := x.awaitFold()
	report(x.t, "events of etcd were not emitted", harness.NotEmitted(x.truth.Between(x.t, x.from, listed.ResourceVersion), x.objects()))
	report(x.t, "records were repeated although it was published that they were accepted", x.unexplained())
	return x.repeated()
}

// fromEnvironment returns a number that makes a test longer, or what it is without.
func fromEnvironment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// durations are how long takeovers took.
type durations []time.Duration

func (d durations) String() string {
	return fmt.Sprintf("%d takeovers took %s to %s", len(d), slices.Min(d).Round(time.Millisecond), slices.Max(d).Round(time.Millisecond))
}

// The leader is stopped in order, again and again: nothing is lost and nothing is repeated. E2E_STOPS is how often.
func TestTakeoverAfterStop(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 3, kind{})
	var all durations
	for range fromEnvironment("E2E_STOPS", 4) {
		old := x.leader()
		began := time.Now()
		old.stop(t)
		stopped := time.Since(began)
		now, took := x.next(old)
		all = append(all, took)
		t.Logf("%s stopped in %s, %s leads %s after that", old.name, stopped.Round(time.Millisecond), now.name, took.Round(time.Millisecond))
		x.add()
		x.awaitReady()
	}
	report(t, "records were repeated", x.finish())
	requireNothingRecovered(t, x.records())
	t.Logf("%s, and none of %d records is repeated", all, len(x.objects()))
}

// The leader is killed, again and again: nothing is lost, and only what was accepted since the last publication is repeated.
// E2E_KILLS is how often.
func TestTakeoverAfterKill(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 3, kind{})
	kills := fromEnvironment("E2E_KILLS", 3)
	var all durations
	for range kills {
		old := x.leader()
		old.kill(t)
		now, took := x.next(old)
		all = append(all, took)
		t.Logf("%s leads %s after %s was killed", now.name, took.Round(time.Millisecond), old.name)
		// The lease, and what its holder and its candidate may be late; then the machine.
		if most := 9*time.Second + 44*time.Second/10 + 10*time.Second; took > most {
			t.Errorf("the takeover took %s, want at most %s", took, most)
		}
		x.add()
		x.awaitReady()
	}
	repeated := x.finish()
	t.Logf("%s, and %d of %d records are repeated", all, len(repeated), len(x.objects()))
	requireNothingRecovered(t, x.records())
}

// The leader is stopped for longer than its lease, as when a machine is suspended, and continued: it begins no batch.
func TestTakeoverFromStoppedProcess(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]kind{"leader_election": {}, "k8s_leader_elector": {extension: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTakeoverFromStoppedProcess(t, k)
		})
	}
}

func testTakeoverFromStoppedProcess(t *testing.T, k kind) {
	x := startTakeovers(t, 3, k)
	old := x.leader()
	if err := syscall.Kill(old.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	now, _ := x.next(old)
	x.cluster.CreatePods(t, "meanwhile", 3, harness.SmallPod)
	now.sink.Records.AwaitObject(t, "pods", "meanwhile-00002", "ADDED", catchUp)
	before, calls := old.sink.Records.Len(), old.sink.Calls()
	if err := syscall.Kill(old.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	old.AwaitLog(t, "this replica no longer leads", catchUp)
	x.awaitReady()
	x.cluster.CreatePods(t, "after", 1, harness.SmallPod)
	now.sink.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	// The call may end that had begun when the process was stopped.
	if n := old.sink.Calls() - calls; n > 1 {
		t.Errorf("%d batches with %d records were emitted by a process that no longer led", n, old.sink.Records.Len()-before)
	}
	t.Logf("%d records are repeated", len(x.finish()))
	requireNothingRecovered(t, x.records())
}

// The leader loses its connection to the API server. It stops before another one begins, and follows it later.
func TestTakeoverFromIsolatedLeader(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 2, kind{})
	old := x.leader()
	old.proxy.Cut()
	old.AwaitLog(t, "this replica no longer leads", catchUp)
	now, _ := x.next(old)
	old.proxy.Restore(t)
	x.awaitReady()
	x.cluster.CreatePods(t, "after", 1, harness.SmallPod)
	now.sink.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	now.stop(t) // and back
	if back, _ := x.next(now); back != old {
		t.Fatalf("%s leads", back.name)
	}
	t.Logf("%d records are repeated", len(x.finish()))
	requireNothingRecovered(t, x.records())
}

// All replicas are killed, without a storage, and with them everything that anybody knew of the records. While the history
// reaches back, nothing else is needed. Otherwise the initial state is emitted again, with a gap record.
func TestTakeoverAfterKillOfAll(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 2, kind{})
	for _, m := range slices.Clone(x.all) {
		m.kill(t)
	}
	x.cluster.CreatePods(t, "meanwhile", 3, harness.SmallPod)
	x.add()
	x.leader().sink.Records.AwaitObject(t, "pods", "meanwhile-00002", "ADDED", catchUp)
	t.Logf("%d records are repeated", len(x.finish()))
	requireNothingRecovered(t, x.records())

	last := x.leader()
	last.sink.Records.Await(t, catchUp, "a relist, after which the inventory is known", func([]harness.Record) string {
		return ""
	})
	last.kill(t)
	x.cluster.DeletePods(t, "meanwhile", 3)
	x.cluster.CreatePods(t, "later", 3, harness.SmallPod)
	x.etcd.CompactBehind(t, x.truth)
	x.cluster.RestartAPIServer(t)
	x.add()
	x.leader().sink.Records.AwaitSnapshot(t, "pods", catchUp)
	x.leader().sink.Records.Await(t, catchUp, "the record of the gap", func(records []harness.Record) string {
		for _, record := range harness.OfStream(records, "pods", "k8s.watch.gap") {
			if strings.Contains(record.String(), "takeover") {
				return ""
			}
		}
		return "no gap of reason takeover"
	})
}

// A replica without leader_election beside others that have it emits everything a second time. It warns of that.
func TestReplicaWithoutLeaderElection(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	r := startReplicas(t, c, 1, kind{})
	r.leader()
	r.awaitReady()
	sink := harness.StartSink(t)
	alone := harness.StartCollector(t, unstored(kubeconfig(c.KubeconfigVia(t, c.RESTConfig(), c.Address()))+`resources: [{name: pods}]
leader_election: {lease_name: watchlist, lease_namespace: default}
`, sink))
	alone.AwaitLog(t, "another replica has leader_election", catchUp)
}

// With step_down_after, a leader whose pipeline accepts nothing lets another one lead, whose pipeline does.
func TestTakeoverFromLeaderWhosePipelineRefuses(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 2, kind{more: "standby: {step_down_after: 3s}\n"})
	old := x.leader()
	old.sink.Refuse(errors.New("not now"))
	now, took := x.next(old)
	t.Logf("%s leads %s after the pipeline of %s began to refuse", now.name, took.Round(time.Millisecond), old.name)
	old.sink.Accept()
	report(t, "records were repeated", x.finish())
	requireNothingRecovered(t, x.records())
}
