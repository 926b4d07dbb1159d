package main

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Alert is an alerting rule.
type Alert struct {
	Name        string
	Query       string // see Spelling.Expand
	For         string
	Severity    string // critical, warning or info
	Summary     string
	Description string
}

// each is what a value is about: the labels that are kept when receivers and resources are told apart. Labels that a
// Prometheus does not have, such as cluster, are simply missing.
const (
	eachReceiver = "by (cluster, namespace, pod, instance, receiver)"
	eachResource = "by (cluster, namespace, pod, instance, receiver, group, resource)"
)

// grown is true while a counter has grown within the window, also if it has a series only since then.
func grown(by, metric, selector, window string) string {
	return fmt.Sprintf("sum %s (increase(%s%s[%s])) > 0 or sum %s (%s%s unless %s%s offset %s) > 0",
		by, metric, selector, window, by, metric, selector, metric, selector, window)
}

// Alerts are all alerting rules.
var Alerts = []Alert{
	{
		Name: "K8sWatchlistNotReading", Severity: "critical", For: "5m",
		Query:       `sum ` + eachReceiver + ` ($readers{state=~"unreachable|refused|failing"}) > 0`,
		Summary:     "Resources that are not being read: {{ $value }}",
		Description: "The API server does not answer, refuses the requests, or its streams deliver nothing. The component status and the log name the resources and the cause.",
	},
	{
		Name: "K8sWatchlistForbidden", Severity: "warning", For: "15m",
		Query:       `sum ` + eachReceiver + ` ($readers{state="forbidden"}) > 0`,
		Summary:     "Resources that the receiver has no right to read: {{ $value }}",
		Description: "The component status and the log quote the RBAC rule to add.",
	},
	{
		Name: "K8sWatchlistNotServed", Severity: "warning", For: "15m",
		Query:       `sum ` + eachReceiver + ` ($readers{state="not_served"}) > 0`,
		Summary:     "Configured resources that the API server does not serve: {{ $value }}",
		Description: "Their CustomResourceDefinition or API server is missing, or the name is wrong.",
	},
	{
		Name: "K8sWatchlistStalled", Severity: "critical", For: "5m",
		Query:       `max ` + eachResource + ` ($last_progress) > 900`,
		Summary:     "Nothing was read of {{ $labels.resource }} for {{ $value | humanizeDuration }}",
		Description: "Not even a bookmark came, nor a list, although the resource should be read. If K8sWatchlistNotReading fires too, see there.",
	},
	{
		Name: "K8sWatchlistLagHigh", Severity: "warning", For: "10m",
		Query:       `histogram_quantile(0.99, sum by (le, cluster, namespace, pod, instance, receiver) (rate($lag_bucket[10m]))) > 60`,
		Summary:     "Changes reach the pipeline {{ $value | humanizeDuration }} late",
		Description: "One in a hundred live changes takes longer than that from the API server to the pipeline.",
	},
	{
		Name: "K8sWatchlistGap", Severity: "warning",
		Query:       grown(eachResource, "$gaps", `{reason!~"expired|resharded|scope_changed|takeover"}`, "15m"),
		Summary:     "There is a gap in the history of {{ $labels.resource }}",
		Description: "Only the net differences could be emitted. The gap record says between which times and versions.",
	},
	{
		Name: "K8sWatchlistMissedByWatch", Severity: "warning",
		Query:       grown(eachResource, "$relist_found", "", "1h"),
		Summary:     "The watch of {{ $labels.resource }} has missed changes",
		Description: "A relist found differences that the open watch had not delivered. The API server, or something before it, loses events.",
	},
	{
		Name: "K8sWatchlistDropping", Severity: "critical",
		Query:       grown(eachResource, "$records_dropped", "", "10m"),
		Summary:     "The pipeline refuses records of {{ $labels.resource }} permanently",
		Description: "They are dropped, and their objects are emitted again later. The log names them and the error.",
	},
	{
		Name: "K8sWatchlistPipelineRefuses", Severity: "warning", For: "10m",
		Query:       `sum ` + eachReceiver + ` (increase($consumer_retries[5m])) > 0`,
		Summary:     "The pipeline has been refusing records for ten minutes",
		Description: "They are sent again until it accepts them. Nothing is lost, but everything is late.",
	},
	{
		Name: "K8sWatchlistBackpressure", Severity: "warning", For: "10m",
		Query:       `max ` + eachReceiver + ` (max_over_time($queue_bytes[5m]) / $queue_limit_bytes) > 0.9`,
		Summary:     "The queue has been full for ten minutes",
		Description: "The pipeline is slower than the changes come, so streams are paused. Nothing is lost as long as the API server keeps the history.",
	},
	{
		Name: "K8sWatchlistUndecodable", Severity: "warning",
		Query:       grown(eachResource, "$undecodable_frames", "", "15m"),
		Summary:     "Watch events of {{ $labels.resource }} cannot be decoded",
		Description: "Something between the API server and the receiver damages the stream, or an aggregated API server sends what is no watch event.",
	},
	{
		Name: "K8sWatchlistRedactionFailed", Severity: "warning",
		Query:       grown(eachResource, "$redaction_failures", "", "15m"),
		Summary:     "Objects of {{ $labels.resource }} cannot be redacted",
		Description: "Only their identity is emitted.",
	},
	{
		Name: "K8sWatchlistCheckpointOld", Severity: "warning", For: "5m",
		Query:       `max ` + eachReceiver + ` ($checkpoint_age) > 300`,
		Summary:     "The checkpoints are {{ $value | humanizeDuration }} behind",
		Description: "The storage extension fails or does not answer. After a crash, everything since then would be repeated.",
	},
	{
		Name: "K8sWatchlistNoLeader", Severity: "critical", For: "2m",
		Query:       `max by (cluster, namespace, receiver) ($leader) == 0`,
		Summary:     "No replica of {{ $labels.receiver }} leads",
		Description: "Nothing is emitted. What happens meanwhile is emitted once a replica leads, as long as the API server keeps the history.",
	},
	{
		Name: "K8sWatchlistProgressOld", Severity: "warning", For: "5m",
		Query:       `max ` + eachReceiver + ` ($progress_age) > 60`,
		Summary:     "A replica has not published or read the progress for {{ $value | humanizeDuration }}",
		Description: "If it leads, a crash would repeat what was accepted since then. If it stands by, it does not know what was emitted since then.",
	},
	{
		Name: "K8sWatchlistThrottled", Severity: "info", For: "10m",
		Query:       `sum ` + eachReceiver + ` (rate($throttled{source="server"}[10m])) > 0.2`,
		Summary:     "The API server asks the receiver to wait",
		Description: "It is overloaded, or a flow schema gives the Collector too small a share.",
	},
}

