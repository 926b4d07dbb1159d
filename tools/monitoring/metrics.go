package main

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// prefix is what the Collector's names of the receiver's metrics begin with.
const prefix = "otelcol_k8s_watchlist_"

// Metric is a metric of metadata.yaml.
type Metric struct {
	Unit      string
	Kind      string          // sum, gauge or histogram
	Labels    map[string]bool // as they are exposed
	LabelsAre map[string][]string
}

// ReadMetrics reads the metrics of metadata.yaml, by name without the prefix.
func ReadMetrics(path string) (map[string]Metric, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Attributes map[string]struct {
			NameOverride string   `yaml:"name_override"`
			Enum         []string `yaml:"enum"`
		} `yaml:"attributes"`
		Telemetry struct {
			Metrics map[string]struct {
				Unit       string    `yaml:"unit"`
				Sum        *struct{} `yaml:"sum"`
				Histogram  *struct{} `yaml:"histogram"`
				Attributes []string  `yaml:"attributes"`
			} `yaml:"metrics"`
		} `yaml:"telemetry"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	metrics := map[string]Metric{}
	for name, m := range file.Telemetry.Metrics {
		metric := Metric{Unit: m.Unit, Kind: "gauge", Labels: map[string]bool{}, LabelsAre: map[string][]string{}}
		switch {
		case m.Sum != nil:
			metric.Kind = "sum"
		case m.Histogram != nil:
			metric.Kind = "histogram"
		}
		for _, attribute := range m.Attributes {
			label := attribute
			if other := file.Attributes[attribute].NameOverride; other != "" {
				label = other
			}
			metric.Labels[label] = true
			metric.LabelsAre[label] = file.Attributes[attribute].Enum
		}
		metrics[strings.TrimPrefix(name, "k8s_watchlist_")] = metric
	}
	return metrics, nil
}

// Spelling is how a Prometheus endpoint of the Collector spells names.
type Spelling bool

// Spellings are both: without suffixes (without_units and without_type_suffix), and with the unit and _total.
var Spellings = []Spelling{false, true}

// Suffix is that of the names of files.
func (s Spelling) Suffix() string {
	if s {
		return "-with-suffixes"
	}
	return ""
}

// Name returns how a metric is spelled.
func (s Spelling) Name(name string, m Metric) string {
	full := prefix + name
	if !s {
		return full
	}
	if unit := map[string]string{"s": "_seconds", "By": "_bytes"}[m.Unit]; !strings.HasSuffix(full, unit) {
		full += unit
	}
	if m.Kind == "sum" {
		full += "_total"
	}
	return full
}

// Expand replaces each $name of a query by the metric of that name. For a histogram, $name_bucket, $name_sum and
// $name_count are its parts. $__ and the variables of the dashboard are left alone.
func (s Spelling) Expand(query string, metrics map[string]Metric) (string, error) {
	var unknown []string
	expanded := os.Expand(query, func(name string) string {
		if strings.HasPrefix(name, "__") || variables[name] {
			return "$" + name
		}
		part := ""
		if _, ok := metrics[name]; !ok {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, found := strings.CutSuffix(name, suffix); found {
					name, part = base, suffix
				}
			}
		}
		m, ok := metrics[name]
		if !ok || (m.Kind == "histogram") != (part != "") {
			unknown = append(unknown, name)
		}
		return s.Name(name, m) + part
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("%q names metrics that do not exist: %s", query, strings.Join(unknown, ", "))
	}
	return expanded, nil
}

// variables are those of the dashboard.
var variables = map[string]bool{"datasource": true, "receiver": true, "resource": true}

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }
