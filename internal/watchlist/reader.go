// Package watchlist reads Kubernetes resources. A [Reader] follows one resource through every fault of the server, the
// network and the consumer, and emits each change once and in order.
package watchlist

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Emitter accepts the changes that a reader finds.
type Emitter interface {
	// Offer accepts the change, or returns false if the queue is full. It never blocks.
	Offer(Change) bool
	// WaitForRoom waits until it makes sense to offer again, and returns ctx's error if that comes first.
	WaitForRoom(ctx context.Context) error
}

// Options describe what a reader reads, and with what.
type Options struct {
	Scope     scope.Scope
	API       scope.API
	Knowledge *Knowledge // shared by all readers of the resource; nil: the reader has its own
	Plan      *redact.Plan
	Opener    Opener
	Emitter   Emitter

	// Served reports whether the server serves the resource at all. It is called after a 404.
	Served func(context.Context) (bool, error)
	// Missing asks which verbs are missing to read the scope. It is called after a 403, which its log entry waits for. If
	// that is unknown it returns nil. May be nil.
	Missing func(context.Context) []string
	// SnapshotSlots bounds the concurrent snapshots of all readers that share it, which are those of one server.
	SnapshotSlots *Slots
	Rank          Rank // of the reader's snapshots among those of the others
	// Now is the wall clock for the times in records. Timers use the time package's monotonic clock.
	Now func() time.Time

	RelistInterval time.Duration // mean time between relists; 0 is never
	RotateInterval time.Duration // mean time between rotations; 0 is never
	// QuietInterval is the mean time after which a silent stream without bookmarks is compared; 0 is never.
	QuietInterval time.Duration
	EmitSnapshots bool // a relist emits every object, not only what differs
	SkipInitial   bool // only changes are emitted, not the initial state
	SuppressNoop  bool // a version of an object is not emitted if it has the content that was emitted last
	OmitDeletions bool // deletions are not emitted: the objects are observations that expire
	// DedupInterval is the time within which only the first and the last state of an object are emitted; 0 is off.
	DedupInterval time.Duration
	Holding       *Holding // bounds the states held back in all readers that share it; nil holds none back
	// Diffs bounds the last states that all readers keep, with which they find what changed. nil: this one keeps none.
	Diffs *diff.Budget
	// Optional means that the resource is read only if the rights allow it: if they are missing, that is no fault, and
	// the server is asked again rarely.
	Optional bool
	// UntilGone makes Run return when the server no longer serves the resource and the deletions of its objects were
	// emitted. Otherwise the reader waits until the resource is served again.
	UntilGone bool

	// Exclude are the types whose changes do not become records. They move the position and the checkpoint as others do.
	Exclude TypeSet
	// Fit, unless nil, gives the object of a change the form in which it is queued. If it was too large, it sets Cut.
	Fit func(*Change)

	// Selected are the namespaces whose labels match, if the scope selects namespaces by their labels; see also Select.
	Selected SelectedNamespaces

	// Restore returns the checkpoint of an earlier reader of the scope: it calls add for each object and then returns
	// the progress. The pointer is the Scope of all changes of this reader. After an error the reader starts as if there
	// were no checkpoint. If Restore is set, the reader also emits changes that are not records (see [Change.IsRecord]),
	// from which the checkpoint is updated.
	Restore func(ctx context.Context, reader *scope.Scope, add func(Stored)) (Progress, error)
	// EmitLast is called when Run returns, with a change of type Ended. It must not refuse it. nil: nobody needs it.
	EmitLast func(Change)

	Observer Observer
	// StartSpan starts a span about what the reader does. nil: nobody traces it.
	StartSpan func(ctx context.Context, name string, attributes ...attribute.KeyValue) trace.Span
	Logger    *zap.Logger
	Crowd     *Crowd // shared with other readers; nil: this one logs for itself, without progress
}