const runbook = "https://github.com/k8swatchlist/k8swatchlistreceiver/blob/main/docs/troubleshooting.md#"

type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Rules returns a file with the alerting rules.
func Rules(metrics map[string]Metric, s Spelling) ([]byte, error) {
	group := ruleGroup{Name: "k8s_watchlist"}
	for _, a := range Alerts {
		query, err := s.Expand(a.Query, metrics)
		if err != nil {
			return nil, fmt.Errorf("alert %s: %w", a.Name, err)
		}
		group.Rules = append(group.Rules, rule{
			Alert: a.Name, Expr: query, For: a.For,
			Labels:      map[string]string{"severity": a.Severity},
			Annotations: map[string]string{"summary": a.Summary, "description": a.Description, "runbook_url": runbook + strings.ToLower(a.Name)},
		})
	}
	var text bytes.Buffer
	text.WriteString("# Alerts about the k8s_watchlist receiver. Made by `make monitoring`.\n")
	if s {
		text.WriteString("# For names of metrics with units and _total; rules.yaml is for names without.\n")
	} else {
		text.WriteString("# For names of metrics without units and _total, as the Collector's own endpoint has them by default;\n# rules-with-suffixes.yaml is for names with them.\n")
	}
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(ruleFile{[]ruleGroup{group}}); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
