package k8swatchlistreceiver

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// resourceTelemetry counts for all readers of one resource together: one metric for each namespace would create as many
// series as there are namespaces.
type resourceTelemetry struct {
	counts
	telemetry  *telemetry
	attributes metric.MeasurementOption
	record     []metric.RecordOption

	events   [len(eventTypes)][len(origins)]atomic.Int64
	series   [len(eventTypes)][len(origins)]metric.MeasurementOption
	received atomic.Int64
	accepted atomic.Int64
	objects  atomic.Int64

	readers map[scope.Scope]*readerTelemetry // under telemetry.mu, as the rest
	ended   time.Time                        // when the last reader ended; zero: there is one
}

var (
	eventTypes = [...]string{"added", "modified", "deleted", "bookmark", "error", "unknown"}
	origins    = [...]string{"", watchlist.Initial: "initial", watchlist.Live: "live", watchlist.Relist: "relist", watchlist.Recovered: "recovered"}
)

// eventIndex returns the index in eventTypes.
func eventIndex(t watch.EventType) int {
	switch t {
	case watch.Added:
		return 0
	case watch.Modified:
		return 1
	case watch.Deleted:
		return 2
	case watch.Bookmark:
		return 3
	case watch.Error:
		return 4
	}
	return 5
}

func newResourceTelemetry(t *telemetry, resource schema.GroupResource) *resourceTelemetry {
	set := attribute.NewSet(t.receiver, attribute.String("group", resource.Group), attribute.String("resource", resource.Resource))
	r := &resourceTelemetry{
		counts:     counts{set: set},
		telemetry:  t,
		attributes: metric.WithAttributeSet(set),
		record:     []metric.RecordOption{metric.WithAttributeSet(set)},
		readers:    make(map[scope.Scope]*readerTelemetry),
	}
	for i, event := range eventTypes {
		for j, origin := range origins {
			all := append(set.ToSlice(), attribute.String("type", event), attribute.String("origin", origin))
			r.series[i][j] = metric.WithAttributeSet(attribute.NewSet(all...))
		}
	}
	return r
}

func (r *resourceTelemetry) observeEvents(o metric.Int64Observer) {
	for i := range r.events {
		for j := range r.events[i] {
			if n := r.events[i][j].Load(); n > 0 {
				o.Observe(n, r.series[i][j])
			}
		}
	}
}

func (r *resourceTelemetry) observeReceived(o metric.Int64Observer) {
	o.Observe(r.received.Load(), r.attributes)
}
func (r *resourceTelemetry) observeAccepted(o metric.Int64Observer) {
	o.Observe(r.accepted.Load(), r.attributes)
}

func (r *resourceTelemetry) observeInventory(o metric.Int64Observer) {
	if len(r.readers) > 0 {
		o.Observe(r.objects.Load(), r.attributes)
	}
}

func (r *resourceTelemetry) observeInitialObjects(o metric.Int64Observer) {
	objects, some := int64(0), false
	for _, reader := range r.readers {
		some = some || reader.initialBegan.Load() != 0
		objects += reader.initialObjects.Load()
	}
	if some {
		o.Observe(objects, r.attributes)
	}
}

func (r *resourceTelemetry) observeInitialDuration(o metric.Float64Observer) {
	longest := time.Duration(0)
	for _, reader := range r.readers {
		longest = max(longest, reader.initialDuration())
	}
	if longest > 0 {
		o.Observe(longest.Seconds(), r.attributes)
	}
}

func (r *resourceTelemetry) observeLastProgress(o metric.Float64Observer) {
	oldest, some := time.Duration(0), false
	for _, reader := range r.readers {
		switch watchlist.Condition(reader.state.Load()) {
		case watchlist.Forbidden, watchlist.NotServed, watchlist.Refused:
			continue // nothing can come
		case watchlist.Paused:
			continue // nothing is wanted: it is the pipeline that makes no progress
		}
		some = true
		oldest = max(oldest, time.Since(reader.began)-time.Duration(reader.lastProgress.Load()))
	}
	if some {
		o.Observe(oldest.Seconds(), r.attributes)
	}
}

