package harness

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is what a collector tells of itself at one moment.
type Metrics map[string]*dto.MetricFamily

// PullMetrics is the configuration of a collector, as it stands under service.telemetry.metrics, that lets its metrics
// be read at the address.
func PullMetrics(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return "{level: normal, readers: [{pull: {exporter: {prometheus: {host: " + host + ", port: " + port + "}}}}]}"
}

// ReadMetrics reads the metrics that a collector with PullMetrics tells.
func ReadMetrics(address string) (Metrics, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	return families, nil
}

// Sum is the sum of a counter or gauge over the series that have all the labels, which are names and values in turn.
func (m Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
	for _, family := range []string{name, name + "_total"} {
		for _, series := range m[family].GetMetric() {
			if hasLabels(series, labels) {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetUntyped().GetValue()
			}
		}
	}
	return sum
}

func hasLabels(series *dto.Metric, labels []string) bool {
	has := map[string]string{}
	for _, pair := range series.GetLabel() {
		has[pair.GetName()] = pair.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// FreeAddress is host:port on loopback where nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody uses it
	return l.Addr().String()
}
