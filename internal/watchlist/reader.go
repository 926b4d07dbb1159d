// Package watchlist reads Kubernetes resources. A [Reader] keeps one resource in view through every fault
// of the server, the network and the consumer, and tells what changed, once and in order.
package watchlist

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Emitter takes the changes that a reader finds.
type Emitter interface {
	// Offer takes the change, or returns false when the queue is full. It never blocks.
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

	// Served reports whether the server serves the resource at all, for when it answers 404.
	Served func(context.Context) (bool, error)
	// SnapshotSlots bounds the snapshots under way at once, in all readers that share it: those of one server.
	SnapshotSlots *Slots
	// Owns reports whether this process emits the object. What it does not own moves the position and nothing
	// else. nil: it owns every object.
	Owns func(Key) bool
	// Now is the wall clock, for the times in records. Timers follow the time package's monotonic clock.
	Now func() time.Time

	RelistInterval time.Duration // mean time between relists; 0 is never
	RotateInterval time.Duration // mean time between rotations; 0 is never
	// QuietInterval is the mean time after which a stream is compared that says nothing where no bookmarks come; 0 is
	// never.
	QuietInterval time.Duration
	EmitSnapshots bool // a relist emits every object, not only what differs
	SkipInitial   bool // the initial state is not emitted, only what changes

	// Restore gives back what was known when an earlier reader of the scope was stopped: add is called for each
	// object, and then the progress is returned. With an error it is as if nothing had been known. Where it is set,
	// changes are emitted that are no records, from which whoever restores learns what to keep.
	Restore func(ctx context.Context, s scope.Scope, add func(redact.Identity)) (Progress, error)

	Observer Observer
	Logger   *zap.Logger
	Crowd    *Crowd // shared with other readers; nil: this one logs for itself
}

const (
	// watchTimeout is what is asked of the server, whose timer includes the initial events.
	// https://github.com/kubernetes/kubernetes/issues/134837
	watchTimeout = time.Hour

	// A bookmark comes about once a minute. https://github.com/kubernetes/kubernetes/pull/90249
	silenceLimit       = 150 * time.Second
	resumeSilenceLimit = 120 * time.Second

	// endMarkerTimeout bounds how long a snapshot may be silent once the server has begun to answer, and endlessTimeout
	// how long events may come instead of its end that look like those of an ordinary watch. A snapshot that makes
	// progress may take as long as it likes.
	endMarkerTimeout = 30 * time.Second
	endlessTimeout   = 15 * time.Minute
	// slowAnswer is after what time it is reported that the server does not begin to answer. The client gives up later.
	slowAnswer = 30 * time.Second
	// pollInterval is the time between snapshots of what cannot be watched.
	pollInterval = 5 * time.Minute

	// A server closes a watcher that keeps it waiting, but buffers for a moment's wait are there.
	liveEmitTimeout     = time.Second
	snapshotEmitTimeout = 30 * time.Second

	shortLife           = 2 * time.Second
	steadyLife          = 10 * time.Second
	lagTimeout          = time.Minute
	behindMemory        = 10 * time.Minute // after which that a server was behind means nothing any more
	parkInterval        = 5 * time.Minute
	servedCheckInterval = 30 * time.Second

	// unverifiedInterval is how far apart comparisons are at least where watches without bookmarks end without a word.
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
	lastKnown time.Time    // when everything that the server held had been read
	verified  verification // the newest snapshot that everything was compared with

	// deletedAhead holds objects whose deletion was emitted from a snapshot, before the position came to it.
	deletedAhead map[Key]version

	doubted  doubted      // what the last snapshots lacked and nothing has confirmed
	initial  snapshotSet  // the set of Snapshot changes of the first snapshot
	lost     *lostHistory // nil: nothing has to be made up for
	server   serverView
	faults   faults
	schedule schedule
	state    State
	pauses   pauses

	storage lateStorage
	// unverified: whether the server holds what the inventory does has not been seen since it was restored.
	unverified bool

	drops  drops  // not noted yet
	denial denial // not reported yet

	apis chan scope.API // holds how the server serves the resource now, if that has changed

	backoff *backoff.ExponentialBackOff
	slow    *backoff.ExponentialBackOff // for what a person has to correct
}

// verification is a snapshot that everything was compared with.
type verification struct {
	version version
	at      time.Time
}

// serverView is how the server looks to this reader; what holds for all readers of the resource is in Knowledge.
type serverView struct {
	historyReset bool          // versions are lower than they were: only equality means something
	behindSince  time.Time     // since when the server has not come as far as the position
	behindSeen   time.Time     // when that was seen last
	freshNext    bool          // the next stream should leave the connection
	mute         int           // watches in a row that were open for long and delivered nothing
	missedByMute bool          // and a comparison found what they should have delivered
	unanswered   int           // watches in a row that were not answered
	streamLife   time.Duration // of the last stream that the server ended in good order
	listNext     bool          // the next snapshot should be a LIST, whatever is known of the server

	quiet       time.Duration // how long streams have said nothing, one after the other
	quietChecks int           // comparisons for that reason, which found nothing

	aliveUntil time.Time // when the last quiet stream was cut, which had been alive until then
	recoveries int       // from expired history, since the last live event or bookmark
	futile     int       // those of them in a row that found the server no further than the position
}

