package main

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// panelQueries returns the queries of the dashboard as Grafana sends them, by title of the panel.
func panelQueries(t *testing.T, metrics map[string]Metric, spelling Spelling) map[string][]string {
	t.Helper()
	text, err := Dashboard(metrics, spelling)
	require.NoError(t, err)
	var dashboard struct {
		Annotations struct{ List []struct{ Expr string } }
		Panels      []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	queries := map[string][]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], withVariables(target.Expr))
		}
	}
	require.NotEmpty(t, queries)
	require.NotEmpty(t, dashboard.Annotations.List)
	for _, annotation := range dashboard.Annotations.List {
		requireKnown(t, metrics, spelling, withVariables(annotation.Expr))
	}
	return queries
}

func withVariables(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$receiver", ".*", "$resource", ".*").Replace(expr)
}

// Every query can be parsed, and names only what metadata.yaml has.
func TestQueriesOfTheDashboard(t *testing.T) {
	metrics, err := ReadMetrics(metadataFile)
	require.NoError(t, err)
	for _, spelling := range Spellings {
		for title, queries := range panelQueries(t, metrics, spelling) {
			for _, query := range queries {
				require.NotContains(t, query, "$", title)
				requireKnown(t, metrics, spelling, query)
			}
		}
	}
}

// Every metric is in the dashboard, but for those that only telemetry.detailed adds.
func TestDashboardShowsEveryMetric(t *testing.T) {
	metrics, err := ReadMetrics(metadataFile)
	require.NoError(t, err)
	text, err := Dashboard(metrics, false)
	require.NoError(t, err)
	for name := range metrics {
		if name != "record_size" && name != "reader_states" {
			assert.Contains(t, string(text), prefix+name)
		}
	}
}

// Every panel shows something of a real run, whose pages make monitoring-pages keeps in testdata.
func TestPanelsOfARealRun(t *testing.T) {
	metrics, err := ReadMetrics(metadataFile)
	require.NoError(t, err)
	for spelling, name := range map[Spelling]string{false: "plain", true: "suffixed"} {
		pages := loadPages(t, name)
		data := teststorage.New(t)
		shown := map[string]bool{}
		for _, p := range pages {
			require.NoError(t, p.appendTo(data.Appender(t.Context())))
			for family := range p.families {
				shown[family] = true
			}
		}
		exists := map[string]bool{}
		for base, m := range metrics {
			exists[spelling.Name(base, m)] = true
		}
		require.Equal(t, exists, shown, "the run is not one of this version: run make monitoring-pages")
		for title, queries := range panelQueries(t, metrics, spelling) {
			for _, expr := range queries {
				found := 0
				for _, p := range pages {
					found += len(query(t, data, expr, p.at))
				}
				assert.Positive(t, found, "%s (%s): %s", title, name, expr)
			}
		}
	}
}

func loadPages(t *testing.T, name string) []page {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name+".txt.gz"))
	require.NoError(t, err)
	defer packed.Close() //nolint:errcheck // it was only read
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	var pages []page
	require.NoError(t, readPages(unpacked, func(p page) error { pages = append(pages, p); return nil }))
	require.GreaterOrEqual(t, len(pages), 10)
	return pages
}