// readerTelemetry is the telemetry of one reader.
type readerTelemetry struct {
	*resourceTelemetry
	began time.Time

	state          atomic.Uint32 // a watchlist.Condition
	lastProgress   atomic.Int64  // nanoseconds after began
	initialBegan   atomic.Int64  // the same; 0: not yet
	initialEnded   atomic.Int64
	initialObjects atomic.Int64
}

func newReaderTelemetry(r *resourceTelemetry) *readerTelemetry {
	return &readerTelemetry{resourceTelemetry: r, began: time.Now()}
}

func (r *readerTelemetry) initialDuration() time.Duration {
	from, to := time.Duration(r.initialBegan.Load()), time.Duration(r.initialEnded.Load())
	switch {
	case from == 0:
		return 0
	case to == 0:
		to = time.Since(r.began)
	}
	return to - from
}

// read counts an event.
func (r *readerTelemetry) read(event watch.EventType, origin watchlist.Origin) {
	i := eventIndex(event)
	r.events[i][origin].Add(1)
	if origin == watchlist.Initial && i <= 1 {
		r.initialObjects.Add(1)
	}
}

// stateChanged notes when the initial state is read.
func (r *readerTelemetry) stateChanged(to watchlist.Condition) {
	r.state.Store(uint32(to))
	at := int64(max(1, time.Since(r.began)))
	switch to {
	case watchlist.Initializing:
		r.initialBegan.CompareAndSwap(0, at)
	case watchlist.Reading, watchlist.Polling:
		if r.initialBegan.Load() != 0 {
			r.initialEnded.CompareAndSwap(0, at)
		}
	}
}

// readerObserver reports a reader's events to the telemetry of its resource and to the receiver's health.
type readerObserver struct {
	*readerTelemetry
	scope    scope.Scope
	optional bool // see watchlist.Options
	health   *health
}

var _ watchlist.Observer = readerObserver{}

func (o readerObserver) StreamOpened(kind string)     { o.add(streamsOpened, kind) }
func (o readerObserver) StreamEnded(reason string)    { o.add(streamsEnded, reason) }
func (o readerObserver) DuplicateDropped()            { o.add(duplicatesDropped, "") }
func (o readerObserver) Excluded(t watchlist.Type)    { o.add(recordsExcluded, excludedTypeName(t)) }
func (o readerObserver) ObjectCut()                   { o.add(recordsTruncated, "") }
func (o readerObserver) Suppressed(reason string)     { o.add(suppressed, reason) }
func (o readerObserver) FrameUndecodable()            { o.add(undecodableFrames, "") }
func (o readerObserver) FrameOfAnotherKind()          { o.add(framesOfAnotherKind, "") }
func (o readerObserver) Recovered()                   { o.add(recovered, "") }
func (o readerObserver) GapRecorded(reason string)    { o.add(gaps, reason) }
func (o readerObserver) Paused()                      { o.add(paused, "") }
func (o readerObserver) InventoryChanged(delta int)   { o.objects.Add(int64(delta)) }
func (o readerObserver) Throttled(wait time.Duration) { o.telemetry.serverWait.Add(int64(wait)) }

func (o readerObserver) EventRead(event watch.EventType, origin watchlist.Origin) {
	o.read(event, origin)
}

func (o readerObserver) Received(bytes int) {
	o.received.Add(int64(bytes))
	o.lastProgress.Store(int64(time.Since(o.began)))
}

func (o readerObserver) RelistEnded(outcome string, took time.Duration) {
	o.add(relists, outcome)
	if outcome == "complete" {
		o.telemetry.builder.K8sWatchlistRelistDuration.Record(context.Background(), took.Seconds(), o.telemetry.record...)
	}
}

func (o readerObserver) RelistFound(t watchlist.Type) {
	switch t {
	case watchlist.Deleted:
		o.add(relistFound, "deleted")
	case watchlist.Modified:
		o.add(relistFound, "modified")
	default:
		o.add(relistFound, "added")
	}
}

func (o readerObserver) StateChanged(s watchlist.State) {
	if o.telemetry.cfg.Detailed {
		o.add(readerStates, s.Condition.String())
	}
	o.stateChanged(s.Condition)
	o.health.reading(o.scope, s, o.optional)
}