const (
	// watchTimeout is the timeout requested from the server, which includes the initial events.
	// https://github.com/kubernetes/kubernetes/issues/134837
	watchTimeout = time.Hour

	// A bookmark comes about once a minute. https://github.com/kubernetes/kubernetes/pull/90249
	silenceLimit       = 150 * time.Second
	resumeSilenceLimit = 120 * time.Second

	// endMarkerTimeout bounds how long a snapshot may be silent once the server has begun to answer. endlessTimeout
	// bounds how long events that look like those of an ordinary watch may come instead of the end marker. A snapshot
	// that makes progress may take as long as it needs.
	endMarkerTimeout = 30 * time.Second
	endlessTimeout   = 15 * time.Minute
	// slowAnswer is the time after which a server that has not begun to answer is reported. The client gives up later.
	slowAnswer = 30 * time.Second
	// pollInterval is the time between snapshots of what cannot be watched.
	pollInterval = 5 * time.Minute

	// A server closes a watcher that keeps it waiting, but its buffers allow a short wait.
	liveEmitTimeout     = time.Second
	snapshotEmitTimeout = 30 * time.Second

	shortLife           = 2 * time.Second
	steadyLife          = 10 * time.Second
	lagTimeout          = time.Minute
	behindMemory        = 10 * time.Minute // after which it no longer matters that a server was behind
	parkInterval        = 5 * time.Minute
	servedCheckInterval = 30 * time.Second

	// unverifiedInterval is the minimum time between comparisons if watches without bookmarks end without an error.
	unverifiedInterval = 5 * time.Minute

	maxIncompleteSnapshots = 3
	maxFailedLists         = 3
	maxMarkersNoVersion    = 2
	maxInternalErrors      = 5
	maxShortEmptyStreams   = 3
	maxUnexpectedErrors    = 3
	maxFailedRelists       = 3
	maxRefusedVersions     = 2
)

// Reader reads one scope. Its state is the position: everything up to it has been emitted. All of it belongs to the
// goroutine that calls Run.
type Reader struct {
	Options

	position  position
	inventory *inventory
	lastKnown time.Time    // when the reader was last up to date with the server
	verified  verification // the last complete comparison

	// deletedAhead holds objects whose deletion was emitted from a snapshot before the position reached it.
	deletedAhead map[Key]version

	namespaces *namespaceFilter // nil: the objects of every namespace are emitted
	selection  selection        // not yet processed

	doubted  doubted      // objects that the last snapshots lacked, unconfirmed
	initial  snapshotSet  // the set of Snapshot changes of the first snapshot
	sendsSet bool         // a set of Snapshot changes is being sent beside the live stream
	lost     *lostHistory // nil: nothing has to be recovered
	server   serverView
	faults   faults
	schedule schedule
	state    State
	begun    bool // it was logged that the resource is read
	pauses   pauses
	gone     bool // see UntilGone

	succession succession

	storage lateStorage
	// unverified is set while the inventory has not been compared with the server since it was restored.
	unverified bool
	// outdated is set from a restore until a comparison is complete: in the meantime the inventory may hold an older
	// content of an object than was emitted last. See isNoopOfSnapshot.
	outdated bool

	drops  drops  // not yet processed
	denial denial // not yet reported
	sets   sentSets

	removed context.Context // ends with remove
	remove  context.CancelFunc

	apis chan scope.API // receives the API version or kind in which the server now serves the resource

	dedup      *dedup            // nil: every state is emitted
	divider    divider           // who leaves out the objects of other shards
	lastStates *diff.States[Key] // nil: without diffs

	backoff *backoff.ExponentialBackOff
	slow    *backoff.ExponentialBackOff // for errors that a person has to correct
}

// verification is a complete comparison: the version and time of its snapshot.
type verification struct {
	version version
	at      time.Time
}

// serverView is this reader's view of the server; what is true for all readers of the resource is in Knowledge.
type serverView struct {
	historyReset bool          // versions are lower than before: they can only be compared for equality
	behindSince  time.Time     // since when the server has been behind the position
	behindSeen   time.Time     // when that was last seen
	freshNext    bool          // the next stream should use a new connection
	mute         int           // watches in a row that were open for a long time and delivered nothing
	missedByMute bool          // a comparison found changes that they should have delivered
	unanswered   int           // watches in a row that were not answered
	streamLife   time.Duration // of the last stream that the server ended normally
	listNext     bool          // the next snapshot should be a LIST, whatever Knowledge says

	quiet       time.Duration // total time for which consecutive streams have been silent
	quietChecks int           // comparisons for that reason that found nothing

	aliveUntil time.Time // when the last quiet stream was cut, having been alive until then
	recoveries int       // from expired history, since the last live event or bookmark
	futile     int       // consecutive ones that found the server no further than the position
}

