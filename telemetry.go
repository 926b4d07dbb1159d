package k8swatchlistreceiver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// telemetry turns the reports of the packages into the receiver's own metrics.
//
// Every measurement has the receiver's ID. Receivers of one Collector share its meter provider, in which gauge
// measurements with the same attributes overwrite each other.
type telemetry struct {
	builder    *metadata.TelemetryBuilder
	receiver   attribute.KeyValue
	attributes metric.MeasurementOption // for measurements without a resource
	queueBytes atomic.Int64

	mu        sync.Mutex
	resources map[schema.GroupResource]*resourceTelemetry // that are being read
}

func newTelemetry(builder *metadata.TelemetryBuilder, id component.ID) (*telemetry, error) {
	receiver := attribute.String("receiver", id.String())
	t := &telemetry{
		builder:    builder,
		receiver:   receiver,
		attributes: metric.WithAttributeSet(attribute.NewSet(receiver)),
		resources:  make(map[schema.GroupResource]*resourceTelemetry),
	}
	return t, errors.Join(
		builder.RegisterK8sWatchlistQueueBytesCallback(t.observeQueue),
		builder.RegisterK8sWatchlistInventoryObjectsCallback(t.observeInventories),
	)
}

// observeDiffs begins to measure how much memory diffs use.
func (t *telemetry) observeDiffs(used func() int64) error {
	return t.builder.RegisterK8sWatchlistDiffBytesCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(used(), t.attributes)
		return nil
	})
}

// openCounter counts what is open to the API server.
type openCounter interface {
	Connections() int64
	Streams() int64
}

// observeStates begins to measure how many resources are in each state.
func (t *telemetry) observeStates(states func() map[watchlist.Condition]int64) error {
	var attributes []metric.MeasurementOption
	for _, condition := range watchlist.Conditions() {
		attributes = append(attributes, metric.WithAttributeSet(attribute.NewSet(t.receiver, attribute.String("state", condition.String()))))
	}
	return t.builder.RegisterK8sWatchlistReadersCallback(func(_ context.Context, o metric.Int64Observer) error {
		counts := states()
		for _, condition := range watchlist.Conditions() {
			o.Observe(counts[condition], attributes[condition])
		}
		return nil
	})
}

// observeOpen begins to measure what is open.
func (t *telemetry) observeOpen(open openCounter) error {
	observe := func(count func() int64) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(count(), t.attributes)
			return nil
		}
	}
	return errors.Join(
		t.builder.RegisterK8sWatchlistOpenConnectionsCallback(observe(open.Connections)),
		t.builder.RegisterK8sWatchlistOpenStreamsCallback(observe(open.Streams)),
	)
}

func (t *telemetry) observeQueue(_ context.Context, o metric.Int64Observer) error {
	o.Observe(t.queueBytes.Load(), t.attributes)
	return nil
}

func (t *telemetry) observeInventories(_ context.Context, o metric.Int64Observer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.resources {
		o.Observe(r.objects.Load(), r.attributes)
	}
	return nil
}

// resourceTelemetry counts for all readers of one resource together: one metric for each namespace would create as many
// series as there are namespaces.
type resourceTelemetry struct {
	*metadata.TelemetryBuilder
	set        attribute.Set
	attributes metric.MeasurementOption
	objects    atomic.Int64
	readers    int // under telemetry.mu
}

// begin returns the telemetry of a resource for another of its readers, which has to end it.
func (t *telemetry) begin(resource schema.GroupResource) *resourceTelemetry {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.resources[resource]
	if !ok {
		found = t.unread(resource)
		t.resources[resource] = found
	}
	found.readers++
	return found
}

// end is called when a reader of the resource has ended. With the last one, its gauges end.
func (t *telemetry) end(resource schema.GroupResource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.resources[resource]
	if found == nil {
		return
	}
	if found.readers--; found.readers == 0 {
		delete(t.resources, resource)
	}
}

// of returns the telemetry of a resource for a single measurement.
func (t *telemetry) of(resource schema.GroupResource) *resourceTelemetry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.resources[resource]; ok {
		return found
	}
	return t.unread(resource)
}

func (t *telemetry) unread(resource schema.GroupResource) *resourceTelemetry {
	set := attribute.NewSet(t.receiver, attribute.String("group", resource.Group), attribute.String("resource", resource.Resource))
	return &resourceTelemetry{TelemetryBuilder: t.builder, set: set, attributes: metric.WithAttributeSet(set)}
}

func (r *resourceTelemetry) add(counter metric.Int64Counter) {
	counter.Add(context.Background(), 1, r.attributes)
}

func (r *resourceTelemetry) addWith(counter metric.Int64Counter, key, value string) {
	counter.Add(context.Background(), 1, r.attributes, metric.WithAttributes(attribute.String(key, value)))
}

// readerObserver reports a reader's events to the telemetry of its resource and to the receiver's health.
type readerObserver struct {
	*resourceTelemetry
	scope    scope.Scope
	optional bool // see watchlist.Options
	health   *health
}

func (o readerObserver) StreamOpened(kind string) {
	o.addWith(o.K8sWatchlistStreamsOpened, "kind", kind)
}
func (o readerObserver) StreamEnded(reason string) {
	o.addWith(o.K8sWatchlistStreamsEnded, "reason", reason)
}
func (o readerObserver) DuplicateDropped() { o.add(o.K8sWatchlistDuplicatesDropped) }
func (o readerObserver) Excluded(t watchlist.Type) {
	o.addWith(o.K8sWatchlistRecordsExcluded, "type", excludedTypeName(t))
}
func (o readerObserver) ObjectCut() { o.add(o.K8sWatchlistRecordsTruncated) }
func (o readerObserver) Suppressed(reason string) {
	o.addWith(o.K8sWatchlistSuppressed, "reason", reason)
}
func (o readerObserver) FrameUndecodable()         { o.add(o.K8sWatchlistUndecodableFrames) }
func (o readerObserver) FrameOfAnotherKind()       { o.add(o.K8sWatchlistFramesOfAnotherKind) }
func (o readerObserver) Recovered()                { o.add(o.K8sWatchlistRecovered) }
func (o readerObserver) GapRecorded(reason string) { o.addWith(o.K8sWatchlistGaps, "reason", reason) }
func (o readerObserver) RelistEnded(outcome string) {
	o.addWith(o.K8sWatchlistRelists, "outcome", outcome)
}
func (o readerObserver) Paused()                    { o.add(o.K8sWatchlistPaused) }
func (o readerObserver) InventoryChanged(delta int) { o.objects.Add(int64(delta)) }
func (o readerObserver) StateChanged(s watchlist.State) {
	o.addWith(o.K8sWatchlistReaderStates, "state", s.Condition.String())
	o.health.reading(o.scope, s, o.optional)
}

// dropped counts records that the next consumer refused permanently.
func (t *telemetry) dropped(changes []watchlist.Change, _ error) {
	for i := range changes {
		t.of(changes[i].Scope.GroupResource).addWith(t.builder.K8sWatchlistRecordsDropped, "reason", "permanent")
	}
}

func (t *telemetry) retried() {
	t.builder.K8sWatchlistConsumerRetries.Add(context.Background(), 1, t.attributes)
}

func (t *telemetry) queueChanged(delta int) { t.queueBytes.Add(int64(delta)) }
