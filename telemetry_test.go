package k8swatchlistreceiver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadatatest"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// The receivers of a Collector share one meter provider, but each has its own series.
func TestMetricsOfTwoReceiversAreSeparate(t *testing.T) {
	provider := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	receiver := func(name string) *telemetry {
		builder, err := metadata.NewTelemetryBuilder(provider.NewTelemetrySettings())
		require.NoError(t, err)
		made, err := newTelemetry(builder, component.MustNewIDWithName("k8s_watchlist", name))
		require.NoError(t, err)
		return made
	}
	a, b := receiver("a"), receiver("b")
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	for made, n := range map[*telemetry]int{a: 100, b: 7} {
		made.queueChanged(n)
		require.NoError(t, made.observeOpen(openCounts(n)))
		readerObserver{resourceTelemetry: made.begin(pods.GroupResource)}.InventoryChanged(n)
		for range n {
			made.retried()
			made.dropped([]watchlist.Change{{Scope: &pods}}, assert.AnError)
			everyCount(readerObserver{resourceTelemetry: made.begin(pods.GroupResource)})
		}
		observer := newRedactionObserver(made.begin(pods.GroupResource))
		observer.Redacted(redact.RuleEnvironment, n)
		observer.Kept(n)
		for range n {
			observer.Failed()
		}
	}

	points := func(ofA, ofB int64, attributes ...attribute.KeyValue) []metricdata.DataPoint[int64] {
		of := func(id string, n int64) metricdata.DataPoint[int64] {
			all := append([]attribute.KeyValue{attribute.String("receiver", id)}, attributes...)
			return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(all...)}
		}
		return []metricdata.DataPoint[int64]{of("k8s_watchlist/a", ofA), of("k8s_watchlist/b", ofB)}
	}
	group, resource := attribute.String("group", ""), attribute.String("resource", "pods")
	with := func(key string) []attribute.KeyValue {
		return []attribute.KeyValue{group, resource, attribute.String(key, "x")}
	}
	when := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualK8sWatchlistQueueBytes(t, provider, points(100, 7), when)
	metadatatest.AssertEqualK8sWatchlistOpenConnections(t, provider, points(100, 7), when)
	metadatatest.AssertEqualK8sWatchlistOpenStreams(t, provider, points(1000, 70), when)
	metadatatest.AssertEqualK8sWatchlistConsumerRetries(t, provider, points(100, 7), when)
	metadatatest.AssertEqualK8sWatchlistInventoryObjects(t, provider, points(100, 7, group, resource), when)
	metadatatest.AssertEqualK8sWatchlistRecordsDropped(t, provider, points(100, 7, group, resource, attribute.String("reason", "permanent")), when)
	metadatatest.AssertEqualK8sWatchlistGaps(t, provider, points(100, 7, with("reason")...), when)
	metadatatest.AssertEqualK8sWatchlistSuppressed(t, provider, points(100, 7, with("reason")...), when)
	metadatatest.AssertEqualK8sWatchlistRelists(t, provider, points(100, 7, with("outcome")...), when)
	metadatatest.AssertEqualK8sWatchlistStreamsEnded(t, provider, points(100, 7, with("reason")...), when)
	metadatatest.AssertEqualK8sWatchlistStreamsOpened(t, provider, points(100, 7, with("kind")...), when)

	metadatatest.AssertEqualK8sWatchlistRedactions(t, provider, points(100, 7, group, resource, attribute.String("rule", "environment")), when)
	metadatatest.AssertEqualK8sWatchlistKept(t, provider, points(100, 7, group, resource), when)
	metadatatest.AssertEqualK8sWatchlistRedactionFailures(t, provider, points(100, 7, group, resource), when)

	// Every metric, also one that is added later, has the attribute.
	for name, sum := range sums(t, provider) {
		for _, id := range []string{"k8s_watchlist/a", "k8s_watchlist/b"} {
			assert.Contains(t, sum, id, name)
		}
		assert.Len(t, sum, 2, name)
	}

	a.builder.Shutdown()
	metadatatest.AssertEqualK8sWatchlistQueueBytes(t, provider, points(100, 7)[1:], when)
}

// openCounts is a number of connections, each with ten streams.
type openCounts int

func (n openCounts) Connections() int64 { return int64(n) }
func (n openCounts) Streams() int64     { return 10 * int64(n) }

func everyCount(o readerObserver) {
	o.StreamOpened("x")
	o.StreamEnded("x")
	o.DuplicateDropped()
	o.Suppressed("x")
	o.FrameUndecodable()
	o.Recovered()
	o.GapRecorded("x")
	o.RelistEnded("x")
	o.Paused()
}

// sums returns the sum of each metric by receiver ID, "" if it is missing.
func sums(t *testing.T, provider *componenttest.Telemetry) map[string]map[string]int64 {
	var all metricdata.ResourceMetrics
	require.NoError(t, provider.Reader.Collect(t.Context(), &all))
	found := map[string]map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			var points []metricdata.DataPoint[int64]
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				points = data.DataPoints
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			}
			if found[m.Name] == nil {
				found[m.Name] = map[string]int64{}
			}
			for _, p := range points {
				id, _ := p.Attributes.Value("receiver")
				found[m.Name][id.AsString()] += p.Value
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// Something is masked in most objects, so that counting it allocates nothing.
func TestCountingRedactionsAllocatesNothing(t *testing.T) {
	builder, err := metadata.NewTelemetryBuilder(componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	telemetry, err := newTelemetry(builder, component.MustNewID("k8s_watchlist"))
	require.NoError(t, err)
	observer := newRedactionObserver(telemetry.begin(schema.GroupResource{Resource: "pods"}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { observer.Redacted(redact.RuleEnvironment, 6) }))
}
