package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/victorialogs"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/workload"
)

// besideFile adds a file exporter to the configuration of `make demo`.
const besideFile = `yaml:
exporters: {file: {path: '` + harness.OutputFile + `', flush_interval: 100ms}}
service: {pipelines: {logs/file: {receivers: [k8s_watchlist], exporters: [file]}}}
`

// The whole sample story arrives in a real VictoriaLogs, with the configuration of `make demo`, and the three questions
// that it asks have the answers that the records in a file have.
func TestVictoriaLogsAnswersTheQuestions(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("VICTORIALOGS_BINARY")
	if binary == "" {
		t.Skip("$VICTORIALOGS_BINARY names no VictoriaLogs: `make test-e2e` builds it and sets the variable")
	}
	config := readFile(t, "../../examples/demo.yaml")
	starting, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := victorialogs.Start(starting, binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := harness.StartCluster(t, controlplane.Options{})
	sample := c.Sample(t)
	environment := []string{"KUBECONFIG=" + c.Kubeconfig(), victorialogs.AddressVariable + "=" + store.URL()}
	collector := harness.StartCollectorIn(t, environment, config, "--config="+besideFile)
	for _, resource := range []string{"pods", "deployments.apps", "replicasets.apps", "configmaps", "secrets", "services", "nodes", "namespaces", "events", "carts.sample.example.com"} {
		collector.Records.AwaitSnapshot(t, resource, catchUp)
	}
	const rounds = 2
	sample.Pace = 250 * time.Millisecond // scaled more than a second apart, because managedFields have whole seconds
	for range rounds {
		sample.Round(t.Context())
	}
	for _, resource := range []schema.GroupVersionResource{
		harness.Pods,
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "sample.example.com", Version: "v1", Resource: "carts"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "nodes"},
	} {
		collector.Records.AwaitFold(t, harness.Name(resource), c.List(t, resource).State, catchUp)
	}
	collector.Interrupt(t)
	emitted := emittedBy(t, collector)

	// Everything that was emitted is there, once. The index of streams, which the filter uses as the questions do, is later
	// than the records.
	ids := map[string]int{}
	for _, record := range emitted {
		ids[record["k8s.change.id"]]++
	}
	harness.Poll(t, catchUp, "VictoriaLogs to have every record", func() string {
		stored := map[string]int{}
		for _, row := range ask(t, store, `{event_name=~".+"} | fields k8s.change.id`) {
			stored[row["k8s.change.id"]]++
		}
		var findings []string
		for id, n := range ids {
			if stored[id] != n {
				findings = append(findings, id)
			}
		}
		if len(findings) == 0 && len(stored) == len(ids) {
			return ""
		}
		return strings.Join(append(findings, "differ"), " ")
	})

	questions := victorialogs.Questions(workload.Namespace)
	changed, scaled, gone := ask(t, store, questions[0].Query), ask(t, store, questions[1].Query), ask(t, store, questions[2].Query)
	requireRows(t, questions[0].Title, changed, emitted, "ADDED", "MODIFIED", "DELETED")
	requireRows(t, questions[2].Title, gone, emitted, "DELETED")

	// What a person who made the changes knows.
	want := []string{"ConfigMap migration-1", "ConfigMap migration-2", "Pod migration-1", "Pod migration-2"}
	var disappeared []string
	for _, row := range gone {
		if name := row["k8s.object.name"]; strings.HasPrefix(name, "web-") {
			if _, err := c.Client.CoreV1().Pods(workload.Namespace).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
				t.Errorf("pod %s exists, but is said to have disappeared", name)
			}
			continue
		}
		disappeared = append(disappeared, row["k8s.object.kind"]+" "+row["k8s.object.name"])
	}
	slices.Sort(disappeared)
	if !slices.Equal(disappeared, want) {
		t.Errorf("these disappeared: %q, want %q", disappeared, want)
	}
	if webPods := len(gone) - len(disappeared); webPods != rounds {
		t.Errorf("%d pods of the Deployment disappeared, want %d", webPods, rounds)
	}
	var scalings []string
	for _, row := range scaled {
		if row["k8s.object.kind"] != "Deployment" {
			t.Errorf("the answer to who scaled it has a %s", row["k8s.object.kind"])
		}
		scalings = append(scalings, fmt.Sprintf("%s by %s, %q: %s → %s",
			row["k8s.object.name"], row["k8s.change.manager"], row["k8s.change.subresource"], row["old"], row["new"]))
	}
	up, down := `web by kubectl, "scale": 2 → 3`, `web by helm, "": 3 → 2`
	if want := []string{up, down, up, down}; !slices.Equal(scalings, want) {
		t.Errorf("it was scaled so: %q, want %q", scalings, want)
	}
	for i, question := range questions {
		for _, row := range [][]victorialogs.Row{changed, scaled, gone}[i] {
			for _, column := range question.Columns {
				if row[column] == "" && column != "k8s.change.subresource" {
					t.Errorf("%s: %s is missing in %v", question.Title, column, row)
				}
			}
		}
	}
}

// The page on backends has the queries of `make demo`, with shop as the namespace.
func TestBackendsPageHasTheTestedQueries(t *testing.T) {
	page := strings.Join(strings.Fields(readFile(t, "../../docs/backends.md")), " ")
	for _, question := range victorialogs.Questions("shop") {
		if !strings.Contains(page, question.Query) {
			t.Errorf("docs/backends.md lacks the query of %q:\n%s", question.Title, question.Query)
		}
	}
}

func ask(t *testing.T, store *victorialogs.Server, query string) []victorialogs.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), catchUp)
	defer cancel()
	rows, err := store.Ask(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// emittedBy returns the attributes of the records in the file exporter's file, and their event names, as text.
func emittedBy(t *testing.T, c *harness.Collector) []victorialogs.Row {
	t.Helper()
	var emitted []victorialogs.Row
	for line := range strings.Lines(c.Output(t)) {
		logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					row := victorialogs.Row{"event_name": record.EventName()}
					for key, value := range record.Attributes().All() {
						row[key] = value.AsString()
					}
					emitted = append(emitted, row)
				}
			}
		}
	}
	return emitted
}

// requireRows requires that the rows are the changes of these types to the objects in the sample's namespace.
func requireRows(t *testing.T, what string, rows, emitted []victorialogs.Row, types ...string) {
	t.Helper()
	lines := func(rows []victorialogs.Row) []string {
		var lines []string
		for _, row := range rows {
			var line []string
			for _, key := range []string{"k8s.change.type", "k8s.object.kind", "k8s.object.name", "k8s.object.resource_version", "k8s.change.id"} {
				line = append(line, row[key])
			}
			lines = append(lines, strings.Join(line, " "))
		}
		slices.Sort(lines)
		return lines
	}
	want := lines(slices.DeleteFunc(slices.Clone(emitted), func(row victorialogs.Row) bool {
		return row["event_name"] == "k8s.event" || row["k8s.namespace.name"] != workload.Namespace || !slices.Contains(types, row["k8s.change.type"])
	}))
	if got := lines(rows); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%s\n%d answers: %q\nwant %d: %q", what, len(got), got, len(want), want)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
