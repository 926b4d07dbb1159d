package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// scene is a fault as an on-call engineer sees it. docs/troubleshooting.md has the same in a table, with the same names.
type scene struct {
	name     string   // of the receiver that has the fault
	title    string   // in the table
	state    string   // of its resource
	status   []string // what the error of the component status says
	logged   string   // the message of the log entry
	fields   []string // what else the entry says
	measured string   // the metric that shows it, as the table names it
	shows    func(sum func(metric string, labels ...string) float64) bool
	alerts   []string // that fire
	after    string   // an alert that fires only when it is over
	also     []string // alerts that may fire besides, depending on how long it lasts
	heal     func()

	sink *harness.Sink
	from string // version of the first snapshot
}

func (s *scene) id() string { return "k8s_watchlist/" + s.name }

// Five faults, each of another receiver of one Collector, so that no receiver's fault shows up at another: a stream that
// hangs, a right that is revoked, a pipeline that does not take records, a backend that denies them, and an API server that
// asks to wait. Each is a state, a log entry, a metric and an alert, and everything is as before when it is over.
func TestWhatAnOnCallEngineerSees(t *testing.T) {
	t.Parallel()
	const throttledName = "throttled-collector"
	c := harness.StartCluster(t, controlplane.Options{APIServerArgs: []string{"--request-timeout=10m"}}) // for the request that holds the seat
	createWatchRole(t, c)
	accessOf := func(account string) (*harness.Proxy, string, func() func()) {
		proxy := harness.StartProxy(t, c.Address())
		credentials, err := c.ServiceAccountCredentials(t.Context(), "default", account)
		if err != nil {
			t.Fatal(err)
		}
		user := "system:serviceaccount:default:" + account
		grantWatchTo(t, c, user)
		return proxy, kubeconfig(c.KubeconfigVia(t, credentials.Config, proxy.Address())), func() func() {
			return throttle(t, c, user, credentials.Config)
		}
	}
	hanging := harness.StartProxy(t, c.Address())
	revoked, revokedAccess, _ := accessOf(watcherName)
	waiting, waitingAccess, ask := accessOf(throttledName)
	for _, prefix := range []string{"kept", "changed", "deleted"} {
		c.CreatePods(t, prefix, 10, harness.SmallPod)
	}
	truth := harness.ConnectEtcd(t, c).Watch(t, "/registry/pods/")

	scenes := scenesOf()
	access := map[string]string{
		"stuck":     kubeconfig(c.KubeconfigVia(t, c.RESTConfig(), hanging.Address())),
		"forbidden": revokedAccess,
		"full":      kubeconfig(c.Kubeconfig()) + "queue: {max_bytes: 131072}\nbatch: {max_bytes: 16384}\n",
		"denied":    kubeconfig(c.Kubeconfig()),
		"throttled": waitingAccess,
	}
	metrics, healthAddress := harness.FreeAddress(t), harness.FreeAddress(t)
	collector := harness.StartCollectorIn(t, []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=1"},
		configOf(t, scenes, access, metrics, healthAddress), "--feature-gates="+harness.ComponentStatusGate)
	for _, s := range scenes {
		s.from = s.sink.Records.AwaitSnapshot(t, "pods", catchUp)
	}
	w := &watchfulness{t: t, collector: collector, metrics: metrics, health: healthAddress, alerts: harness.KeepPages(t, metrics).WatchAlerts(t)}
	for _, s := range scenes {
		w.awaitWell(s)
	}

	quiet := keepChanging(t, c)
	find := func(name string) *scene {
		return scenes[slices.IndexFunc(scenes, func(s *scene) bool { return s.name == name })]
	}
	hanging.Afflict(t, harness.HalfOpen...)
	find("stuck").heal = func() { hanging.Heal(t) }
	revokeWatch(t, c)
	revoked.Cut()
	revoked.Restore(t)
	find("forbidden").heal = func() { grantWatch(t, c) }
	find("full").sink.Block()
	find("full").heal = func() { find("full").sink.Accept() }
	find("denied").sink.Refuse(status.Error(codes.Unauthenticated, "the token has expired"))
	find("denied").heal = func() { find("denied").sink.Accept() }
	find("throttled").heal = ask()
	waiting.Cut()
	waiting.Restore(t)
	// What happens in the meantime must not be lost. It is more than the small queue holds.
	c.DeletePods(t, "deleted", 10)
	c.ChangePods(t, "changed", 10)
	c.CreatePods(t, "added", 200, harness.SmallPod)

	for _, s := range scenes {
		w.awaitSeen(s)
		s.heal()
	}
	for _, s := range scenes {
		w.awaitWell(s)
	}
	w.awaitSilence()
	for _, s := range scenes {
		w.requireAlerts(s)
	}
	quiet()
	listed := c.List(t, harness.Pods)
	for _, s := range scenes {
		s.sink.Records.AwaitFold(t, "pods", listed.State, 4*catchUp)
		records := s.sink.Records.All()
		objects := harness.Objects(records, "pods")
		requireOnceAndInOrder(t, objects)
		if s.name == "denied" { // its gap record says what was dropped
			report(t, "events of etcd were lost silently", harness.NotAccountedFor(t, truth.Between(t, s.from, listed.ResourceVersion), records, "pods"))
			continue
		}
		requireNothingRecovered(t, records)
		report(t, "events of etcd were not emitted", harness.NotEmitted(truth.Between(t, s.from, listed.ResourceVersion), objects))
	}
}