// faults counts failures since the last success of their kind.
type faults struct {
	incompleteSnapshots int // streamed ones that ended before the end marker
	failedLists         int
	markersNoVersion    int // end markers without a version
	internalErrors      int // before the end marker
	badSnapshots        int // snapshots with objects that cannot be decoded
	shortEmptyStreams   int
	unexpectedErrors    int // in live streams
	badFrames           int // at the position badFramesAt
	badFramesAt         version
	failedRelists       int
	refusedVersions     int // refused watches from the position
	fruitless           int // streams that ended without progress
}

// schedule holds when periodic work is next due; zero is never.
type schedule struct {
	relist        time.Time
	relistObjects bool // the last relist found missed objects, and the next one has to fetch them
	redelivery    redelivery
	rotate        time.Time
	quiet         time.Time // the comparison of a quiet stream without bookmarks
	lastSnapshot  time.Time
}

// NewReader returns a reader that has read nothing yet.
func NewReader(o Options) *Reader {
	if o.Observer == nil {
		o.Observer = NopObserver{}
	}
	if o.SnapshotSlots == nil {
		o.SnapshotSlots = NewSlots(1)
	}
	if o.Knowledge == nil {
		o.Knowledge = NewKnowledge(o.Scope.GroupResource, false)
	}
	removed, remove := context.WithCancel(context.Background())
	r := &Reader{
		removed:      removed,
		remove:       remove,
		Options:      o,
		inventory:    newInventory(),
		deletedAhead: make(map[Key]version),
		apis:         make(chan scope.API, 1),
		drops:        drops{signal: make(chan struct{}, 1)},
		selection:    selection{signal: make(chan struct{}, 1)},
		backoff:      retry.NewBackoff(800*time.Millisecond, 30*time.Second),
		slow:         retry.NewBackoff(10*time.Second, time.Minute),
		namespaces:   newNamespaceFilter(o.Scope, o.Selected),
	}
	if o.DedupInterval > 0 {
		r.dedup = newDedup(&r.Options)
		r.Emitter = r.dedup
	}
	if o.Diffs != nil {
		r.lastStates = diff.NewStates[Key](o.Diffs)
	}
	return r
}

// owns reports whether the reader emits the object. It guards everything that enters the inventory or the queue.
func (r *Reader) owns(id redact.Identity) bool {
	return r.selects(id.Namespace) && r.Scope.Shard.Owns(id.UID, id.Namespace)
}

// Run reads until ctx ends; see also Options.UntilGone and Remove. No other fault of the server ends it.
func (r *Reader) Run(ctx context.Context) {
	defer func() {
		r.Observer.InventoryChanged(-r.inventory.len())
		if r.EmitLast != nil {
			r.EmitLast(Change{Scope: &r.Scope, Type: Ended})
		}
	}()
	if r.dedup != nil {
		defer r.dedup.start(ctx)()
	}
	if r.lastStates != nil {
		defer r.lastStates.Clear()
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.removed, cancel)()
	r.restore(reading)
	for reading.Err() == nil && !r.gone {
		end := r.readOnce(reading)
		if reading.Err() == nil {
			r.react(reading, end)
		}
	}
	if ctx.Err() == nil && !r.gone {
		r.setState(NotServed, errRemoved)
		r.sweepRemoved(ctx)
	}
}

// Remove makes Run emit the deletion of every object and return, because the definition of the resource was deleted. If
// the resource is served again, it is another one. It is safe for concurrent use.
func (r *Reader) Remove() { r.remove() }

// ending describes how and why reading stopped.
type ending struct {
	err      error
	snapshot bool // before the snapshot was complete
	listed   bool // that snapshot was a LIST
	opened   bool // the server had begun to answer
	frames   int
	lived    time.Duration // since the server began to answer
}

