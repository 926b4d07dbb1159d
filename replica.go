package k8swatchlistreceiver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/delivery"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover/elector"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// replica is this receiver as one of several, of which one leads and the others follow it. docs/takeover.md has the rules.
//
// Its goroutine begins and ends every session: that of a standby, which reads identities, or that of the leader, which
// emits.
type replica struct {
	*watchlistReceiver
	*election
	leadership elector.Leadership
	published  takeover.Leases // the Lease with the progress
	timeout    time.Duration   // of a request, and of the last write

	cancel  context.CancelFunc
	done    chan struct{}
	tracked sync.WaitGroup // the election

	endElection context.CancelFunc

	// Used only by the replica's goroutine.
	publisher *takeover.Publisher
	publishes sync.WaitGroup
	unpublish context.CancelFunc
	termOver  chan struct{}
	ready     bool // as last reported

	mu      sync.Mutex
	mirrors *takeover.Mirrors // of the current or, while this replica leads, the last standby session
	leads   bool
	led     bool               // this process is, or continues from the storage of, the one that last led
	seen    takeover.Progress  // as last read
	fetched time.Time          // when that was; zero: never
	from    *takeover.Progress // from which this replica leads
}

// newReplica returns this receiver as one of several, or nil if it is the only one.
func (r *watchlistReceiver) newReplica(host component.Host) (*replica, error) {
	e, err := r.cfg.election(r.set.ID)
	if e == nil || err != nil {
		return nil, err
	}
	x := &replica{
		watchlistReceiver: r,
		election:          e,
		published:         kubeclient.Leases{Client: r.client, Namespace: e.progress.Namespace, Name: e.progress.Name},
		timeout:           e.renewDeadline / 2,
		done:              make(chan struct{}),
		mirrors:           takeover.NewMirrors(),
	}
	if e.extension != nil {
		callbacks, err := e.callbacks(host)
		if err != nil {
			return nil, err
		}
		x.leadership = elector.NewExtension(elector.ExtensionOptions{Callbacks: callbacks, RenewDeadline: e.renewDeadline, LeaseDuration: e.leaseDuration})
		return x, nil
	}
	x.leadership = elector.New(elector.Options{
		Leases:        kubeclient.Leases{Client: r.client, Namespace: e.lease.Namespace, Name: e.lease.Name},
		Identity:      e.identity,
		LeaseDuration: e.leaseDuration, RenewDeadline: e.renewDeadline, RetryPeriod: e.retryPeriod,
		Ready:  x.isReady,
		Report: func(err error) { r.health.report("leader election", err) },
	})
	return x, nil
}

// start begins to follow, and to compete for the leadership.
func (x *replica) start() {
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	election, endElection := context.WithCancel(context.Background())
	x.endElection = endElection
	x.tracked.Go(func() { x.leadership.Run(election) })
	go func() {
		defer close(x.done)
		x.run(ctx)
	}()
}

// shutdown ends in order: it reads no more, delivers what was read, publishes that, and only then releases the leadership.
func (x *replica) shutdown(ctx context.Context) error {
	x.cancel()
	<-x.done // it does not wait for the consumer
	x.session.stop()
	var err error
	if x.leading() {
		err = x.delivery.Shutdown(ctx)
		x.stopPublishing()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.timeout)
		if x.leadership.Leads() {
			err = errors.Join(err, x.publisher.Publish(last))
		}
		cancel()
	}
	x.endElection()
	x.tracked.Wait()
	return err
}

func (x *replica) leading() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.leads
}

// run follows or leads until ctx ends.
func (x *replica) run(ctx context.Context) {
	x.follow()
	ticker := time.NewTicker(x.publishInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.leadership.Changes():
		case <-x.termOver:
			x.demote("another replica has begun a later term")
		case <-ticker.C:
		}
		switch candidate := x.leadership.Candidate(); {
		case ctx.Err() != nil:
			return
		case x.leading() && !candidate:
			x.demote("it cannot prove that it still leads")
		case x.leading():
		case candidate:
			x.promote(ctx)
		default:
			x.fetch(ctx)
		}
	}
}

// follow begins the session of a standby.
func (x *replica) follow() {
	x.mu.Lock()
	x.mirrors, x.leads, x.from = takeover.NewMirrors(), false, nil
	x.mu.Unlock()
	if x.cold {
		x.session = &session{cancel: func() {}}
		return
	}
	x.ready = false
	x.health.report("standby", errNotReady)
	x.session = x.startSession(x.newMirror)
}

// fetch reads what the leader has published, and follows it.
func (x *replica) fetch(ctx context.Context) {
	request, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	p, err := takeover.Read(request, x.published)
	if ctx.Err() != nil {
		return
	}
	x.health.report("progress of the leader", err)
	if err != nil {
		return
	}
	x.noteRead(&p)
	x.mirrors.Settle(&p)
	x.reportReady(&p)
}

var errNotReady = errors.New("this replica does not know yet what was emitted: a takeover now may emit the initial state again")

// reportReady logs when the standby begins and ceases to be ready, and reports it as the status of the component.
func (x *replica) reportReady(p *takeover.Progress) {
	ready := x.isReady()
	if ready == x.ready {
		return
	}
	x.ready = ready
	n, of := x.mirrors.Ready(p, x.led)
	fields := []zap.Field{zap.String("identity", x.identity), zap.String("leader", p.Holder), zap.Int("term", p.Term), zap.Int("ready", n), zap.Int("of", of)}
	if ready {
		x.set.Logger.Info("standby is ready to take over", fields...)
		x.health.report("standby", nil)
		return
	}
	x.set.Logger.Info("standby is no longer ready to take over", fields...)
	x.health.report("standby", errNotReady)
}