// keepChanging changes a pod every second until the returned function is called. Without that, a minute without news would be
// an hour for the rules.
func keepChanging(t *testing.T, c *harness.Cluster) (quiet func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var changing sync.WaitGroup
	changing.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for n := 0; ; n++ {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"change":"%d"}}}`, n)
			_, err := c.Client.CoreV1().Pods("default").Patch(ctx, "kept-00000", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	quiet = func() {
		cancel()
		changing.Wait()
	}
	t.Cleanup(quiet)
	return quiet
}

// scenesOf returns the faults in the order in which they are seen and healed: those that are seen soonest come
// first, and the full queue last, since only the alert for it may fire however long it lasts.
func scenesOf() []*scene {
	return []*scene{
		{
			name: "denied", title: "A backend that denies", state: "reading",
			status: []string{"pipeline: next consumer refuses every record permanently", "the token has expired"},
			logged: "next consumer refused records permanently, they are dropped", fields: []string{"the token has expired", "dropped_records", "pods default/"},
			measured: "records_dropped",
			shows: func(sum func(string, ...string) float64) bool {
				return sum("records_dropped", "reason", "permanent") > 0
			},
			alerts: []string{"K8sWatchlistDropping"}, after: "K8sWatchlistGap",
		},
		{
			name: "forbidden", title: "A forbidden resource", state: "forbidden",
			status: []string{"pods: forbidden: ", "add this rule to the collector's ClusterRole: ", "verbs: "},
			logged: "no right to read resource, will try again slowly", fields: []string{`"state": "forbidden"`, `"remedy": "add this rule`},
			measured: "readers",
			shows: func(sum func(string, ...string) float64) bool {
				return sum("request_errors", "code", "403", "verb", "watch") > 0
			},
			alerts: []string{"K8sWatchlistForbidden"}, also: []string{"K8sWatchlistLagHigh"},
		},
		{
			name: "stuck", title: "A stuck stream", state: "unreachable",
			status: []string{"pods: unreachable: ", "check that the API server runs and that the network lets the collector connect to it"},
			logged: "cannot read resource, will try again", fields: []string{`"state": "unreachable"`, `"remedy": "check that`},
			measured: "last_progress",
			shows:    func(sum func(string, ...string) float64) bool { return sum("last_progress", "resource", "pods") > 15 },
			alerts:   []string{"K8sWatchlistNotReading", "K8sWatchlistStalled"}, also: []string{"K8sWatchlistLagHigh"},
		},
		{
			name: "throttled", title: "A server that throttles", state: "unreachable",
			status: []string{"pods: unreachable: ", "the API server asks clients to wait; if that lasts, see which flow schema rejects the requests"},
			logged: "API server keeps asking clients to wait, will try again", fields: []string{`"state": "unreachable"`},
			measured: "throttled",
			shows: func(sum func(string, ...string) float64) bool {
				return sum("throttled", "source", "server") > 10 && sum("request_errors", "code", "429", "verb", "watch") > 0
			},
			alerts: []string{"K8sWatchlistThrottled", "K8sWatchlistNotReading"}, also: []string{"K8sWatchlistStalled", "K8sWatchlistLagHigh"},
		},
		{
			name: "full", title: "A full queue", state: "paused",
			status: []string{"pipeline: next consumer does not return: "},
			logged: "next consumer is too slow, stream is closed until there is room in the queue", fields: []string{`"resource": "pods"`, `"state": "paused"`},
			measured: "queue_bytes",
			shows: func(sum func(string, ...string) float64) bool {
				return sum("queue_bytes") > 0.9*sum("queue_limit_bytes") && sum("paused", "resource", "pods") > 0
			},
			alerts: []string{"K8sWatchlistBackpressure"}, also: []string{"K8sWatchlistLagHigh"},
		},
	}
}

