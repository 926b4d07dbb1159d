package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Everything that the metrics are about happens to one of two receivers of a Collector: its API server repeats, garbles
// and withholds events, its connection is lost, its pipeline refuses, denies and blocks. Then every metric of
// metadata.yaml is at the Collector's endpoint, in both spellings and with a plausible value. The second receiver, which
// may read nothing, keeps its own. The third is the only one of its replicas, which loses the leadership and regains it.
func TestEveryMetric(t *testing.T) {
	t.Parallel()
	const kept = 20
	s := concealing.start(t)
	account, err := s.ServiceAccountCredentials(t.Context(), "default", "powerless")
	if err != nil {
		t.Fatal(err)
	}
	s.CreatePods(t, "kept", kept, harness.SmallPod)
	sink, replicated := harness.StartSink(t), harness.StartSink(t)
	apart := harness.StartProxy(t, s.Address())
	plain, suffixed := harness.FreeAddress(t), harness.FreeAddress(t)
	host := func(address string) string { return strings.Replace(address, ":", ", port: ", 1) }
	collector := harness.StartCollector(t, `
extensions:
  file_storage: {directory: `+t.TempDir()+`}
receivers:
  k8s_watchlist/a:
`+indent(s.access+`
resources:
  - {name: pods, diff: true}
  - {name: configmaps, exclude_types: [DELETED]}
  - {name: leases.coordination.k8s.io}
relist: {interval: 1s}
storage: file_storage
max_record_bytes: 4096
queue: {max_bytes: 131072}
batch: {max_bytes: 65536}
kube_api_qps: 10
kube_api_burst: 1
redaction: {keep: [{resource: configmaps, names: [open], paths: ["data.*"]}]}
telemetry: {detailed: true}
`)+`
  k8s_watchlist/b:
`+indent(kubeconfig(s.KubeconfigVia(t, account.Config, s.Address()))+"resources: [{name: pods}]")+`
  k8s_watchlist/c:
`+indent(kubeconfig(s.KubeconfigVia(t, s.RESTConfig(), apart.Address()))+`
resources: [{name: namespaces}]
leader_election: {enabled: true, lease_name: metrics, lease_namespace: default, lease_duration: 3s, renew_deadline: 2s, retry_period: 500ms}
standby: {publish_interval: 500ms}
`)+`
exporters:
  otlp_grpc:
    endpoint: `+sink.Address()+`
    tls: {insecure: true}
    compression: none
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
  otlp_grpc/replicated:
    endpoint: `+replicated.Address()+`
    tls: {insecure: true}
    compression: none
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
  nop:
service:
  extensions: [file_storage]
  pipelines:
    logs/a: {receivers: [k8s_watchlist/a], exporters: [otlp_grpc]}
    logs/b: {receivers: [k8s_watchlist/b], exporters: [nop]}
    logs/c: {receivers: [k8s_watchlist/c], exporters: [otlp_grpc/replicated]}
  telemetry:
    metrics:
      level: detailed
      readers:
        - {pull: {exporter: {prometheus: {host: `+host(plain)+`}}}}
        - {pull: {exporter: {prometheus: {host: `+host(suffixed)+`, without_units: false, without_type_suffix: false}}}}
`, "--feature-gates="+harness.ShortRelistGate)
	keepPages(t, map[string]string{"plain": plain, "suffixed": suffixed})
	sum := func(receiver, name string, labels ...string) float64 {
		scraped, err := otelcol.ReadMetrics(t.Context(), plain)
		if err != nil {
			return 0 // not started yet
		}
		return scraped.Sum("otelcol_k8s_watchlist_"+name, append(labels, "receiver", "k8s_watchlist/"+receiver)...)
	}
	// untilOf repeats something until a metric of a receiver has counted it.
	untilOf := func(receiver string, do func(n int), name string, labels ...string) {
		t.Helper()
		n := 0
		harness.Poll(t, 2*catchUp, name+" to count "+strings.Join(labels, " "), func() string {
			if sum(receiver, name, labels...) > 0 {
				return ""
			}
			if do != nil {
				do(n)
			}
			n++
			return "it has not"
		})
	}
	until := func(do func(n int), name string, labels ...string) {
		t.Helper()
		untilOf("a", do, name, labels...)
	}
	for _, resource := range []string{"pods", "configmaps", "leases.coordination.k8s.io"} {
		sink.Records.AwaitSnapshot(t, resource, catchUp)
	}

	garbled := &atomic.Bool{}
	s.middleman.Alter(func(line []byte) []byte {
		named := func(prefix string) bool { return bytes.Contains(line, []byte(`"name":"`+prefix)) }
		switch {
		case named("repeated-"):
			return append(bytes.Clone(line), line...)
		case named("strange-"):
			return bytes.Replace(line, []byte(`"kind":"Pod"`), []byte(`"kind":"Other"`), 1)
		case named("deep-"):
			deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
			return bytes.Replace(line, []byte(`"spec":{`), []byte(`"spec":{"deep":`+deep+`,`), 1)
		case named("garbled-") && !garbled.Swap(true):
			return []byte(`{"type":"ADDED","object":{` + "\n")
		}
		return line
	})
	pod := func(prefix string) func(int) {
		return func(n int) { s.CreatePods(t, fmt.Sprintf("%s-%d", prefix, n), 1, harness.SmallPod) }
	}
	until(pod("repeated"), "duplicates_dropped")
	until(pod("strange"), "frames_of_another_kind")
	until(pod("deep"), "redaction_failures")
	until(pod("garbled"), "undecodable_frames")
	s.CreatePods(t, "unseen", 1, harness.SmallPod)
	until(pod("seen"), "relist_found", "what", "added")

	configMap := func(name, content string) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": content}}
		if _, err := s.Client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	configMap("open", strings.Repeat("x", 10_000))
	until(nil, "records_truncated")
	if err := s.Client.CoreV1().ConfigMaps("default").Delete(t.Context(), "open", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(nil, "records_excluded", "type", "DELETED")
	until(nil, "suppressed", "reason", "noop") // kube-apiserver renews its own lease

	replicated.Records.AwaitSnapshot(t, "namespaces", catchUp)
	namespace := func(name string) {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.Client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	replicated.Block()
	calls := replicated.Calls()
	namespace("fenced")
	harness.Poll(t, catchUp, "the pipeline to be called", func() string {
		if replicated.Calls() == calls {
			return "it is not"
		}
		return ""
	})
	apart.Cut()
	untilOf("c", nil, "fenced_batches")
	apart.Restore(t)
	replicated.Accept()
	replicated.Records.AwaitObject(t, "namespaces", "fenced", "ADDED", catchUp)

	sink.Refuse(errors.New("not now"))
	until(pod("refused"), "consumer_retries")
	sink.Refuse(status.Error(codes.InvalidArgument, "never"))
	until(pod("denied"), "records_dropped", "reason", "permanent")
	sink.Block()
	until(func(n int) { s.CreatePods(t, fmt.Sprintf("blocked-%d", n), 50, harness.SmallPod) }, "paused")
	sink.Accept()
	// A relist waits until the live stream has passed its version, so a pod is created now and then.
	later := 0
	settle := func() {
		t.Helper()
		created := time.Now()
		harness.Poll(t, 4*catchUp, "the fold of pods to equal the LIST", func() string {
			listed := s.List(t, harness.Pods).State
			found := fold.Fold(harness.Objects(sink.Records.All(), "pods")).Differences(listed)
			if len(found) == 0 {
				return ""
			}
			if time.Since(created) > time.Second {
				pod("later")(later)
				later, created = later+1, time.Now()
			}
			return fmt.Sprintf("%d differences, such as %v", len(found), found[0])
		})
	}
	// Not before all streams are open again: one that is lost while it is opened is given up only after 90 seconds.
	settle()
	s.proxy.Cut()
	until(nil, "request_errors", "code", "network")
	s.proxy.Restore(t)
	pod("afterwards")(0)
	settle()

	pods := float64(len(s.List(t, harness.Pods).State))
	for spelling, address := range map[string]string{"plain": plain, "suffixed": suffixed} {
		harness.Poll(t, 2*catchUp, "every metric to have a plausible value", func() string {
			scraped, err := otelcol.ReadMetrics(t.Context(), address)
			if err != nil {
				return err.Error()
			}
			return implausible(t, scraped, spelling == "suffixed", pods)
		})
	}
	if warnings := collector.LogLines("cannot register"); len(warnings) > 0 {
		t.Error(warnings)
	}
}

// mayBeZero are the metrics whose value is normally zero at the end of the test.
var mayBeZero = []string{"queue_bytes", "queue_records", "checkpoint_age", "diff_bytes", "standby_ready"}

// ofReplicas are the metrics that only replicas have.
var ofReplicas = []string{"fenced_batches", "leader", "leader_transitions", "progress_age", "progress_publishes", "standby_ready", "takeover_duration"}

// implausible returns what is wrong with the metrics of the receiver a, which has read that many pods, and of b.
func implausible(t *testing.T, scraped otelcol.Metrics, suffixed bool, pods float64) string {
	a, b, c := "k8s_watchlist/a", "k8s_watchlist/b", "k8s_watchlist/c"
	var wrong []string
	expect := func(ok bool, format string, values ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, values...))
		}
	}
	names := map[string]string{}
	for _, m := range declaredMetrics(t) {
		names[m.name] = m.exposed(suffixed)
		receiver := a
		if slices.Contains(ofReplicas, m.name) {
			receiver = c
		}
		sum, n := valueOf(scraped[m.exposed(suffixed)], receiver)
		expect(n > 0, "there is no %s", m.exposed(suffixed))
		expect(sum >= 0 && (sum > 0 || slices.Contains(mayBeZero, m.name)), "%s is %v", m.exposed(suffixed), sum)
	}
	sum := func(name string, labels ...string) float64 { return scraped.Sum(names[name], labels...) }
	is := func(want float64, name string, labels ...string) {
		got := sum(name, labels...)
		expect(got == want, "%s of %q is %v, not %v", name, labels, got, want)
	}
	is(3, "readers", "receiver", a, "state", "reading")
	is(3, "readers", "receiver", a)
	is(1, "readers", "receiver", b, "state", "forbidden")
	is(1, "readers", "receiver", b)
	is(131072, "queue_limit_bytes", "receiver", a)
	is(16777216, "queue_limit_bytes", "receiver", b)
	is(pods, "inventory_objects", "receiver", a, "resource", "pods")
	is(20, "initial_objects", "receiver", a, "resource", "pods")
	is(0, "records_accepted", "receiver", b)
	is(0, "events", "receiver", b)
	is(1, "relist_found", "receiver", a, "resource", "pods")
	is(1, "leader", "receiver", c)
	is(2, "leader_transitions", "receiver", c, "to", "leader")
	is(2, "leader_transitions", "receiver", c, "to", "standby")
	expect(sum("progress_age", "receiver", c) < 60, "the progress is old")
	expect(sum("progress_publishes", "receiver", c, "outcome", "complete") >= 2, "two terms were not published")
	expect(sum("request_errors", "receiver", b, "code", "403", "verb", "watch") > 0, "no 403 was counted")
	expect(sum("events", "receiver", a, "origin", "relist") > 0, "no event of a relist was counted")
	expect(sum("events", "receiver", a, "type", "bookmark") > 0, "no bookmark was counted")
	expect(sum("records_accepted", "receiver", a, "resource", "pods") >= pods, "fewer pods were accepted than exist")
	expect(sum("last_progress", "receiver", a, "resource", "pods") < 120, "the last progress is old")
	expect(sum("initial_duration", "receiver", a, "resource", "pods") < 120, "the initial state took long")
	expect(sum("throttled", "receiver", a, "source", "client") > 0, "no request has waited")
	for _, name := range []string{"lag", "delivery_delay", "checkpoint_write_duration", "relist_duration"} {
		for _, series := range scraped[names[name]].GetMetric() {
			h := series.GetHistogram()
			expect(h.GetSampleSum() <= 300*float64(h.GetSampleCount()), "%s is %v in %v", name, h.GetSampleSum(), h.GetSampleCount())
		}
	}
	return strings.Join(wrong, "; ")
}