// noteRead notes what was read of the progress.
func (x *replica) noteRead(p *takeover.Progress) {
	now := time.Now()
	x.mu.Lock()
	isNew := x.fetched.IsZero() || !p.IsSame(&x.seen)
	x.seen, x.fetched = *p, now
	x.led = p.Exists() && (p.Holder == x.identity || p.Holder == x.keeper.Led())
	x.mu.Unlock()
	if isNew && p.Exists() && p.Holder != x.identity {
		x.leadership.OtherTerm(p.Term, now)
	}
}

// isReady reports whether a takeover by this replica would know which objects the backend may have.
func (x *replica) isReady() bool {
	if x.cold {
		return true // it never knows before it leads
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.leads {
		return true
	}
	if x.fetched.IsZero() {
		return false
	}
	if !x.seen.Exists() {
		return true
	}
	ready, of := x.mirrors.Ready(&x.seen, x.led)
	return of > 0 && ready == of
}

// promote makes this replica the leader, if it still is to lead once its term is written.
func (x *replica) promote(ctx context.Context) {
	began := time.Now()
	publisher := takeover.NewPublisher(takeover.PublisherOptions{
		Leases: x.published, Identity: x.identity, Interval: x.publishInterval, Heartbeat: x.heartbeat, Timeout: x.timeout,
		Positions: x.keeper.Positions,
		Proved:    x.leadership.Proved,
		Read:      x.noteRead,
		May:       x.leadership.Candidate,
		Report:    func(err error) { x.health.report("progress of this replica", err) },
	})
	limited, cancel := context.WithTimeout(ctx, x.timeout)
	before, err := publisher.Begin(limited)
	cancel()
	if err != nil {
		return // the next round tries again, if this replica is still to lead
	}
	x.session.stop()
	x.health.report("standby", nil)
	x.mirrors.Settle(&before)
	ready, of := x.mirrors.Ready(&before, x.led)
	x.mu.Lock()
	x.leads, x.from = true, &before
	x.mu.Unlock()
	x.keeper.Abandon(nil)
	stored, cancel := context.WithTimeout(ctx, x.timeout)
	if err := x.keeper.SetLed(stored, x.identity); err != nil && ctx.Err() == nil {
		x.set.Logger.Warn("cannot store that this replica leads, so its storage is not trusted after a restart", zap.Error(err))
	}
	cancel()

	x.publisher = publisher
	o := x.deliveryOptions()
	o.Next = takeover.Fence{Next: o.Next, Deadline: x.leadership.Deadline}
	introduce := o.BeforeDeliver
	o.BeforeDeliver = func(ctx context.Context, changes []watchlist.Change) {
		introduce(ctx, changes)
		_ = publisher.Announce(ctx, changes) // it fails only if the context has ended, and then nothing is offered
	}
	accepted := o.Accepted
	o.Accepted = func(changes []watchlist.Change) {
		accepted(changes)
		if slices.ContainsFunc(changes, func(c watchlist.Change) bool { return c.Type == watchlist.SnapshotEnd }) {
			publisher.Hurry() // until then, whoever takes over emits the initial state again
		}
	}
	x.startDelivery(o)
	x.emitter = announcer{x.delivery, publisher}
	publishing, unpublish := context.WithCancel(context.Background())
	x.unpublish, x.termOver = unpublish, make(chan struct{})
	over := x.termOver
	x.publishes.Go(func() {
		if errors.Is(publisher.Run(publishing), takeover.ErrTermOver) {
			close(over)
		}
	})
	x.session = x.startSession(x.newReader)
	x.set.Logger.Info("this replica leads", zap.Int("term", publisher.Term()), zap.String("identity", x.identity), zap.String("previous", before.Holder),
		zap.Duration("took", time.Since(began)), zap.Int("ready", ready), zap.Int("of", of))
}

// demote makes the leader a standby again. What was not accepted is read again by whoever leads next.
func (x *replica) demote(why string) {
	x.set.Logger.Warn("this replica no longer leads", zap.Int("term", x.publisher.Term()), zap.String("identity", x.identity), zap.String("reason", why))
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = x.delivery.Shutdown(now) // the records that are left are those that are read again
	x.session.stop()
	x.stopPublishing()
	x.keeper.Abandon(nil)
	x.follow()
}

func (x *replica) stopPublishing() {
	x.unpublish()
	x.publishes.Wait()
	x.termOver = nil
}

// handover returns from where a reader of this replica continues; see [checkpoint.Options].
func (x *replica) handover(of scope.Scope, own checkpoint.Own) *checkpoint.Handover {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.leads {
		if own.Incomplete { // nothing can be compared with it
			return &checkpoint.Handover{Anew: true}
		}
		return nil
	}
	if !x.from.Exists() {
		return nil // nobody has led before
	}
	h := x.from.Handover(of, x.mirrors.Of(of), own, x.led)
	return &h
}

// announcer is the queue of the leader, which notes what has to be announced before it is delivered.
type announcer struct {
	*delivery.Delivery[watchlist.Change]
	publisher *takeover.Publisher
}

// Offer implements watchlist.Emitter.
func (a announcer) Offer(c watchlist.Change) bool {
	a.publisher.Queued(&c)
	return a.Delivery.Offer(c)
}
