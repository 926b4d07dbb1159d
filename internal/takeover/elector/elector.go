// Package elector decides with a Lease which replica leads. It does what the rules of docs/takeover.md need and
// client-go's leader election does not offer: it reports when the request was sent that last proved the leadership, keeps the
// Lease until its owner has finished, and lets replicas go first that are ready. Both can compete for the same Lease. It can
// also follow the Collector's extension k8s_leader_elector.
package elector

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

// Leases reads and writes the Lease; see [kubeclient.Leases].
type Leases interface {
	Get(context.Context) (kubeclient.Lease, error)
	Put(context.Context, kubeclient.Lease) (kubeclient.Lease, error)
}

// Options configure an elector. LeaseDuration must be longer than RenewDeadline, and that longer than RetryPeriod.
type Options struct {
	Leases Leases
	// Identity names this process in the Lease. A process that is started again must have another one: it may not
	// continue the leadership of the one before it.
	Identity string

	LeaseDuration time.Duration // how long others wait for a renewal
	RenewDeadline time.Duration // how long a proof of leadership is good for
	RetryPeriod   time.Duration // between two renewals

	// Shared means that several processes hold the Lease together, under the same Identity. Each of them leads while any of them
	// renews it. It ends by itself after the last one.
	Shared bool

	// Ready reports whether this replica can lead without loss. One that cannot waits another LeaseDuration before it
	// takes a Lease that nobody holds. nil: it always can.
	Ready func() bool
	// Report is called with the error when the Lease can no longer be read or written, and with nil when it can again.
	Report func(error)
}

// Elector competes for a Lease. It leads while the Lease proves it, and is a candidate only then.
type Elector struct {
	Options
	changes signal
	yields  signal
	doubts  signal

	mu       sync.Mutex
	leads    bool
	proof    time.Time // when the request was sent that last proved the leadership
	other    string    // see Other
	yielding bool      // a call of Yield has had no effect on the Lease yet

	// Used only by Run.
	lease   kubeclient.Lease // as last read
	changed time.Time        // when it was first read like that
	asked   time.Time        // when the request was sent that read it last
	free    time.Time        // since when nobody has held it; zero: somebody does
	written bool             // the Lease may name this replica: it was asked to, and was not read to name another since
	failing bool
	yielded time.Time // when it last gave the Lease up for another replica
}

// New returns an elector that does nothing before Run.
func New(o Options) *Elector {
	return &Elector{Options: o, changes: newSignal(), yields: newSignal(), doubts: newSignal()}
}

// Run implements [Leadership]. It competes for the Lease until ctx ends, and then releases it if it is held. So ctx has to
// outlive everything that is done as the leader: first deliver and publish what was read, then end ctx, and Run returns
// once the Lease is released.
func (e *Elector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e.try(ctx)
		timer := time.NewTimer(e.pause())
		select {
		case <-timer.C:
		case <-e.yields:
			timer.Stop()
			e.release()
			e.yielded = time.Now()
			e.mu.Lock()
			e.yielding = false
			e.mu.Unlock()
		case <-e.doubts:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
		}
		e.expire()
	}
	e.release()
}

// Yield gives the leadership up for another replica. Only after twice the LeaseDuration, this one competes again.
func (e *Elector) Yield() {
	e.mu.Lock()
	e.yielding = true
	e.mu.Unlock()
	e.set(false, time.Time{})
	e.yields.raise()
}

// Doubt ends the leadership until the Lease, which is read at once, proves it again: another replica acts as if it held it.
func (e *Elector) Doubt() {
	e.set(false, time.Time{})
	e.doubts.raise()
}

// Deadline implements [Leadership]. Until then no other replica can hold the Lease.
func (e *Elector) Deadline() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proof.Add(e.RenewDeadline), e.leads && time.Since(e.proof) <= e.RenewDeadline
}

// Leads implements [Leadership].
func (e *Elector) Leads() bool {
	_, leads := e.Deadline()
	return leads
}

// Candidate implements [Leadership].
func (e *Elector) Candidate() bool { return e.Leads() }

// Changes implements [Leadership].
func (e *Elector) Changes() <-chan struct{} { return e.changes }

// Proved implements [Leadership]. The Lease is proof enough.
func (e *Elector) Proved(int, time.Time) {}

// OtherTerm implements [Leadership]. Who holds the Lease is decided by the Lease alone.
func (e *Elector) OtherTerm(int, time.Time) {}

// pause returns the time to the next try. The leader's never exceeds the deadline, and candidates spread theirs.
func (e *Elector) pause() time.Duration {
	deadline, leads := e.Deadline()
	if leads {
		return min(e.RetryPeriod, time.Until(deadline)+time.Millisecond)
	}
	return e.RetryPeriod + rand.N(e.RetryPeriod*12/10)
}

