package k8swatchlistreceiver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/delivery"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
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
	yield      func()          // gives the leadership up for another replica; not with an extension
	doubt      func()          // makes the election prove the leadership again; not with an extension, which learns of terms
	published  takeover.Leases // the Lease with the progress
	timeout    time.Duration   // of a request, and of the last write
	// reportPublish and reportFetch note whether the progress can be written and read.
	reportPublish, reportFetch func(error)
	reportDivision             func() // nil without shards

	cancel  context.CancelFunc
	done    chan struct{}
	tracked sync.WaitGroup // the election

	endElection context.CancelFunc
	began       time.Time

	// Used only by the replica's goroutine.
	publishes sync.WaitGroup
	unpublish context.CancelFunc
	termOver  chan error // takeover.ErrTermOver or takeover.ErrSetBack
	ready     bool       // as last reported
	ledSince  time.Time  // when this replica began to lead
	moved     time.Time  // when the pipeline last accepted something, or had nothing to accept

	accepted atomic.Int64 // changes in this term
	before   int64        // the same when isStuck was last called

	mu      sync.Mutex
	mirrors *takeover.Mirrors // of the current or, while this replica leads, the last standby session
	leads   bool
	led     bool               // this process is, or continues from the storage of, the one that last led, and has all it offered
	seen    takeover.Progress  // as last read
	newest  takeover.Progress  // the newest that was ever read or published
	behind  bool               // what was last read is older than that: etcd was set back
	gen     int                // the generation of what this standby reads; -1: none that is published
	refills bool               // this standby reads everything again, whatever it has stored
	fetched time.Time          // when that was; zero: never
	from    *takeover.Progress // from which this replica leads
	// publisher is that of the current or last term.
	publisher *takeover.Publisher
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
		reportPublish: r.reporting("progress of this replica", func(f ...zap.Field) {
			r.set.Logger.Warn("cannot publish how far records were accepted, will try again", f...)
		}),
		reportFetch: r.reporting("progress of the leader", func(f ...zap.Field) {
			r.set.Logger.Warn("cannot read how far the leader has come, will try again", f...)
		}),
	}
	if e.extension != nil {
		callbacks, err := e.callbacks(host)
		if err != nil {
			return nil, err
		}
		x.leadership = elector.NewExtension(elector.ExtensionOptions{Callbacks: callbacks, RenewDeadline: e.renewDeadline, LeaseDuration: e.leaseDuration})
		x.divide()
		return x, nil
	}
	own := elector.New(elector.Options{
		Leases:        kubeclient.Leases{Client: r.client, Namespace: e.lease.Namespace, Name: e.lease.Name},
		Identity:      e.identity,
		LeaseDuration: e.leaseDuration, RenewDeadline: e.renewDeadline, RetryPeriod: e.retryPeriod,
		Ready: x.isReady,
		Report: r.reporting("leader election", func(f ...zap.Field) {
			r.set.Logger.Warn("cannot take part in the leader election, will try again", f...)
		}),
	})
	x.leadership, x.yield, x.doubt = own, own.Yield, own.Doubt
	x.divide()
	return x, nil
}

// divide makes the leadership of a shard depend on that nobody divides the objects in another way.
func (x *replica) divide() {
	if x.divided == "" {
		return
	}
	d := elector.NewDivision(x.leadership, elector.Options{
		Leases:        kubeclient.Leases{Client: x.client, Namespace: x.division.Namespace, Name: x.division.Name},
		Identity:      x.divided,
		LeaseDuration: x.leaseDuration, RenewDeadline: x.renewDeadline, RetryPeriod: x.retryPeriod,
		Report: x.reporting("division into shards", func(f ...zap.Field) {
			x.set.Logger.Warn("cannot find out whether others divide the objects in another way, will try again", f...)
		}),
	})
	report := x.reporting("shards", func(f ...zap.Field) {
		x.set.Logger.Warn("others still divide the objects in another way, so that this replica waits: stop all of them first", f...)
	})
	x.leadership, x.reportDivision = d, func() {
		if other := d.Other(); other != "" {
			report(fmt.Errorf("there are still replicas with %s, and this one has %s", servertext.Clean(other), x.divided))
		} else {
			report(nil)
		}
	}
}

// reporting returns a function that notes whether a part works, and logs when that changes. It must not be called by several
// goroutines at once.
func (r *watchlistReceiver) reporting(part string, warn func(...zap.Field)) func(error) {
	failing := false
	return func(err error) {
		r.health.report(part, err)
		if failing == (err != nil) {
			return
		}
		failing = err != nil
		switch {
		case apierrors.IsForbidden(err):
			warn(zap.Error(err), zap.String("remedy", "k8swatchlist rbac prints the rights to Leases that replicas need"))
		case failing:
			warn(zap.Error(err))
		default:
			r.set.Logger.Info(part + " works again")
		}
	}
}