// configOf returns the configuration of a Collector with a receiver for each scene. Without other components in between,
// each receiver gets the verdicts of its own sink, which it starts.
func configOf(t *testing.T, scenes []*scene, access map[string]string, metrics, health string) string {
	t.Helper()
	var receivers, exporters, pipelines string
	for _, s := range scenes {
		s.sink = harness.StartSink(t)
		receivers += "  " + s.id() + ":\n" + indent(access[s.name]+"resources: [{name: pods}]") + "\n"
		exporters += "  otlp_grpc/" + s.name + ": {endpoint: '" + s.sink.Address() + "', tls: {insecure: true}, compression: none, timeout: 10m, " +
			"sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}\n"
		pipelines += "    logs/" + s.name + ": {receivers: [" + s.id() + "], exporters: [otlp_grpc/" + s.name + "]}\n"
	}
	return "receivers:\n" + receivers + "exporters:\n" + exporters + "extensions:\n  health_check: " + harness.HealthCheck(health) + `
service:
  extensions: [health_check]
  telemetry:
    metrics: ` + otelcol.PullMetrics(metrics) + `
  pipelines:
` + pipelines
}

// watchfulness is where an on-call engineer looks.
type watchfulness struct {
	t               *testing.T
	collector       *harness.Collector
	metrics, health string
	alerts          *harness.Alerts
}

// awaitSeen waits until a fault shows everywhere, and requires that docs/troubleshooting.md has an entry for what it shows.
func (w *watchfulness) awaitSeen(s *scene) {
	t := w.t
	t.Helper()
	began := time.Now()
	harness.Poll(t, 3*catchUp, s.title+" to be a state", func() string {
		h := w.statusOf(s)
		state := h.Attributes.Resources["pods"]
		if state == "" && h.Attributes.Readers["reading"] == 1 {
			state = "reading"
		}
		if state != s.state || h.Status != "StatusRecoverableError" || !containsAll(h.Error, s.status) {
			return fmt.Sprintf("it is %s, %s: %s", state, h.Status, h.Error)
		}
		return ""
	})
	harness.Poll(t, 3*catchUp, s.title+" to be logged", func() string {
		if line := w.entry(s, s.logged); line == "" || !containsAll(line, s.fields) {
			return "the entry is " + line
		}
		return ""
	})
	harness.Poll(t, 3*catchUp, s.title+" to be measured", func() string {
		sum := w.sums(s)
		if sum("readers", "state", s.state) != 1 || !s.shows(sum) {
			return fmt.Sprintf("%s is %v", s.measured, sum(s.measured))
		}
		return ""
	})
	var fired []harness.Alert
	harness.Poll(t, 3*catchUp, s.title+" to be an alert", func() string {
		fired = w.alertsOf(s)
		for _, want := range s.alerts {
			if !slices.ContainsFunc(fired, func(a harness.Alert) bool { return a.Name == want }) {
				return fmt.Sprintf("%s does not fire, only %v", want, fired)
			}
		}
		return ""
	})
	sum := w.sums(s)
	t.Logf("%s, seen %s after the others were:\n  status  %s %s\n  log     %s  metric  %s %v, readers{state=%q} %v\n  alerts  %v", s.title,
		time.Since(began).Round(time.Second), w.statusOf(s).Status, w.statusOf(s).Error, w.entry(s, s.logged), s.measured, sum(s.measured),
		s.state, sum("readers", "state", s.state), fired)
	requireEntries(t, s)
}