// valueOf returns the sum over a receiver's series, that of the numbers of values for a histogram, and their number.
func valueOf(family *dto.MetricFamily, receiver string) (sum float64, series int) {
	for _, m := range family.GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "receiver" && label.GetValue() == receiver {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				series++
			}
		}
	}
	return sum, series
}

// declared is a metric of metadata.yaml.
type declared struct{ name, unit, kind string }

func declaredMetrics(t *testing.T) []declared {
	t.Helper()
	text, err := os.ReadFile("../../metadata.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []declared
	metric := regexp.MustCompile(`(?m)^    k8s_watchlist_(\w+):\n(?:      .*\n)*?      unit: "?([^"\n]*)"?\n      (sum|gauge|histogram):`)
	for _, m := range metric.FindAllStringSubmatch(string(text), -1) {
		all = append(all, declared{m[1], m[2], m[3]})
	}
	if want := strings.Count(string(text), "\n    k8s_watchlist_"); len(all) != want || want == 0 {
		t.Fatalf("metadata.yaml has %d metrics, %d of them were understood", want, len(all))
	}
	return all
}

// exposed returns the name that a Prometheus endpoint gives the metric.
func (d declared) exposed(suffixed bool) string {
	name := "otelcol_k8s_watchlist_" + d.name
	if !suffixed {
		return name
	}
	if unit := map[string]string{"s": "_seconds", "By": "_bytes"}[d.unit]; !strings.HasSuffix(name, unit) {
		name += unit
	}
	if d.kind == "sum" {
		name += "_total"
	}
	return name
}

// pagesFolder names the folder in which the metrics of the run are kept, for the test of the dashboard and the rules.
const pagesFolder = "E2E_METRICS_PAGES"

// keepPages reads the endpoints every second until the test ends, and writes what they returned about the receivers into
// <folder>/<name>.txt.gz.
func keepPages(t *testing.T, addresses map[string]string) {
	t.Helper()
	folder := os.Getenv(pagesFolder)
	if folder == "" {
		return
	}
	for name, address := range addresses {
		pages := harness.KeepPages(t, address)
		t.Cleanup(func() { // before the pages end
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, err := w.Write(pages.Text())
			if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(folder, name+".txt.gz"), packed.Bytes(), 0o600)); err != nil {
				t.Error(err)
			}
		})
	}
}