// start begins to follow, and to compete for the leadership.
func (x *replica) start() {
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	election, endElection := context.WithCancel(context.Background())
	x.endElection = endElection
	x.began = time.Now()
	if !x.cold {
		x.health.report("standby", errNotReady) // before Start returns, or the Collector would report meanwhile that all is well
	}
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
	x.fetch(ctx)
	x.follow(false)
	ticker := time.NewTicker(x.publishInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.leadership.Changes():
		case err := <-x.termOver:
			if x.doubt != nil && errors.Is(err, takeover.ErrTermOver) {
				x.doubt()
			}
			x.demote(err.Error())
		case <-ticker.C:
		}
		if x.reportDivision != nil {
			x.reportDivision()
		}
		switch candidate := x.leadership.Candidate(); {
		case ctx.Err() != nil:
			return
		case x.leading() && x.isStuck():
			x.demote("its pipeline has accepted nothing for standby.step_down_after")
			x.yield()
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

// follow begins the session of a standby, which continues from its checkpoint, unless that is of another history.
func (x *replica) follow(refills bool) {
	x.mu.Lock()
	x.mirrors, x.leads, x.from = takeover.NewMirrors(), false, nil
	x.gen, x.refills = x.newest.Generation, refills
	x.mu.Unlock()
	x.telemetry.standsBy()
	if x.cold {
		x.session = &session{cancel: func() {}}
		return
	}
	x.ready = false
	x.health.report("standby", errNotReady)
	x.session = x.startSession(x.newMirror, x.hasten)
}

// fetch reads what the leader has published, and follows it.
func (x *replica) fetch(ctx context.Context) {
	request, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	p, err := takeover.Read(request, x.published)
	if ctx.Err() != nil {
		return
	}
	x.reportFetch(err)
	if err != nil {
		return
	}
	x.noteRead(&p)
	if x.session == nil {
		return // nothing has begun yet
	}
	x.mu.Lock()
	behind, isOther := x.behind, p.Exists() && p.Generation != x.gen
	x.mu.Unlock()
	switch {
	case behind:
	case isOther && !x.cold:
		x.set.Logger.Info("etcd was set back to an earlier state, reading everything again", zap.String("identity", x.identity))
		x.session.stop()
		x.keeper.Abandon(nil)
		x.follow(true)
	default:
		x.mirrors.Settle(&p)
	}
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
	fields := []zap.Field{zap.String("identity", x.identity), zap.String("leader", servertext.Clean(p.Holder)), zap.Int("term", p.Term), zap.Int("generation", p.Generation), zap.Int("ready", n), zap.Int("of", of)}
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
	switch x.behind = p.IsBehind(&x.newest); {
	case !p.Exists():
	case !x.behind:
		x.newest = *p
	case isNew && x.seen.IsBehind(&x.newest): // written by a leader that knows nothing of the newest
		x.newest, x.behind, x.gen = *p, false, -1
	}
	x.seen, x.fetched = *p, now
	x.led = !x.refills && x.newest.Exists() && (x.newest.Holder == x.identity || x.newest.Holder == x.keeper.Led())
	x.mu.Unlock()
	if isNew && p.Exists() && p.Holder != x.identity {
		x.leadership.OtherTerm(p.Term, now)
	}
}

// age is for how long a standby has not read the progress, or the leader has not published it.
func (x *replica) age() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.leads:
		return time.Since(x.publisher.Current())
	case x.fetched.IsZero():
		return time.Since(x.began)
	}
	return time.Since(x.fetched)
}

// readyReaders is how many readers of a standby know everything that was emitted.
func (x *replica) readyReaders() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.leads {
		return 0
	}
	ready, _ := x.mirrors.Ready(&x.seen, x.led)
	return ready
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
	if x.behind && !x.led {
		return false
	}
	ready, of := x.mirrors.Ready(&x.seen, x.led)
	return of > 0 && ready == of
}