// expire ends the leadership if its proof is too old.
func (e *Elector) expire() {
	if !e.Leads() {
		e.set(false, time.Time{})
	}
}

// set notes what is known of the leadership. A proof that came too late is none.
func (e *Elector) set(leads bool, proof time.Time) {
	e.mu.Lock()
	leads = leads && !e.yielding && time.Since(proof) <= e.RenewDeadline
	before := e.leads
	if leads && before && proof.Before(e.proof) {
		proof = e.proof
	}
	e.leads, e.proof = leads, proof
	e.mu.Unlock()
	if before != leads {
		e.changes.raise()
	}
}

// try reads the Lease, and takes or renews it if that is due. A request takes no longer than the leadership is proved.
func (e *Elector) try(ctx context.Context) {
	limit := e.RenewDeadline / 2
	if deadline, leads := e.Deadline(); leads {
		limit = min(limit, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	before, now := e.asked, time.Now()
	lease, err := e.Leases.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		lease = kubeclient.Lease{}
	case err != nil:
		e.report(ctx, err)
		return
	}
	e.asked = now
	isNew := e.observe(lease)
	mine := lease.Holder == e.Identity
	e.noteOther(mine)
	if e.Shared && mine && isNew && !before.IsZero() {
		// Another process that shares it has renewed it, after this one sent its previous request.
		e.set(true, before)
		e.report(ctx, nil)
		return
	}
	if !mine {
		e.written = false
		e.set(false, time.Time{})
		if e.isHeld() || e.letsOthersLead() {
			e.report(ctx, nil)
			return
		}
	}
	e.take(ctx, lease, mine)
}

// observe notes when the Lease was seen to change, by the own clock: that of its holder may be wrong. It reports whether it has
// changed.
func (e *Elector) observe(lease kubeclient.Lease) (isNew bool) {
	same := lease.Holder == e.lease.Holder && lease.Transitions == e.lease.Transitions && lease.Renewed.Equal(e.lease.Renewed)
	if !same || e.changed.IsZero() {
		e.changed = time.Now()
	}
	e.lease = lease
	switch {
	case e.isHeld():
		e.free = time.Time{}
	case e.free.IsZero():
		e.free = time.Now()
	}
	return !same
}

// noteOther notes who else holds the Lease.
func (e *Elector) noteOther(mine bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.other = ""; !mine && e.isHeld() {
		e.other = e.lease.Holder
	}
}

// Other returns the identity of another holder of the Lease, or "".
func (e *Elector) Other() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.other
}

// isHeld reports whether somebody may hold the Lease. A holder that asked for a longer duration has it.
func (e *Elector) isHeld() bool {
	return e.lease.Holder != "" && time.Since(e.changed) <= max(e.LeaseDuration, e.lease.Duration)
}

// letsOthersLead reports whether the replica waits for one that is ready, or to which it has yielded.
func (e *Elector) letsOthersLead() bool {
	return time.Since(e.yielded) < 2*e.LeaseDuration || e.Ready != nil && !e.Ready() && time.Since(e.free) < e.LeaseDuration
}

// take writes the Lease. The leadership is proved as of now, before the request: until others read what it writes, they
// go by an earlier state.
func (e *Elector) take(ctx context.Context, lease kubeclient.Lease, mine bool) {
	now := time.Now()
	wanted := lease
	wanted.Holder, wanted.Duration, wanted.Renewed = e.Identity, e.LeaseDuration, now
	if !mine {
		wanted.Acquired = now
		wanted.Transitions++
	}
	e.written = true
	written, err := e.Leases.Put(ctx, wanted)
	switch {
	case err == nil:
		e.observe(written)
		e.set(true, now)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		err = nil // somebody else was faster; the next try will show who
	}
	e.report(ctx, err)
}

// release gives the Lease up, so that others need not wait until it ends. Whatever becomes of the request, this replica
// no longer leads. It is also given up if it is only possible that it is held, since a write was not answered.
func (e *Elector) release() {
	e.set(false, time.Time{})
	if !e.written || e.Shared {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.RenewDeadline/2)
	defer cancel()
	for range 3 { // such a write may arrive in between
		lease, err := e.Leases.Get(ctx)
		if err != nil || lease.Holder != e.Identity {
			return
		}
		lease.Holder, lease.Duration, lease.Renewed = "", time.Second, time.Now()
		if _, err = e.Leases.Put(ctx, lease); !apierrors.IsConflict(err) {
			return // if it was not released, it ends by itself
		}
	}
}

// report reports the first of several failures in a row, and the success after them. The end of the caller's context is
// no failure.
func (e *Elector) report(ctx context.Context, err error) {
	if e.Report == nil || err != nil && ctx.Err() == context.Canceled || err == nil && !e.failing || err != nil && e.failing {
		return
	}
	e.failing = err != nil
	e.Report(err)
}