// readOnce opens a stream and reads it to its end. If there is no position, or the history since it is lost, it first
// takes a snapshot. Then it follows the changes from the position on.
func (r *Reader) readOnce(ctx context.Context) ending {
	r.noteDrops()
	if err := r.followSelection(ctx); err != nil {
		return ending{err: err}
	}
	var s *stream
	if !r.position.none() && r.lost == nil && r.Knowledge.isHistoryGone(r.position.rv) {
		r.historyExpired() // another request would be futile
	}
	if r.succession.filling && r.lost != nil && !r.lost.ask {
		if err := r.beginAnew(ctx); err != nil {
			return ending{err: err}
		}
	}
	if r.isToSendAnew() {
		r.sendAnew()
	}
	if r.position.none() || r.lost != nil && !r.lost.ask {
		began := time.Now()
		var err error
		if s, err = r.takeSnapshot(ctx); err != nil {
			end := ending{err: err, snapshot: true, lived: time.Since(began)}
			if s != nil {
				end.listed, end.opened, end.frames = s.listed, s.opened, s.frames
			}
			return end
		}
	}
	if r.polls() {
		if s != nil {
			s.close()
		}
		if r.storage.isReady() {
			if err := r.restoreLate(ctx); err != nil {
				return ending{err: err}
			}
		}
		return r.waitForPoll(ctx)
	}
	if s != nil {
		s.reach(r.position.rv)
	} else {
		if r.lost != nil {
			r.compareBeside()
		}
		r.divider.begin()
		s = openStream(ctx, r.Opener, r.resumeRequest())
		r.Observer.StreamOpened("resume")
	}
	return r.follow(ctx, s)
}

// polls reports whether only snapshots at intervals are possible.
func (r *Reader) polls() bool { return r.Knowledge.polls() || r.position.unversioned() }

// SetAPI makes the reader continue with the API version and kind in which the server now serves the resource. Objects
// and their resourceVersions are the same in every API version, so nothing is emitted twice and nothing is lost. It is
// safe for concurrent use.
func (r *Reader) SetAPI(api scope.API) {
	for {
		select {
		case r.apis <- api:
			return
		case <-r.apis: // not read yet, and now out of date
		}
	}
}

// followAPI makes the following requests use the API that was last set.
func (r *Reader) followAPI() {
	select {
	case api := <-r.apis:
		r.useAPI(api)
	default:
	}
}

// useAPI sets the API and reports whether it differs from the previous one.
func (r *Reader) useAPI(api scope.API) (changed bool) {
	if api == r.API {
		return false
	}
	r.Logger.Info("resource is served in another version, continuing with it", append(r.fields(nil), zap.String("new_version", api.Version))...)
	r.API = api
	return true
}

func (r *Reader) resumeRequest() Request {
	r.followAPI()
	req := Request{
		Scope:           r.Scope,
		API:             r.API,
		ResourceVersion: r.position.resumeVersion(r.Knowledge.lacksBookmarks()),
		Timeout:         spread(watchTimeout),
		FreshConnection: r.server.freshNext,
	}
	r.server.freshNext = false
	return req
}

// waitForPoll waits until the next snapshot of a resource that cannot be watched is due.
func (r *Reader) waitForPoll(ctx context.Context) ending {
	r.nowReading()
	timer := time.NewTimer(spread(pollInterval))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.selection.signal:
		r.selection.wake() // the next one applies it
	case <-ctx.Done():
		return ending{err: ctx.Err()}
	}
	return ending{err: errPollDue}
}

// emit puts a change into the queue. If the queue is full it waits for at most timeout, the longest that the stream
// should be kept waiting, and then returns errQueueFull.
func (r *Reader) emit(ctx context.Context, c Change, timeout time.Duration) error {
	c.Scope = &r.Scope
	r.prepare(&c)
	if err := r.offerWithin(ctx, c, timeout); err != nil {
		return err
	}
	r.prepared(&c)
	return nil
}

// offerWithin offers a change until it is queued, for at most timeout.
func (r *Reader) offerWithin(ctx context.Context, c Change, timeout time.Duration) error {
	if r.offer(c) {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		if err := r.Emitter.WaitForRoom(wait); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errQueueFull
		}
		if r.offer(c) {
			return nil
		}
	}
}

// offer puts a change into the queue unless it is full.
func (r *Reader) offer(c Change) bool {
	c.Scope, c.ReadAt = &r.Scope, r.Now()
	c.seen = r.position.allBefore(parseVersion(c.Object.ResourceVersion))
	return r.Emitter.Offer(c)
}

// remember notes that a version of an object has been emitted.
func (r *Reader) remember(key Key, id redact.Identity, rv version) {
	before := r.inventory.len()
	r.inventory.put(key, id, rv)
	r.Observer.InventoryChanged(r.inventory.len() - before)
}

// forget notes that the deletion of an object has been emitted.
func (r *Reader) forget(key Key) {
	before := r.inventory.len()
	r.inventory.remove(key)
	r.forgetState(key)
	r.Observer.InventoryChanged(r.inventory.len() - before)
}

// spread returns a duration within a fifth of d, so that many readers do not ask at the same moment.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