// faults counts what went wrong since it last went well.
type faults struct {
	incompleteSnapshots int // streamed, and ended before the end marker
	failedLists         int
	markersNoVersion    int // end markers without a version
	internalErrors      int // before the end marker
	badSnapshots        int // held what cannot be decoded
	shortEmptyStreams   int
	unexpectedErrors    int // in live streams
	badFrames           int // at the position badFramesAt
	badFramesAt         version
	failedRelists       int
	refusedVersions     int // watches from the position that were refused
	fruitless           int // streams that ended without progress
}

// schedule is when what happens at intervals happens next; zero is never.
type schedule struct {
	relist        time.Time
	relistObjects bool // the last relist found objects missing, and the next one has to bring them
	redelivery    redelivery
	rotate        time.Time
	quiet         time.Time // comparison of a quiet stream without bookmarks
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
	return &Reader{
		Options:      o,
		inventory:    newInventory(),
		deletedAhead: make(map[Key]version),
		apis:         make(chan scope.API, 1),
		drops:        drops{signal: make(chan struct{}, 1)},
		backoff:      retry.NewBackoff(800*time.Millisecond, 30*time.Second),
		slow:         retry.NewBackoff(10*time.Second, time.Minute),
	}
}

// owns reports whether the object is this process's to emit. It stands in front of everything that enters the
// inventory or the queue.
func (r *Reader) owns(key Key) bool { return r.Owns == nil || r.Owns(key) }

// Run reads until ctx ends. No fault of the server ends it.
func (r *Reader) Run(ctx context.Context) {
	defer func() { r.Observer.InventoryChanged(-r.inventory.len()) }()
	r.restore(ctx)
	for ctx.Err() == nil {
		end := r.readOnce(ctx)
		if ctx.Err() == nil {
			r.react(ctx, end)
		}
	}
}

// ending is how and why reading stopped.
type ending struct {
	err      error
	snapshot bool // before the snapshot was complete
	listed   bool // which was listed
	opened   bool // the server had begun to answer
	frames   int
	lived    time.Duration // since the server began to answer
}

// readOnce opens what the position calls for and reads it to its end: a snapshot where there is no position
// or the history since then is lost, and after it, or else at once, the changes from the position on.
func (r *Reader) readOnce(ctx context.Context) ending {
	r.noteDrops()
	var s *stream
	if !r.position.none() && r.lost == nil && r.Knowledge.isHistoryGone(r.position.rv) {
		r.historyExpired() // to ask for it once more would be futile
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
		s = openStream(ctx, r.Opener, r.resumeRequest())
		r.Observer.StreamOpened("resume")
	}
	return r.follow(ctx, s)
}

// polls reports whether snapshots at intervals are all that can be had.
func (r *Reader) polls() bool { return r.Knowledge.polls() || r.position.unversioned() }

// SetAPI makes the reader go on with the resource as the server serves it now. The objects and their resourceVersions
// are the same in every version of an API, so nothing is emitted twice and nothing is lost. It is safe for concurrent
// use.
func (r *Reader) SetAPI(api scope.API) {
	for {
		select {
		case r.apis <- api:
			return
		case <-r.apis: // what has not been looked at is out of date
		}
	}
}

// followAPI uses the API that was set last, in requests from now on.
func (r *Reader) followAPI() {
	select {
	case api := <-r.apis:
		r.useAPI(api)
	default:
	}
}

// useAPI reports whether the API is another one than before.
func (r *Reader) useAPI(api scope.API) (changed bool) {
	if api == r.API {
		return false
	}
	r.Logger.Info("resource is served in another version, going on with it", append(r.fields(nil), zap.String("new_version", api.Version))...)
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

// waitForPoll lets time pass until the next snapshot of a resource that cannot be watched.
func (r *Reader) waitForPoll(ctx context.Context) ending {
	if err := sleep(ctx, spread(pollInterval)); err != nil {
		return ending{err: err}
	}
	return ending{err: errPollDue}
}

// emit hands a change over. When the queue is full it waits for at most timeout, since the stream should
// not be kept waiting for longer, and gives up with errQueueFull.
func (r *Reader) emit(ctx context.Context, c Change, timeout time.Duration) error {
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

// offer hands a change over unless the queue is full.
func (r *Reader) offer(c Change) bool {
	c.Scope = &r.Scope
	c.ReadAt = r.Now()
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
