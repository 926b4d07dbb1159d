package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
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
			p.appendTo(t, data)
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

// page is what an endpoint returned once.
type page struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

func loadPages(t *testing.T, name string) []page {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name+".txt.gz"))
	require.NoError(t, err)
	defer packed.Close() //nolint:errcheck // it was only read
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	text, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	var pages []page
	for part := range strings.SplitSeq(strings.TrimPrefix(string(text), "# at "), "\n# at ") {
		at, content, _ := strings.Cut(part, "\n")
		ms, err := strconv.ParseInt(at, 10, 64)
		require.NoError(t, err)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(content + "\n"))
		require.NoError(t, err)
		pages = append(pages, page{time.UnixMilli(ms), families})
	}
	require.GreaterOrEqual(t, len(pages), 10)
	return pages
}

func (p page) appendTo(t *testing.T, data *teststorage.TestStorage) {
	t.Helper()
	appender := data.Appender(t.Context())
	for _, family := range p.families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(p.at.UnixNano())}, family)
		require.NoError(t, err)
		for _, s := range samples {
			builder := labels.NewScratchBuilder(len(s.Metric))
			for name, value := range s.Metric {
				builder.Add(string(name), string(value))
			}
			builder.Sort()
			_, err := appender.Append(0, builder.Labels(), p.at.UnixMilli(), float64(s.Value))
			require.NoError(t, err)
		}
	}
	require.NoError(t, appender.Commit())
}
