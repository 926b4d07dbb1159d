// Package watchlist reads Kubernetes resources. A [Reader] keeps one resource in view through every fault
// of the server, the network and the consumer, and tells what changed, once and in order.
package watchlist

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// Emitter takes the changes that a reader finds.
type Emitter interface {
	// Offer takes the change, or returns false when there is no room for it. It never blocks.
	Offer(Change) bool
	// WaitForRoom waits until it makes sense to offer again, and returns ctx's error if that comes first.
	WaitForRoom(ctx context.Context) error
}

// Options say what a reader reads and with what.
type Options struct {
	Resource Resource
	Plan     *redact.Plan
	Opener   Opener
	Emitter  Emitter

	// Served says whether the server serves the resource at all, for when it answers 404.
	Served func(context.Context) (bool, error)
	// SnapshotSlots bounds the snapshots under way at once, in all readers that share it: a snapshot
	// holds a slot while it is in the channel.
	SnapshotSlots chan struct{}
	// Now is the wall clock, for what records tell. Timers follow the time package's monotonic clock.
	Now func() time.Time

	RelistInterval time.Duration // mean time between relists; 0 is never
	RotateInterval time.Duration // mean time between rotations; 0 is never
	EmitSnapshots  bool          // a relist emits every object, not only what differs
	SkipInitial    bool          // the initial state is not emitted, only what changes
	ListOnly       bool          // the server is known not to send initial events

	// Restore gives back what was known when an earlier reader of the resource was stopped: add is called
	// for each object, and then the progress is returned. With an error it is as if nothing had been known.
	// Where it is set, changes are emitted that are no records, from which what it gives can be kept.
	Restore func(ctx context.Context, add func(redact.Identity)) (Progress, error)

	Observer Observer
	Logger   *zap.Logger
}

const (
	// watchTimeout is what is asked of the server, whose timer includes the initial events.
	// https://github.com/kubernetes/kubernetes/issues/134837
	watchTimeout = time.Hour

	// A bookmark comes about once a minute. https://github.com/kubernetes/kubernetes/pull/90249
	silenceLimit       = 150 * time.Second
	resumeSilenceLimit = 120 * time.Second

	// endMarkerPatience bounds how long a snapshot may be silent, snapshotPatience how long it may take.
	endMarkerPatience = 30 * time.Second
	snapshotPatience  = 15 * time.Minute
	// listMemory is for how long a server is taken to have no WatchList.
	listMemory = 24 * time.Hour
	// pollInterval is the time between snapshots of what cannot be watched.
	pollInterval = 5 * time.Minute

	// A server closes a watcher that keeps it waiting, but buffers for a moment's wait are there.
	liveEmitPatience     = time.Second
	snapshotEmitPatience = 30 * time.Second

	shortLife           = 2 * time.Second
	steadyLife          = 10 * time.Second
	lagPatience         = time.Minute
	parkInterval        = 5 * time.Minute
	servedCheckInterval = 30 * time.Second

	maxIncompleteSnapshots = 3
	maxInternalErrors      = 5
	maxShortEmptyStreams   = 3
	maxStrangeErrors       = 3
	maxFailedRelists       = 3
)

// Reader reads one resource in one scope. Its state is the position: everything up to it has been emitted.
// All of it belongs to the goroutine that calls Run.
type Reader struct {
	Options

	position  position
	inventory *inventory
	lastKnown time.Time // when everything that the server held had been read

	// The newest snapshot that everything was compared with.
	verified   version
	verifiedAt time.Time

	// deletedAhead holds objects whose deletion was emitted from a snapshot, before the position came to it.
	deletedAhead map[Key]version

	initial    snapshotSet // the set of Snapshot changes of the first snapshot
	lost       *lostHistory
	nextRelist time.Time
	nextRotate time.Time

	// What was learned of the server.
	listUntil     time.Time // no WatchList until then
	pollOnly      bool      // the resource cannot be watched
	withoutMarks  bool      // no bookmarks but the end marker come
	sawBookmark   bool
	sawEndMarker  bool // of streamed initial events
	anyVersion    bool // a snapshot cannot be had at the position's version
	relistObjects bool // the last relist found objects missing, and the next one has to bring them
	failedRelists int  // since one was complete
	historyReset  bool // versions are lower than they were: only equality means something
	freshNext     bool // the next stream should leave the connection
	lagSince      time.Time
	lastSnapshot  time.Time
	incomplete    int
	internal      int
	shortEmpty    int
	strange       int
	badSnapshots  int
	badFrames     int
	badFrameAfter version

	backoff *backoff.ExponentialBackOff
	slow    *backoff.ExponentialBackOff // for what a person has to mend
	state   State
}

// NewReader returns a reader that has read nothing yet.
func NewReader(o Options) *Reader {
	if o.Observer == nil {
		o.Observer = NopObserver{}
	}
	r := &Reader{
		Options:      o,
		inventory:    newInventory(),
		deletedAhead: make(map[Key]version),
		// Events are served straight from etcd, without the cache that makes bookmarks.
		withoutMarks: o.Resource.Plural == "events" && (o.Resource.Group == "" || o.Resource.Group == "events.k8s.io"),
		backoff:      NewBackoff(800*time.Millisecond, 30*time.Second),
		slow:         NewBackoff(10*time.Second, time.Minute),
	}
	if o.ListOnly {
		r.listUntil = time.Now().Add(100 * 365 * 24 * time.Hour)
	}
	return r
}

// NewBackoff returns the pauses between tries to reach an API server: from initial to most, doubling, spread
// by half so that many clients do not come back together.
func NewBackoff(initial, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = initial, most, 2, 0.5
	b.Reset()
	return b
}

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
	opened   bool // the server had begun to answer
	frames   int
	lived    time.Duration
}

// readOnce opens what the position calls for and reads it to its end: a snapshot where there is no position
// or the history since then is lost, and after it, or else at once, the changes from the position on.
func (r *Reader) readOnce(ctx context.Context) ending {
	var s *stream
	if r.position.none() || r.lost != nil {
		began := time.Now()
		var err error
		if s, err = r.takeSnapshot(ctx); err != nil {
			end := ending{err: err, snapshot: true, lived: time.Since(began)}
			if s != nil {
				end.opened, end.frames = s.opened, s.frames
			}
			return end
		}
	}
	if r.pollOnly {
		return r.waitForPoll(ctx)
	}
	if s == nil {
		s = openStream(ctx, r.Opener, r.resumeRequest())
		r.Observer.StreamOpened("resume")
	}
	return r.follow(ctx, s)
}

func (r *Reader) resumeRequest() Request {
	req := Request{
		Resource:        &r.Resource,
		ResourceVersion: r.position.resumeVersion(r.withoutMarks),
		Timeout:         spread(watchTimeout),
		FreshConnection: r.freshNext,
	}
	r.freshNext = false
	return req
}

// waitForPoll lets time pass until the next snapshot of a resource that cannot be watched.
func (r *Reader) waitForPoll(ctx context.Context) ending {
	if err := sleep(ctx, spread(pollInterval)); err != nil {
		return ending{err: err}
	}
	return ending{err: errPollDue}
}

// emit hands a change over. When there is no room it waits for at most patience, since the stream should
// not be kept waiting for longer, and gives up with errQueueFull.
func (r *Reader) emit(ctx context.Context, c Change, patience time.Duration) error {
	c.Resource = &r.Resource
	c.ReadAt = r.Now()
	if r.Emitter.Offer(c) {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := r.Emitter.WaitForRoom(wait); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errQueueFull
		}
		if r.Emitter.Offer(c) {
			return nil
		}
	}
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