// awaitWell waits until nothing is wrong with a receiver.
func (w *watchfulness) awaitWell(s *scene) {
	w.t.Helper()
	harness.Poll(w.t, 3*catchUp, s.id()+" to be well", func() string {
		h, sum := w.statusOf(s), w.sums(s)
		if h.Status != "StatusOK" || h.Error != "" || len(h.Attributes.Resources) > 0 {
			return fmt.Sprintf("its status is %+v", h)
		}
		if sum("readers", "state", "reading") != 1 || sum("readers") != 1 || sum("queue_bytes") > 0 || sum("last_progress", "resource", "pods") > 90 {
			return fmt.Sprintf("%v of %v are read, %v bytes wait", sum("readers", "state", "reading"), sum("readers"), sum("queue_bytes"))
		}
		return ""
	})
}

// awaitSilence waits until no alert fires.
func (w *watchfulness) awaitSilence() {
	w.t.Helper()
	harness.Poll(w.t, 3*catchUp, "no alert to fire", func() string {
		for _, a := range w.alerts.Fired() {
			if a.Firing {
				return fmt.Sprint(a)
			}
		}
		return ""
	})
}

// requireAlerts requires that no alerts have fired that would mislead, and the one that fires only afterwards.
func (w *watchfulness) requireAlerts(s *scene) {
	w.t.Helper()
	var fired []string
	for _, a := range w.alertsOf(s) {
		fired = append(fired, a.Name)
		if !slices.Contains(s.alerts, a.Name) && !slices.Contains(s.also, a.Name) && a.Name != s.after {
			w.t.Errorf("%s: %v fired", s.title, a)
		}
	}
	if s.after != "" && !slices.Contains(fired, s.after) {
		w.t.Errorf("%s: %s did not fire when it was over, only %v", s.title, s.after, fired)
	}
}

// statusOf returns the component status of a scene's receiver.
func (w *watchfulness) statusOf(s *scene) harness.Health {
	return harness.ReadHealth(w.t, w.health).Components["pipeline:logs/"+s.name].Components["receiver:"+s.id()]
}

// entry returns the receiver's first log entry with the message.
func (w *watchfulness) entry(s *scene, message string) string {
	for _, line := range w.collector.LogLines("\t" + message + "\t") {
		if strings.Contains(line, `"otelcol.component.id": "`+s.id()+`"`) {
			return line
		}
	}
	return ""
}

// sums returns a function that sums a metric of the scene's receiver.
func (w *watchfulness) sums(s *scene) func(metric string, labels ...string) float64 {
	scraped, err := otelcol.ReadMetrics(w.t.Context(), w.metrics)
	return func(metric string, labels ...string) float64 {
		if err != nil {
			return -1
		}
		return scraped.Sum("otelcol_k8s_watchlist_"+metric, append(labels, "receiver", s.id())...)
	}
}

func (w *watchfulness) alertsOf(s *scene) []harness.Alert {
	return slices.DeleteFunc(slices.Clone(w.alerts.Fired()), func(a harness.Alert) bool { return a.Labels["receiver"] != s.id() })
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// requireEntries requires what docs/troubleshooting.md says about a fault: a row in the table of what an engineer sees, and an
// entry for the state, the message and every alert in it.
func requireEntries(t *testing.T, s *scene) {
	t.Helper()
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(expression string) bool { return regexp.MustCompile("(?m)" + expression).Match(page) }
	quoted := regexp.QuoteMeta
	row := "^\\| " + quoted(s.title) + "\\b.*`" + s.state + "`.*`" + quoted(s.logged) + "`.*`" + s.measured + "`"
	for _, alert := range slices.DeleteFunc(append(slices.Clone(s.alerts), s.after), func(name string) bool { return name == "" }) {
		row += ".*\\[" + alert + "\\]\\(#" + strings.ToLower(alert) + "\\)"
	}
	for what, expression := range map[string]string{
		"row of " + s.title:   row,
		"state " + s.state:    "^\\| `" + s.state + "` \\|",
		"message " + s.logged: "^\\| `" + quoted(s.logged) + "` \\|",
	} {
		if !has(expression) {
			t.Errorf("docs/troubleshooting.md has no %s", what)
		}
	}
	for _, alert := range slices.Concat(s.alerts, s.also) {
		if !has("^### " + alert + "$") {
			t.Errorf("docs/troubleshooting.md has no entry for %s", alert)
		}
	}
}
