package k8swatchlistreceiver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

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
		made, err := newTelemetry(builder, component.MustNewIDWithName("k8s_watchlist", name), TelemetryConfig{PerResourceLimit: 10})
		require.NoError(t, err)
		return made
	}
	a, b := receiver("a"), receiver("b")
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	for made, n := range map[*telemetry]int{a: 100, b: 7} {
		made.queueChanged(n)
		require.NoError(t, made.observeOpen(openCounts(n)))
		readerObserver{readerTelemetry: made.begin(pods)}.InventoryChanged(n)
		for range n {
			made.retried()
			made.dropped([]watchlist.Change{{Scope: &pods}}, assert.AnError)
			everyCount(readerObserver{readerTelemetry: made.begin(pods)})
		}
		observer := redactionObserver{made.of(pods.GroupResource)}
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
	o.RelistEnded("x", 0)
	o.Paused()
}

// sums returns the sum of each metric by receiver ID, "" if it is missing.
func sums(t *testing.T, provider *componenttest.Telemetry) map[string]map[string]int64 {
	var all metricdata.ResourceMetrics
	require.NoError(t, provider.Reader.Collect(t.Context(), &all))
	found := map[string]map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if found[m.Name] == nil {
				found[m.Name] = map[string]int64{}
			}
			add := func(of attribute.Set, value int64) {
				id, _ := of.Value("receiver")
				found[m.Name][id.AsString()] += value
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, int64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, int64(p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, int64(p.Count))
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, int64(p.Count))
				}
			default:
				t.Errorf("%s has an unexpected type %T", m.Name, data)
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// What happens for each object or event allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	builder, err := metadata.NewTelemetryBuilder(componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	telemetry, err := newTelemetry(builder, component.MustNewID("k8s_watchlist"), TelemetryConfig{PerResourceLimit: 10})
	require.NoError(t, err)
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	reader := readerObserver{readerTelemetry: telemetry.begin(pods), scope: pods}
	observer := redactionObserver{reader.resourceTelemetry}
	changes := []watchlist.Change{{Scope: &pods, Type: watchlist.Added, Origin: watchlist.Live, ReadAt: time.Now()}}
	changes[0].Object.Times.Created = time.Now()
	count := func() {
		observer.Redacted(redact.RuleEnvironment, 6)
		observer.Kept(1)
		reader.Received(1000)
		reader.EventRead(watch.Added, watchlist.Live)
		reader.DuplicateDropped()
		reader.Suppressed("noop")
		reader.Excluded(watchlist.Modified)
		telemetry.accepted(changes, func(*watchlist.Change) bool { return true })
	}
	count()
	assert.Zero(t, testing.AllocsPerRun(100, count))
}

func telemetryOf(t *testing.T, cfg TelemetryConfig) (*telemetry, *componenttest.Telemetry) {
	provider := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	builder, err := metadata.NewTelemetryBuilder(provider.NewTelemetrySettings())
	require.NoError(t, err)
	made, err := newTelemetry(builder, component.MustNewID("k8s_watchlist"), cfg)
	require.NoError(t, err)
	return made, provider
}

// With thousands of resources, the number of series is bounded, and nothing is lost from the sums.
func TestResourcesBeyondTheLimitShareTheirMetrics(t *testing.T) {
	made, provider := telemetryOf(t, TelemetryConfig{PerResourceLimit: 2})
	for i := range 5 {
		of := scope.New(schema.GroupResource{Resource: fmt.Sprint("r", i)}, "", "", "")
		o := readerObserver{readerTelemetry: made.begin(of), scope: of}
		o.GapRecorded("expired")
		o.InventoryChanged(10)
		o.EventRead(watch.Added, watchlist.Live)
	}
	points := func(n int64, more ...attribute.KeyValue) []metricdata.DataPoint[int64] {
		var all []metricdata.DataPoint[int64]
		for resource, times := range map[string]int64{"r0": 1, "r1": 1, otherResource: 3} {
			attributes := append([]attribute.KeyValue{made.receiver, attribute.String("group", ""), attribute.String("resource", resource)}, more...)
			all = append(all, metricdata.DataPoint[int64]{Value: n * times, Attributes: attribute.NewSet(attributes...)})
		}
		return all
	}
	when := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualK8sWatchlistGaps(t, provider, points(1, attribute.String("reason", "expired")), when)
	metadatatest.AssertEqualK8sWatchlistInventoryObjects(t, provider, points(10), when)
	metadatatest.AssertEqualK8sWatchlistEvents(t, provider, points(1, attribute.String("type", "added"), attribute.String("origin", "live")), when)
}