// promote makes this replica the leader, if it still is to lead once its term is written.
func (x *replica) promote(ctx context.Context) {
	began := time.Now()
	x.mu.Lock()
	newest := x.newest
	x.mu.Unlock()
	publisher := takeover.NewPublisher(takeover.PublisherOptions{
		Leases: x.published, Identity: x.identity, Interval: x.publishInterval, Heartbeat: x.heartbeat, Timeout: x.timeout,
		Known:     newest,
		SetBack:   x.mirrors.SetBack,
		Positions: x.keeper.Positions,
		Proved:    x.leadership.Proved,
		Read:      x.noteRead,
		May:       x.leadership.Candidate,
		Published: x.telemetry.published,
		Report:    x.reportPublish,
	})
	limited, cancel := context.WithTimeout(ctx, x.timeout)
	span := x.startTakeover(ctx)
	before, err := publisher.Begin(limited)
	cancel()
	if err != nil {
		span.failed(ctx, err)
		return // the next round tries again, if this replica is still to lead
	}
	x.session.stop()
	x.health.report("standby", nil)
	x.mirrors.Settle(&before)
	ready, of := x.mirrors.Ready(&before, x.led)
	x.mu.Lock()
	x.leads, x.from, x.publisher = true, &before, publisher
	x.mu.Unlock()
	x.keeper.Abandon(nil)
	stored, cancel := context.WithTimeout(ctx, x.timeout)
	if err := x.keeper.SetLed(stored, x.identity); err != nil && ctx.Err() == nil {
		x.set.Logger.Warn("cannot store that this replica leads, so its storage is not trusted after a restart", zap.Error(err))
	}
	cancel()

	o := x.deliveryOptions()
	o.Next = takeover.Fence{Next: o.Next, Deadline: x.leadership.Deadline, Fenced: x.telemetry.fenced}
	introduce := o.BeforeDeliver
	o.BeforeDeliver = func(ctx context.Context, changes []watchlist.Change) {
		introduce(ctx, changes)
		_ = publisher.Announce(ctx, changes) // it fails only if the context has ended, and then nothing is offered
	}
	accepted := o.Accepted
	o.Accepted = func(changes []watchlist.Change) {
		accepted(changes)
		x.accepted.Add(int64(len(changes)))
		if slices.ContainsFunc(changes, func(c watchlist.Change) bool { return c.Type == watchlist.SnapshotEnd }) {
			publisher.Hurry() // until then, whoever takes over emits the initial state again
		}
	}
	x.moved = time.Now()
	x.startDelivery(o)
	x.emitter = announcer{x.delivery, publisher}
	publishing, unpublish := context.WithCancel(context.Background())
	x.unpublish, x.termOver = unpublish, make(chan error, 1)
	over := x.termOver
	x.publishes.Go(func() {
		if err := publisher.Run(publishing); publishing.Err() == nil {
			over <- err
		}
	})
	x.session = x.startSession(x.newReader)
	x.ledSince = time.Now()
	took := x.ledSince.Sub(began)
	x.telemetry.leads(took)
	continued, anew := x.mirrors.Continued(&before)
	if x.cold {
		continued, anew = before.Continued()
	}
	span.complete(publisher.Term(), servertext.Clean(before.Holder), continued, anew)
	x.set.Logger.Info("this replica leads", zap.Int("term", publisher.Term()), zap.String("identity", x.identity), zap.String("previous", servertext.Clean(before.Holder)),
		zap.Duration("took", took), zap.Int("ready", ready), zap.Int("of", of), zap.Int("continued", continued), zap.Int("anew", anew))
}

// isStuck reports whether the pipeline has accepted nothing for so long, while records wait, that another replica is to lead.
func (x *replica) isStuck() bool {
	if accepted := x.accepted.Load(); accepted != x.before || x.delivery.Records() == 0 {
		x.before, x.moved = accepted, time.Now()
	}
	return x.stepDownAfter > 0 && time.Since(x.moved) >= x.stepDownAfter
}

// demote makes the leader a standby again. What was not accepted is read again by whoever leads next.
func (x *replica) demote(why string) {
	x.set.Logger.Warn("this replica no longer leads", zap.Int("term", x.publisher.Term()), zap.String("identity", x.identity), zap.String("reason", why),
		zap.Duration("led", time.Since(x.ledSince)))
	x.session.cancel() // first, or a reader would take the end of the delivery for a queue that is full
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = x.delivery.Shutdown(now) // the records that are left are those that are read again
	x.session.stop()
	x.stopPublishing()
	x.keeper.Abandon(nil)
	last := x.publisher.Last()
	x.mu.Lock()
	if !last.IsBehind(&x.newest) {
		x.newest = last
	}
	x.mu.Unlock()
	x.follow(false)
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
		switch isOther := own.Generation != x.newest.Generation; {
		case isOther && own.ResourceVersion != "":
			x.refills, x.led = true, false
			fallthrough
		case isOther, x.refills, own.Incomplete: // nothing can be compared with it
			return &checkpoint.Handover{Anew: true, Generation: x.newest.Generation}
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
