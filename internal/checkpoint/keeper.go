// Package checkpoint stores the progress and inventory of each reader, as accepted by the next consumer, in a storage
// extension, so that a restarted collector continues where it stopped.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Options configure where checkpoints are kept and how often they are written.
type Options struct {
	Extension storage.Extension
	Receiver  component.ID

	// Cluster returns what is known of the cluster, which may become more over time.
	Cluster func() Cluster
	// Shard is the one of all readers.
	Shard shard.Shard
	// Wanted reports whether a scope is configured, so that its checkpoint must not be used for another one. nil: only
	// open scopes are.
	Wanted func(scope.Scope) bool

	// A store is written Interval after a change, or as soon as MaxChanges are pending.
	Interval   time.Duration
	MaxChanges int

	// Handover is asked from where a reader continues, and told what checkpoint there is of its scope. If it returns nil, the
	// reader continues from that checkpoint. It is called by the keeper's goroutine and must not block. May be nil.
	Handover func(of scope.Scope, own Own) *Handover

	// Report is called with an error when the storage begins to fail, and with nil when it works again.
	Report func(part string, err error)
	// Wrote is called after each write, with the time it took and its error. nil: nobody needs it.
	Wrote  func(took time.Duration, err error)
	Logger *zap.Logger
}

const (
	// storagePart names the storage in reports.
	storagePart = "storage"

	// openTimeout is how long a reader waits for a storage that cannot be opened, for example because the previous
	// collector still locks it. Then it reads without the storage.
	openTimeout = 10 * time.Second
	// restoreTimeout is how long a reader waits for a storage that does not answer.
	restoreTimeout = time.Minute
	// slowEnd is how long a reader waits for the end of an earlier one before that is logged.
	slowEnd = 10 * time.Second
	// introduceTimeout is how long records wait for a storage that does not answer.
	introduceTimeout = 5 * time.Second
	// shutdownTimeout is how long Shutdown waits for the storage at most, and shutdownGrace how long it waits after its
	// context has ended.
	shutdownTimeout = 30 * time.Second
	shutdownGrace   = 500 * time.Millisecond
)

// Keeper keeps the checkpoints of all readers of a receiver. Only its own goroutine calls the storage extension, whose
// calls may take any time and ignore their context. Everyone else waits for that goroutine only as long as they can
// afford.
type Keeper struct {
	Options
	fares condition

	mu       sync.Mutex
	stores   map[scope.Scope]*store
	left     map[scope.Scope]Position // of readers that have ended, see Positions
	restores []*restore
	jobs     []*job
	late     map[*scope.Scope]*sets        // readers that did not wait for the storage, while they have no store
	extra    map[string]*storage.Operation // additional operations of the next transaction, by key

	led string // see Led

	asked chan struct{} // restores or jobs wait
	wake  chan struct{} // something has to be written
	full  chan struct{} // it has to be written at once

	start, stop   sync.Once
	closing, done chan struct{}
	ctx           context.Context // for calls to the storage extension
	cancel        context.CancelFunc
	shutdownErr   error // set before done is closed

	// Used only by the keeper's goroutine.
	client    storage.Client // nil: not open
	index     map[string]*entry
	lastShard string          // for which the storage was used before
	removed   map[string]bool // removed checkpoints that may have objects left
	broken    error           // why the storage must not be called any longer
}

