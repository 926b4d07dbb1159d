package k8swatchlistreceiver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// TelemetryConfig configures the receiver's own metrics.
type TelemetryConfig struct {
	// Detailed adds the metrics that are useful only when something is examined: the sizes of records, and how often each
	// resource entered each state. Default: false.
	Detailed bool `mapstructure:"detailed"`

	// PerResourceLimit is how many resources have metrics of their own. The others share those with the resource _other.
	// Default: 200.
	PerResourceLimit int `mapstructure:"per_resource_limit"`

	_ struct{}
}

const (
	defaultPerResourceLimit = 200
	// otherResource is the resource of the metrics of all resources beyond the limit.
	otherResource = "_other"
	// countsLinger is how long the counts of a resource are kept after its last reader has ended, so that the last ones are
	// still collected.
	countsLinger = 15 * time.Minute
)

// telemetry turns the reports of the packages into the receiver's own metrics. Counts are kept here and collected at
// intervals, which costs less for each event than the instruments of the SDK do. Only histograms are recorded at once.
//
// Every measurement has the receiver's ID. Receivers of one Collector share its meter provider, in which gauge
// measurements with the same attributes overwrite each other.
type telemetry struct {
	cfg        TelemetryConfig
	builder    *metadata.TelemetryBuilder
	receiver   attribute.KeyValue
	attributes metric.MeasurementOption // for measurements without a resource
	record     []metric.RecordOption    // the same
	queueBytes atomic.Int64

	clientWait, serverWait atomic.Int64 // nanoseconds

	own counts // without a resource

	mu        sync.Mutex
	resources map[schema.GroupResource]*resourceTelemetry
	other     *resourceTelemetry // nil while there are fewer resources than the limit
}

func newTelemetry(builder *metadata.TelemetryBuilder, id component.ID, cfg TelemetryConfig) (*telemetry, error) {
	receiver := attribute.String("receiver", id.String())
	own := attribute.NewSet(receiver)
	t := &telemetry{
		cfg:        cfg,
		builder:    builder,
		receiver:   receiver,
		attributes: metric.WithAttributeSet(own),
		record:     []metric.RecordOption{metric.WithAttributeSet(own)},
		own:        counts{set: own},
		resources:  make(map[schema.GroupResource]*resourceTelemetry),
	}
	return t, t.register()
}

// register registers what is collected at intervals.
func (t *telemetry) register() error {
	b := t.builder
	var errs []error
	for m, register := range [metrics]func(metric.Int64Callback) error{
		checkpointWrites:    b.RegisterK8sWatchlistCheckpointWritesCallback,
		consumerRetries:     b.RegisterK8sWatchlistConsumerRetriesCallback,
		duplicatesDropped:   b.RegisterK8sWatchlistDuplicatesDroppedCallback,
		fencedBatches:       b.RegisterK8sWatchlistFencedBatchesCallback,
		framesOfAnotherKind: b.RegisterK8sWatchlistFramesOfAnotherKindCallback,
		gaps:                b.RegisterK8sWatchlistGapsCallback,
		kept:                b.RegisterK8sWatchlistKeptCallback,
		leaderTransitions:   b.RegisterK8sWatchlistLeaderTransitionsCallback,
		progressPublishes:   b.RegisterK8sWatchlistProgressPublishesCallback,
		paused:              b.RegisterK8sWatchlistPausedCallback,
		readerStates:        b.RegisterK8sWatchlistReaderStatesCallback,
		recordsDropped:      b.RegisterK8sWatchlistRecordsDroppedCallback,
		recordsExcluded:     b.RegisterK8sWatchlistRecordsExcludedCallback,
		recordsTruncated:    b.RegisterK8sWatchlistRecordsTruncatedCallback,
		recovered:           b.RegisterK8sWatchlistRecoveredCallback,
		redactionFailures:   b.RegisterK8sWatchlistRedactionFailuresCallback,
		redactions:          b.RegisterK8sWatchlistRedactionsCallback,
		relistFound:         b.RegisterK8sWatchlistRelistFoundCallback,
		relists:             b.RegisterK8sWatchlistRelistsCallback,
		requestErrors:       b.RegisterK8sWatchlistRequestErrorsCallback,
		streamsEnded:        b.RegisterK8sWatchlistStreamsEndedCallback,
		streamsOpened:       b.RegisterK8sWatchlistStreamsOpenedCallback,
		suppressed:          b.RegisterK8sWatchlistSuppressedCallback,
		undecodableFrames:   b.RegisterK8sWatchlistUndecodableFramesCallback,
	} {
		errs = append(errs, register(func(_ context.Context, o metric.Int64Observer) error {
			t.own.observe(metricIndex(m), o)
			t.each(func(r *resourceTelemetry) { r.observe(metricIndex(m), o) })
			return nil
		}))
	}
	perResource := func(observe func(*resourceTelemetry, metric.Int64Observer)) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			t.each(func(r *resourceTelemetry) { observe(r, o) })
			return nil
		}
	}
	return errors.Join(append(errs,
		b.RegisterK8sWatchlistQueueBytesCallback(t.gauge(t.queueBytes.Load)),
		b.RegisterK8sWatchlistThrottledCallback(t.observeThrottled),
		b.RegisterK8sWatchlistEventsCallback(perResource((*resourceTelemetry).observeEvents)),
		b.RegisterK8sWatchlistReceivedCallback(perResource((*resourceTelemetry).observeReceived)),
		b.RegisterK8sWatchlistRecordsAcceptedCallback(perResource((*resourceTelemetry).observeAccepted)),
		b.RegisterK8sWatchlistInventoryObjectsCallback(perResource((*resourceTelemetry).observeInventory)),
		b.RegisterK8sWatchlistInitialObjectsCallback(perResource((*resourceTelemetry).observeInitialObjects)),
		b.RegisterK8sWatchlistInitialDurationCallback(func(_ context.Context, o metric.Float64Observer) error {
			t.each(func(r *resourceTelemetry) { r.observeInitialDuration(o) })
			return nil
		}),
		b.RegisterK8sWatchlistLastProgressCallback(func(_ context.Context, o metric.Float64Observer) error {
			t.each(func(r *resourceTelemetry) { r.observeLastProgress(o) })
			return nil
		}),
	)...)
}

