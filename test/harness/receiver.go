package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// Receiver is the receiver in this process, created by its factory as in a Collector.
type Receiver struct {
	*Consumer
	Log *Log

	telemetry *componenttest.Telemetry
	receiver  receiver.Logs
	stop      sync.Once
}

// shutdownTimeout is longer than the receiver's own drain timeout.
const shutdownTimeout = 30 * time.Second

// StartReceiver starts a receiver that ends with the test. The configuration is YAML, in the form below
// receivers.k8s_watchlist. A nil consumer accepts everything.
func StartReceiver(t testing.TB, yaml string, next *Consumer) *Receiver {
	t.Helper()
	if next == nil {
		next = &Consumer{}
	}
	if next.documented == nil {
		next.documented = newDocumented(t)
	}
	r := &Receiver{Consumer: next, Log: newLog(), telemetry: componenttest.NewTelemetry()}
	factory := k8swatchlistreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := otelcol.LoadConfig(yaml, config); err != nil {
		t.Fatalf("bad configuration: %v\n%s", err, yaml)
	}
	settings := receivertest.NewNopSettings(factory.Type())
	settings.TelemetrySettings = r.telemetry.NewTelemetrySettings()
	settings.Logger = r.Log.logger
	var err error
	if r.receiver, err = factory.CreateLogs(t.Context(), settings, config, next); err != nil {
		t.Fatal(err)
	}
	if err := r.receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Shutdown(t) })
	return r
}

// Shutdown stops the receiver, once.
func (r *Receiver) Shutdown(t testing.TB) {
	t.Helper()
	r.stop.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := r.receiver.Shutdown(ctx); err != nil {
			t.Errorf("cannot shut the receiver down: %v", err)
		}
		r.documented.report(t)
		if err := r.telemetry.Shutdown(ctx); err != nil {
			t.Errorf("cannot shut the receiver's telemetry down: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the receiver:\n%s", r.Log)
		}
	})
}

// Count returns the sum of a counter over the points with the attributes.
func (r *Receiver) Count(t testing.TB, name string, attributes ...attribute.KeyValue) int64 {
	t.Helper()
	metric, err := r.telemetry.GetMetric(name)
	if err != nil {
		return 0 // nothing was counted yet
	}
	sum, ok := metric.Data.(metricdata.Sum[int64])
	if !ok {
		t.Fatalf("%s is not a counter but a %T", name, metric.Data)
	}
	var total int64
	for _, point := range sum.DataPoints {
		if has(point.Attributes, attributes) {
			total += point.Value
		}
	}
	return total
}

// HasSeries reports whether a gauge has a series with the attributes.
func (r *Receiver) HasSeries(t testing.TB, name string, attributes ...attribute.KeyValue) bool {
	t.Helper()
	metric, err := r.telemetry.GetMetric(name)
	if err != nil {
		return false
	}
	switch data := metric.Data.(type) {
	case metricdata.Gauge[int64]:
		return slices.ContainsFunc(data.DataPoints, func(p metricdata.DataPoint[int64]) bool { return has(p.Attributes, attributes) })
	case metricdata.Sum[int64]:
		return slices.ContainsFunc(data.DataPoints, func(p metricdata.DataPoint[int64]) bool { return has(p.Attributes, attributes) })
	}
	t.Fatalf("%s is a %T", name, metric.Data)
	return false
}

func has(set attribute.Set, attributes []attribute.KeyValue) bool {
	for _, want := range attributes {
		if value, ok := set.Value(want.Key); !ok || value != want.Value {
			return false
		}
	}
	return true
}

// CompleteRelists returns how many relists have completed.
func (r *Receiver) CompleteRelists(t testing.TB) int64 {
	t.Helper()
	return r.Count(t, "otelcol_k8s_watchlist_relists", attribute.String("outcome", "complete"))
}

// Opened returns how many streams of a kind were opened: snapshot, list, resume or rotate.
func (r *Receiver) Opened(t testing.TB, kind string) int64 {
	t.Helper()
	return r.Count(t, "otelcol_k8s_watchlist_streams_opened", attribute.String("kind", kind))
}

// ShortRelistGate is the feature gate that lifts the minimum of relist.interval.
const ShortRelistGate = "receiver.k8swatchlist.shortRelist"

// AllowShortRelists opens that gate for the whole process.
func AllowShortRelists() error {
	if err := featuregate.GlobalRegistry().Set(ShortRelistGate, true); err != nil {
		return fmt.Errorf("cannot open the feature gate: %w", err)
	}
	return nil
}