// NewKeeper returns a keeper that opens its storage once Start is called.
func NewKeeper(o Options) *Keeper {
	k := &Keeper{
		Options: o,
		stores:  make(map[scope.Scope]*store),
		left:    make(map[scope.Scope]Position),
		late:    make(map[*scope.Scope]*sets),
		extra:   make(map[string]*storage.Operation),
		asked:   make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		full:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		index:   make(map[string]*entry),
		removed: make(map[string]bool),
	}
	k.fares = condition{report: o.Report, logger: o.Logger}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// Start opens the storage and begins to write.
func (k *Keeper) Start() {
	k.start.Do(func() {
		go func() {
			defer close(k.done)
			k.run()
		}()
	})
}

// Shutdown writes what is pending and closes the storage. Nothing may be accepted any longer. It returns soon after ctx
// ends, even if the storage does not answer; the storage is then closed once it does.
func (k *Keeper) Shutdown(ctx context.Context) error {
	k.start.Do(func() { close(k.done) }) // never started
	k.stop.Do(func() { close(k.closing) })
	defer k.cancel()
	limit := time.NewTimer(shutdownTimeout)
	defer limit.Stop()
	select {
	case <-k.done:
		return k.shutdownErr
	case <-limit.C:
	case <-ctx.Done():
		grace := time.NewTimer(shutdownGrace)
		defer grace.Stop()
		select {
		case <-k.done:
			return k.shutdownErr
		case <-grace.C:
		}
	}
	return fmt.Errorf("cannot write the last checkpoints: %w; what was accepted since the last write will be emitted again", errNoAnswer)
}

// Restore returns the checkpoint of a reader's scope: it calls add for each object and then returns the progress. What
// still applies of the checkpoints of other scopes that are no longer read is included. If an earlier reader of the same
// scope has used this keeper, Restore first waits until the Ended change of that reader was accepted. If the checkpoint
// is not available, the error explains why, and the reader starts without it; see also watchlist.Progress.Later.
//
// The pointer identifies the reader: from now on, changes with this pointer as their Scope update the checkpoint.
func (k *Keeper) Restore(ctx context.Context, reader *scope.Scope, add func(watchlist.Stored)) (watchlist.Progress, error) {
	if err := k.awaitEnd(ctx, *reader); err != nil {
		return watchlist.Progress{}, err
	}
	req := &restore{reader: reader, scope: *reader, add: add, answered: make(chan struct{})}
	k.mu.Lock()
	k.restores = append(k.restores, req)
	k.mu.Unlock()
	signal(k.asked)

	failing, limit := time.NewTimer(openTimeout), time.NewTimer(restoreTimeout)
	defer failing.Stop()
	defer limit.Stop()
	for {
		select {
		case <-req.answered:
			return req.progress, req.err
		case <-failing.C:
			if k.fares.cause() == nil {
				continue // the keeper is working on it
			}
		case <-limit.C:
		case <-ctx.Done():
		case <-k.closing:
		}
		return k.abandon(ctx, req)
	}
}

// abandon makes a reader continue without its checkpoint, unless the answer has just arrived.
func (k *Keeper) abandon(ctx context.Context, req *restore) (watchlist.Progress, error) {
	k.mu.Lock()
	abandoned := req.abandon()
	if abandoned {
		k.late[req.reader] = &sets{}
	}
	k.mu.Unlock()
	switch {
	case !abandoned:
		return req.progress, req.err
	case ctx.Err() != nil:
		return watchlist.Progress{}, ctx.Err()
	}
	cause := k.fares.cause()
	if cause == nil {
		cause = errNoAnswer
		k.fares.failing(errNoAnswer)
		signal(k.wake) // to find out when the storage works again
	}
	return watchlist.Progress{Later: req.answered}, cause
}

// awaitEnd waits until everything that an earlier reader of the scope emitted was accepted or dropped. Until then it is
// not known where to continue. That may take as long as the next consumer needs.
func (k *Keeper) awaitEnd(ctx context.Context, of scope.Scope) error {
	k.mu.Lock()
	s := k.stores[of]
	k.mu.Unlock()
	if s == nil {
		return nil
	}
	slow := time.NewTimer(slowEnd)
	defer slow.Stop()
	for {
		select {
		case <-s.ended:
			return nil
		case <-slow.C:
			k.Logger.Info("not reading yet, since the next consumer has to accept what the previous reader of the resource emitted", of.LogFields()...)
		case <-ctx.Done():
			return ctx.Err()
		case <-k.closing:
			return errNotOpen
		}
	}
}

// storeLocked returns the checkpoint of the reader that emitted a change, or nil if it has none.
func (k *Keeper) storeLocked(c *watchlist.Change) *store {
	if s := k.stores[*c.Scope]; s != nil && s.reader == c.Scope {
		return s
	}
	return nil
}

// releaseEnded makes the checkpoints of readers that have ended available to other readers, once they are written, and
// removes those of resources that are no longer served.
func (k *Keeper) releaseEnded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, s := range k.stores {
		if s.hasEnded() && s.pending() == 0 {
			delete(k.stores, of)
			if s.reader != nil && !s.gone && k.Handover != nil {
				k.left[of] = s.position()
			}
			if s.gone {
				k.removeLocked(s.entry)
				signal(k.wake)
			}
		}
	}
}

// BeforeDeliver is called with changes before the next consumer receives them, and stores the objects that are new to
// that consumer. If the process crashes before it can store that they were accepted, the next process knows that they
// may have been emitted, and emits a deletion for those that are gone. If they cannot be stored, records flow all the
// same.
func (k *Keeper) BeforeDeliver(ctx context.Context, changes []watchlist.Change) {
	var introduced []*storage.Operation
	k.mu.Lock()
	for i := range changes {
		c := &changes[i]
		if !introduces(c) {
			continue
		}
		if s := k.storeLocked(c); s != nil {
			introduced = append(introduced, introduction(s.entry.id, c))
		}
	}
	k.mu.Unlock()
	if len(introduced) == 0 || k.fares.cause() != nil {
		return // while the storage fails, it is tried at intervals, not with each batch
	}
	wait, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	if err := k.do(wait, introduced); errors.Is(err, errNoAnswer) && ctx.Err() == nil {
		k.fares.failing(err)
	}
}

// Dropped notes records that the next consumer refused permanently. The position moves past them with the changes
// accepted after them, but the checkpoint remembers that these versions of their objects were not accepted. Without the begin
// or the end of an initial state there is no position.
func (k *Keeper) Dropped(changes []watchlist.Change) {
	now := time.Now()
	k.mu.Lock()
	for i := range changes {
		if s := k.storeLocked(&changes[i]); s != nil {
			s.drop(&changes[i])
			s.touch(now)
		} else if late := k.late[changes[i].Scope]; late != nil {
			late.drop(&changes[i])
		}
	}
	k.mu.Unlock()
	signal(k.wake)
}

// Accepted notes changes that the next consumer has accepted, in order.
func (k *Keeper) Accepted(changes []watchlist.Change) {
	now := time.Now()
	k.mu.Lock()
	pending := 0
	for i := range changes {
		if s := k.storeLocked(&changes[i]); s != nil {
			s.accept(&changes[i])
			s.touch(now)
			pending = max(pending, s.pending())
		} else if late := k.late[changes[i].Scope]; late != nil {
			late.accept(&changes[i])
		}
		if changes[i].Type == watchlist.Ended {
			delete(k.late, changes[i].Scope)
		}
	}
	k.mu.Unlock()
	if pending > 0 {
		signal(k.wake)
	}
	if pending >= k.MaxChanges {
		signal(k.full)
	}
}

// Ages calls f with every checkpoint and for how long something that the next consumer accepted has been missing from it.
func (k *Keeper) Ages(f func(of scope.Scope, age time.Duration)) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, s := range k.stores {
		f(of, s.age(now))
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