// gauge returns the callback of a gauge without a resource.
func (t *telemetry) gauge(value func() int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(value(), t.attributes)
		return nil
	}
}

// observeQueue begins to measure the queue.
func (t *telemetry) observeQueue(limit int, records func() int) error {
	return errors.Join(
		t.builder.RegisterK8sWatchlistQueueLimitBytesCallback(t.gauge(func() int64 { return int64(limit) })),
		t.builder.RegisterK8sWatchlistQueueRecordsCallback(t.gauge(func() int64 { return int64(records()) })),
	)
}

// observeReplica begins to measure a replica.
func (t *telemetry) observeReplica(leads func() bool, ready func() int, age func() time.Duration) error {
	return errors.Join(
		t.builder.RegisterK8sWatchlistLeaderCallback(t.gauge(func() int64 {
			if leads() {
				return 1
			}
			return 0
		})),
		t.builder.RegisterK8sWatchlistStandbyReadyCallback(t.gauge(func() int64 { return int64(ready()) })),
		t.builder.RegisterK8sWatchlistProgressAgeCallback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(age().Seconds(), t.attributes)
			return nil
		}),
	)
}

// observeDiffs begins to measure how much memory diffs use.
func (t *telemetry) observeDiffs(used func() int64) error {
	return t.builder.RegisterK8sWatchlistDiffBytesCallback(t.gauge(used))
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

// openCounter counts what is open to the API server.
type openCounter interface {
	Connections() int64
	Streams() int64
}

// observeOpen begins to measure what is open.
func (t *telemetry) observeOpen(open openCounter) error {
	return errors.Join(
		t.builder.RegisterK8sWatchlistOpenConnectionsCallback(t.gauge(open.Connections)),
		t.builder.RegisterK8sWatchlistOpenStreamsCallback(t.gauge(open.Streams)),
	)
}

// observeCheckpoints begins to measure how far checkpoints are behind what was accepted. each calls its argument with the
// age of every checkpoint.
func (t *telemetry) observeCheckpoints(each func(func(scope.Scope, time.Duration))) error {
	return t.builder.RegisterK8sWatchlistCheckpointAgeCallback(func(_ context.Context, o metric.Float64Observer) error {
		ages := make(map[*resourceTelemetry]time.Duration)
		each(func(of scope.Scope, age time.Duration) {
			r := t.of(of.GroupResource)
			ages[r] = max(ages[r], age)
		})
		for r, age := range ages {
			o.Observe(age.Seconds(), r.attributes)
		}
		return nil
	})
}

func (t *telemetry) observeThrottled(_ context.Context, o metric.Float64Observer) error {
	for source, waited := range map[string]*atomic.Int64{"client": &t.clientWait, "server": &t.serverWait} {
		o.Observe(time.Duration(waited.Load()).Seconds(), metric.WithAttributeSet(attribute.NewSet(t.receiver, attribute.String("source", source))))
	}
	return nil
}

// each calls f for every resource, and forgets those that have not been read for a while.
func (t *telemetry) each(f func(*resourceTelemetry)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, r := range t.resources {
		if !r.ended.IsZero() && time.Since(r.ended) > countsLinger {
			delete(t.resources, of)
			continue
		}
		f(r)
	}
	if t.other != nil {
		f(t.other)
	}
}

// begin returns the telemetry of a reader, which has to end it.
func (t *telemetry) begin(of scope.Scope) *readerTelemetry {
	t.mu.Lock()
	defer t.mu.Unlock()
	resource := t.ofLocked(of.GroupResource)
	reader := newReaderTelemetry(resource)
	resource.readers[of] = reader
	resource.ended = time.Time{}
	return reader
}

// end is called when a reader has ended. With the last one of a resource, its gauges end.
func (t *telemetry) end(of scope.Scope) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.ofLocked(of.GroupResource)
	delete(r.readers, of)
	if len(r.readers) == 0 {
		r.ended = time.Now()
	}
}

