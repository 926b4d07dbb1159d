package redaction

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// form is where the object is in a record.
type form struct {
	body, attribute string // the options body and object_attribute
}

func (f form) String() string {
	if f.attribute == "none" {
		return f.body
	}
	return f.body + "-and-" + f.attribute
}

// options returns the options of the receiver. With each of them, the record of an Event contains the Event too.
func (f form) options() string {
	if f.attribute == "none" {
		return "body: " + f.body + "\n    events: {body: object, deleted: true}"
	}
	return "body: " + f.body + "\n    object_attribute: " + f.attribute + "\n    events: {deleted: true}"
}

// hasOthers reports whether the collector emits the formats of other receivers too, which do not depend on these options.
func (f form) hasOthers() bool { return f.attribute == "none" }

// subject is a collector with one form of records, with entity events, and perhaps with the formats of other receivers,
// over its runs, and everything that leaves it.
type subject struct {
	*output
	form               form
	config             string
	checkpoints, debug string   // paths
	pages              []string // URLs
	status             string   // URL

	collector *harness.Collector
	runs      int
	left      map[string][]byte // all output except the requests
}

var newEvents = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

func newSubject(t *testing.T, c *harness.Cluster, f form, resources []schema.GroupVersionResource) *subject {
	t.Helper()
	folder := t.TempDir()
	s := &subject{
		output: startOutput(t, f), form: f, left: map[string][]byte{},
		checkpoints: filepath.Join(folder, "checkpoints"), debug: filepath.Join(folder, "debug"),
	}
	if err := os.Mkdir(s.checkpoints, 0o700); err != nil {
		t.Fatal(err)
	}
	metrics, health, zpages := harness.FreeAddress(t), harness.FreeAddress(t), harness.FreeAddress(t)
	s.status = "http://" + health + "/status?verbose"
	s.pages = []string{s.status, "http://" + metrics + "/metrics"}
	for _, page := range []string{"servicez", "pipelinez", "extensionz", "featurez", "tracez"} {
		s.pages = append(s.pages, "http://"+zpages+"/debug/"+page)
	}
	receiver := func(options string, resources ...schema.GroupVersionResource) string {
		var names []string
		for _, resource := range resources {
			entry := harness.Name(resource)
			if withDiffs := !strings.Contains(options, "format:") && resource.Resource != "events"; withDiffs {
				entry = fmt.Sprintf("{name: %s, diff: true}", entry)
			}
			names = append(names, entry)
		}
		return `
    auth_type: kubeConfig
    kubeconfig: ` + c.Kubeconfig() + `
    user_agent: ` + s.userAgent() + `
    kube_api_qps: 100
    kube_api_burst: 200
    storage: file_storage
    resources: [` + strings.Join(names, ", ") + `]
    ` + options
	}
	// The Events of both groups are the same objects, and a receiver refuses to read them twice.
	others := slices.DeleteFunc(append(slices.Clone(resources), reports), func(r schema.GroupVersionResource) bool { return r == newEvents })
	receivers, inOtherFormats := "k8s_watchlist, k8s_watchlist/events", ""
	if f.hasOthers() {
		receivers += ", k8s_watchlist/k8sobjects, k8s_watchlist/k8sevents"
		inOtherFormats = `
  k8s_watchlist/k8sobjects:` + receiver("format: k8sobjects\n    events: {deleted: true}", others...) + `
  k8s_watchlist/k8sevents:` + receiver("format: k8sevents", newEvents)
	}
	s.config = `
receivers:
  k8s_watchlist:` + receiver(f.options()+"\n    entities: true", others...) + `
  k8s_watchlist/events:` + receiver(f.options(), newEvents) + inOtherFormats + `
exporters:
  otlp_grpc:
    endpoint: ` + s.address + `
    tls: {insecure: true}
    compression: none
    sending_queue: {enabled: false}
  debug:
    verbosity: detailed
    use_internal_logger: false
    output_paths: [` + s.debug + `]
extensions:
  file_storage: {directory: ` + s.checkpoints + `}
  health_check:
    http: {endpoint: ` + health + `, status: {enabled: true, path: /status}}
    component_health: {include_permanent_errors: true, include_recoverable_errors: true}
  zpages: {endpoint: ` + zpages + `}
service:
  extensions: [file_storage, health_check, zpages]
  pipelines:
    logs: {receivers: [` + receivers + `], exporters: [otlp_grpc, debug]}
  telemetry:
    logs: {level: debug}
    metrics: ` + strings.Replace(otelcol.PullMetrics(metrics), "normal", "detailed", 1) + `
`
	return s
}

func (s *subject) start(t *testing.T) {
	t.Helper()
	s.runs++
	s.collector = harness.StartCollector(t, s.config, "--feature-gates=+extension.healthcheck.useComponentStatus")
}

// keepPages keeps the pages that the collector serves now.
func (s *subject) keepPages(t *testing.T) {
	t.Helper()
	for _, url := range s.pages {
		s.left[fmt.Sprintf("%s in run %d", url, s.runs)] = get(t, url)
	}
}

// keepFiles keeps the log and files of the collector, once it has ended.
func (s *subject) keepFiles(t *testing.T) {
	t.Helper()
	s.left[fmt.Sprintf("log of run %d", s.runs)] = []byte(s.collector.Log())
	stored, err := filepath.Glob(filepath.Join(s.checkpoints, "*"))
	if err != nil || len(stored) == 0 {
		t.Fatalf("no checkpoint is in %s: %v", s.checkpoints, err)
	}
	for _, path := range append(stored, s.debug) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s.left[fmt.Sprintf("%s after run %d", filepath.Base(path), s.runs)] = content
	}
}

// everything returns all output of the collector from all runs.
func (s *subject) everything() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.left)
	for i, request := range s.requests {
		all[fmt.Sprintf("OTLP request %d", i)] = request
	}
	return all
}

// userAgent identifies the collector to the API server.
func (s *subject) userAgent() string { return "collector-with-body-" + s.form.String() }

func get(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("cannot read %s: %v", url, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("cannot read %s: %v", url, err)
	}
	return content
}
