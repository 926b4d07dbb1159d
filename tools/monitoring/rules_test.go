package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	metadataFile = "../../metadata.yaml"
	receiver     = `receiver="k8s_watchlist"`
	pods         = receiver + `,group="",resource="pods"`
)

// examples are series, in the notation of promql tests with a sample per minute, for which an alert fires after two hours,
// and for which it does not.
var examples = map[string]struct{ fires, silent string }{
	"K8sWatchlistNotReading": {
		`$readers{` + receiver + `,state="unreachable"} 0x100 2x20`,
		`$readers{` + receiver + `,state="unreachable"} 0x100 2x15 0x5` + "\n" + `$readers{` + receiver + `,state="forbidden"} 3x120`,
	},
	"K8sWatchlistForbidden": {
		`$readers{` + receiver + `,state="forbidden"} 0x80 1x40`,
		`$readers{` + receiver + `,state="forbidden"} 0x110 1x10`,
	},
	"K8sWatchlistNotServed": {
		`$readers{` + receiver + `,state="not_served"} 1x120`,
		`$readers{` + receiver + `,state="reading"} 1x120`,
	},
	"K8sWatchlistStalled": {
		`$last_progress{` + pods + `} 10x95 0+60x25`,
		`$last_progress{` + pods + `} 300x120`,
	},
	"K8sWatchlistLagHigh": {
		`$lag_bucket{` + pods + `,le="60"} 0+1x120` + "\n" + `$lag_bucket{` + pods + `,le="300"} 0+10x120` + "\n" + `$lag_bucket{` + pods + `,le="+Inf"} 0+10x120`,
		`$lag_bucket{` + pods + `,le="60"} 0+10x120` + "\n" + `$lag_bucket{` + pods + `,le="300"} 0+10x120` + "\n" + `$lag_bucket{` + pods + `,le="+Inf"} 0+10x120`,
	},
	"K8sWatchlistGap": {
		`$gaps{` + pods + `,reason="silent"} _x115 1x5`, // the first one begins the series
		`$gaps{` + pods + `,reason="silent"} 7x120` + "\n" + `$gaps{` + pods + `,reason="expired"} 0+1x120`,
	},
	"K8sWatchlistMissedByWatch": {
		`$relist_found{` + pods + `,what="added"} 3x100 4x20`,
		`$relist_found{` + pods + `,what="added"} 3x120`,
	},
	"K8sWatchlistDropping": {
		`$records_dropped{` + pods + `,reason="permanent"} 3x115 9x5`,
		`$records_dropped{` + pods + `,reason="permanent"} 3x100 9x20`,
	},
	"K8sWatchlistPipelineRefuses": {
		`$consumer_retries{` + receiver + `} 0+2x120`,
		`$consumer_retries{` + receiver + `} 5x110 7x10`,
	},
	"K8sWatchlistBackpressure": {
		`$queue_bytes{` + receiver + `} 50x100 96 60 97 55 98 95 70 60 98 97 95 92 55 96 97 98 99 92 98 99` + "\n" + `$queue_limit_bytes{` + receiver + `} 100x120`,
		`$queue_bytes{` + receiver + `} 50x100 95 50x20` + "\n" + `$queue_limit_bytes{` + receiver + `} 100x120`,
	},
	"K8sWatchlistUndecodable": {
		`$undecodable_frames{` + pods + `} _x118 2x2`,
		`$undecodable_frames{` + pods + `} 2x120`,
	},
	"K8sWatchlistRedactionFailed": {
		`$redaction_failures{` + pods + `} 1x118 2x2`,
		`$redaction_failures{` + pods + `} 2x120`,
	},
	"K8sWatchlistCheckpointOld": {
		`$checkpoint_age{` + pods + `} 0x100 0+60x20`,
		`$checkpoint_age{` + pods + `} 30x120`,
	},
	"K8sWatchlistNoLeader": {
		`$leader{` + receiver + `,pod="a"} 1x110 0x10` + "\n" + `$leader{` + receiver + `,pod="b"} 0x120`,
		`$leader{` + receiver + `,pod="a"} 1x110 0x10` + "\n" + `$leader{` + receiver + `,pod="b"} 0x111 1x9`,
	},
	"K8sWatchlistProgressOld": {
		`$progress_age{` + receiver + `} 1x105 61+60x15`,
		`$progress_age{` + receiver + `} 1x116 90x2 1x2`,
	},
	"K8sWatchlistThrottled": {
		`$throttled{` + receiver + `,source="server"} 0+30x120`,
		`$throttled{` + receiver + `,source="server"} 0+3x120` + "\n" + `$throttled{` + receiver + `,source="client"} 0+50x120`,
	},
}