// of returns the telemetry of a resource.
func (t *telemetry) of(resource schema.GroupResource) *resourceTelemetry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ofLocked(resource)
}

func (t *telemetry) ofLocked(resource schema.GroupResource) *resourceTelemetry {
	if r, ok := t.resources[resource]; ok {
		return r
	}
	if len(t.resources) < t.cfg.PerResourceLimit {
		r := newResourceTelemetry(t, resource)
		r.ended = time.Now() // until it has a reader
		t.resources[resource] = r
		return r
	}
	if t.other == nil {
		t.other = newResourceTelemetry(t, schema.GroupResource{Resource: otherResource})
	}
	return t.other
}

// accepted counts changes that the next consumer has accepted.
func (t *telemetry) accepted(changes []watchlist.Change, isRecord func(*watchlist.Change) bool) {
	ctx, now := context.Background(), time.Now()
	var of *scope.Scope
	var r *resourceTelemetry
	for i := range changes {
		c := &changes[i]
		if !isRecord(c) {
			continue
		}
		if c.Scope != of {
			of, r = c.Scope, t.of(c.Scope.GroupResource)
		}
		r.accepted.Add(1)
		t.builder.K8sWatchlistDeliveryDelay.Record(ctx, max(0, now.Sub(c.ReadAt)).Seconds(), t.record...)
		if at := changedAt(c); !at.IsZero() {
			t.builder.K8sWatchlistLag.Record(ctx, max(0, now.Sub(at)).Seconds(), r.record...)
		}
		if t.cfg.Detailed && c.Type.IsOfObject() {
			t.builder.K8sWatchlistRecordSize.Record(ctx, int64(len(c.Object.JSON)), r.record...)
		}
	}
}

// changedAt returns the server's time of a live change, or zero if the object does not tell. That of a deletion is when
// it was requested, which may be long before. After that, nothing tells when an object was modified.
func changedAt(c *watchlist.Change) time.Time {
	times := &c.Object.Times
	switch {
	case c.Origin != watchlist.Live || !times.Deleted.IsZero():
	case c.Type == watchlist.Added && !c.Scope.Selective():
		return times.Created
	case c.Type == watchlist.Added, c.Type == watchlist.Modified:
		return times.Updated
	}
	return time.Time{}
}

// dropped counts records that the next consumer refused permanently.
func (t *telemetry) dropped(changes []watchlist.Change, _ error) {
	for i := range changes {
		t.of(changes[i].Scope.GroupResource).add(recordsDropped, "permanent")
	}
}

func (t *telemetry) retried() { t.own.add(consumerRetries, "") }

func (t *telemetry) queueChanged(delta int) { t.queueBytes.Add(int64(delta)) }

// wrote counts a write to the storage.
func (t *telemetry) wrote(took time.Duration, err error) {
	outcome := "complete"
	if err != nil {
		outcome = "failed"
	}
	t.own.add(checkpointWrites, outcome)
	t.builder.K8sWatchlistCheckpointWriteDuration.Record(context.Background(), took.Seconds(), t.record...)
}

// published counts a write of the progress.
func (t *telemetry) published(err error) {
	switch {
	case err == nil:
		t.own.add(progressPublishes, "complete")
	case takeover.IsConflict(err):
		t.own.add(progressPublishes, "conflict")
	default:
		t.own.add(progressPublishes, "failed")
	}
}

// leads counts that this replica leads, which took that long.
func (t *telemetry) leads(took time.Duration) {
	t.own.add(leaderTransitions, "leader")
	t.builder.K8sWatchlistTakeoverDuration.Record(context.Background(), took.Seconds(), t.record...)
}

// standsBy counts that this replica stands by.
func (t *telemetry) standsBy() { t.own.add(leaderTransitions, "standby") }

func (t *telemetry) fenced() { t.own.add(fencedBatches, "") }

// RequestFailed implements kubeclient.Observer.
func (t *telemetry) RequestFailed(verb, code string) { t.own.addBoth(requestErrors, verb, code) }

// RequestWaited implements kubeclient.Observer.
func (t *telemetry) RequestWaited(d time.Duration) { t.clientWait.Add(int64(d)) }

var _ kubeclient.Observer = (*telemetry)(nil)