// The last counts of a resource can be collected after it is gone, but not forever.
func TestCountsOfAResourceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, provider := telemetryOf(t, TelemetryConfig{PerResourceLimit: 2})
		pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
		o := readerObserver{readerTelemetry: made.begin(pods), scope: pods}
		o.GapRecorded("expired")
		made.end(pods)
		_, err := provider.GetMetric("otelcol_k8s_watchlist_gaps")
		require.NoError(t, err)
		_, err = provider.GetMetric("otelcol_k8s_watchlist_inventory_objects")
		require.Error(t, err, "gauges end at once")
		time.Sleep(countsLinger + time.Second)
		_, err = provider.GetMetric("otelcol_k8s_watchlist_gaps")
		require.Error(t, err)
	})
}

// The age of the progress is that of the reader which is furthest behind, but for those that are not to read anything, such
// as one whose stream is closed because the queue is full: K8sWatchlistStalled would blame the API server.
func TestLastProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, provider := telemetryOf(t, TelemetryConfig{PerResourceLimit: 2})
		in := func(namespace string) readerObserver {
			of := scope.New(schema.GroupResource{Resource: "pods"}, namespace, "", "")
			return readerObserver{readerTelemetry: made.begin(of), scope: of, health: newHealth(componenttest.NewNopHost())}
		}
		a, b := in("a"), in("b")
		time.Sleep(10 * time.Second)
		a.Received(1)
		b.Received(1)
		time.Sleep(20 * time.Second)
		b.Received(1)
		age := func() float64 {
			got, err := provider.GetMetric("otelcol_k8s_watchlist_last_progress")
			require.NoError(t, err)
			return got.Data.(metricdata.Gauge[float64]).DataPoints[0].Value
		}
		assert.InDelta(t, 20, age(), 0.001)
		a.StateChanged(watchlist.State{Condition: watchlist.Paused})
		assert.InDelta(t, 0, age(), 0.001)
		a.StateChanged(watchlist.State{Condition: watchlist.Reading})
		assert.InDelta(t, 20, age(), 0.001)
	})
}

func TestInitialStateIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, provider := telemetryOf(t, TelemetryConfig{PerResourceLimit: 2})
		pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
		o := readerObserver{readerTelemetry: made.begin(pods), scope: pods, health: newHealth(componenttest.NewNopHost())}
		duration := func() float64 {
			got, err := provider.GetMetric("otelcol_k8s_watchlist_initial_duration")
			require.NoError(t, err)
			return got.Data.(metricdata.Gauge[float64]).DataPoints[0].Value
		}
		o.StateChanged(watchlist.State{Condition: watchlist.Initializing})
		time.Sleep(3 * time.Second)
		o.EventRead(watch.Added, watchlist.Initial)
		assert.InDelta(t, 3, duration(), 0.001)
		time.Sleep(4 * time.Second)
		o.StateChanged(watchlist.State{Condition: watchlist.Reading})
		time.Sleep(time.Hour)
		assert.InDelta(t, 7, duration(), 0.001)
		metadatatest.AssertEqualK8sWatchlistInitialObjects(t, provider, []metricdata.DataPoint[int64]{{
			Value: 1, Attributes: attribute.NewSet(made.receiver, attribute.String("group", ""), attribute.String("resource", "pods")),
		}}, metricdatatest.IgnoreTimestamp())
	})
}

// The lag is that of live changes whose time the object tells.
func TestChangedAt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := func(want time.Time, typ watchlist.Type, origin watchlist.Origin, times redact.Times, selector string) {
		t.Helper()
		of := scope.New(schema.GroupResource{Resource: "pods"}, "", selector, "")
		assert.Equal(t, want, changedAt(&watchlist.Change{Scope: &of, Type: typ, Origin: origin, Object: redact.Object{Times: times}}))
	}
	created, updated := redact.Times{Created: at}, redact.Times{Created: at, Updated: at.Add(time.Hour)}
	f(at, watchlist.Added, watchlist.Live, created, "")
	f(at, watchlist.Added, watchlist.Live, updated, "")
	f(at.Add(time.Hour), watchlist.Added, watchlist.Live, updated, "team=web")
	f(at.Add(time.Hour), watchlist.Modified, watchlist.Live, updated, "")
	f(time.Time{}, watchlist.Modified, watchlist.Live, created, "")
	f(time.Time{}, watchlist.Deleted, watchlist.Live, updated, "")
	f(time.Time{}, watchlist.Modified, watchlist.Live, redact.Times{Updated: at, Deleted: at}, "")
	f(time.Time{}, watchlist.Added, watchlist.Recovered, created, "")
}