func newEngine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
}

func TestAlerts(t *testing.T) {
	metrics, err := ReadMetrics(metadataFile)
	require.NoError(t, err)
	for _, spelling := range Spellings {
		text, err := Rules(metrics, spelling)
		require.NoError(t, err)
		groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
		require.Empty(t, errs)
		require.Len(t, groups.Groups, 1)
		require.Len(t, examples, len(groups.Groups[0].Rules))
		for _, rule := range groups.Groups[0].Rules {
			t.Run(rule.Alert+spelling.Suffix(), func(t *testing.T) {
				requireKnown(t, metrics, spelling, rule.Expr)
				example := examples[rule.Alert]
				assert.True(t, fires(t, metrics, spelling, rule, example.fires), "it is silent")
				assert.False(t, fires(t, metrics, spelling, rule, example.silent), "it fires")
			})
		}
	}
}

// fires reports whether a rule fires two hours after the first sample: its query then had a result for as long as the
// rule requires.
func fires(t *testing.T, metrics map[string]Metric, spelling Spelling, r rulefmt.Rule, series string) bool {
	t.Helper()
	expanded, err := spelling.Expand(series, metrics)
	require.NoError(t, err)
	data := promqltest.LoadedStorage(t, "load 1m\n    "+strings.ReplaceAll(expanded, "\n", "\n    "))
	end := time.Unix(0, 0).Add(2 * time.Hour)
	for at := end.Add(-time.Duration(r.For)); !at.After(end); at = at.Add(time.Minute) {
		if len(query(t, data, r.Expr, at)) == 0 {
			return false
		}
	}
	return true
}

func query(t *testing.T, data storage.Queryable, expr string, at time.Time) promql.Vector {
	t.Helper()
	q, err := newEngine(t).NewInstantQuery(context.Background(), data, nil, expr, at)
	require.NoError(t, err, expr)
	defer q.Close()
	result := q.Exec(context.Background())
	require.NoError(t, result.Err, expr)
	vector, err := result.Vector()
	require.NoError(t, err, expr)
	return vector
}

// common are labels that do not come from the receiver.
var common = map[string]bool{"cluster": true, "namespace": true, "pod": true, "instance": true, "le": true}

// requireKnown fails if a query names a metric, a label or a value of a label that does not exist.
func requireKnown(t *testing.T, metrics map[string]Metric, spelling Spelling, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	require.NoError(t, err, expr)
	labels := map[string]bool{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := find(metrics, spelling, selector.Name)
		require.True(t, ok, "%s does not exist", selector.Name)
		for label := range m.Labels {
			labels[label] = true
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name == "__name__" {
				continue
			}
			assert.True(t, m.Labels[matcher.Name], "%s has no label %s", selector.Name, matcher.Name)
			values := m.LabelsAre[matcher.Name]
			for value := range strings.SplitSeq(matcher.Value, "|") {
				if len(values) > 0 && value != ".*" {
					assert.Contains(t, values, value, "%s of %s", matcher.Name, selector.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregation, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregation.Grouping {
				assert.True(t, labels[label] || common[label], "%s: there is no label %s", expr, label)
			}
		}
		return nil
	})
}

func find(metrics map[string]Metric, spelling Spelling, name string) (Metric, bool) {
	for base, m := range metrics {
		full := spelling.Name(base, m)
		if m.Kind != "histogram" && full == name {
			return m, true
		}
		if m.Kind == "histogram" && (full+"_bucket" == name || full+"_sum" == name || full+"_count" == name) {
			return m, true
		}
	}
	return Metric{}, false
}

// Every alert has an entry in docs/troubleshooting.md, to which its runbook_url leads.
func TestEveryAlertIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^### (K8sWatchlist\w+)$`).FindAllStringSubmatch(string(text), -1)
	var explained, want []string
	for _, h := range headings {
		explained = append(explained, h[1])
	}
	for _, a := range Alerts {
		want = append(want, a.Name)
	}
	assert.ElementsMatch(t, want, explained)
}

func TestFilesAreUpToDate(t *testing.T) {
	require.NoError(t, run("../..", true), "run make monitoring")
}
