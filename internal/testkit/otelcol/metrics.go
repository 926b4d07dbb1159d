// Package otelcol handles a Collector from outside: its configuration and its own metrics.
package otelcol

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are a Collector's own metrics at one moment.
type Metrics map[string]*dto.MetricFamily

// PullMetrics returns the value of service.telemetry.metrics with which ReadMetrics can read a Collector's metrics at
// the address.
func PullMetrics(address string) string {
	host, port, _ := net.SplitHostPort(address) // the Collector refuses a bad address
	return "{level: normal, readers: [{pull: {exporter: {prometheus: {host: " + host + ", port: " + port + "}}}}]}"
}

// readTimeout is longer than a busy Collector needs to answer.
const readTimeout = 5 * time.Second

// ReadMetrics reads the metrics of a Collector that was configured with PullMetrics.
func ReadMetrics(ctx context.Context, address string) (Metrics, error) {
	fail := func(err error) (Metrics, error) {
		return nil, fmt.Errorf("cannot read the metrics of the collector at %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return fail(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("it answers %s", response.Status))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fail(err)
	}
	return families, nil
}

// Sum returns the sum of a counter or gauge over the series with all the labels, given as alternating names and values.
// The suffix _total of a counter's name may be omitted.
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

// FreeAddress returns a host:port on loopback without a listener.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
