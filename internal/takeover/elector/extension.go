package elector

import (
	"context"
	"sync"
	"time"
)

// Callbacks is what the extension k8s_leader_elector of the Collector offers to receivers. It calls start when its replica
// begins to lead and stop when it ceases to.
type Callbacks interface {
	SetCallBackFuncs(start func(context.Context), stop func())
}

// ExtensionOptions configure what follows the extension. LeaseDuration must be longer than RenewDeadline.
type ExtensionOptions struct {
	Callbacks Callbacks
	// RenewDeadline is how long a write of the progress object proves that this replica leads.
	RenewDeadline time.Duration
	// LeaseDuration is how long a replica whose term was replaced waits before it replaces that of the other one, if
	// the extension still tells it to lead. Most likely the extension has yet to notice that it lost its Lease, which it
	// does RenewDeadline + RetryPeriod after that at the latest.
	LeaseDuration time.Duration
}

// Extension follows the election of another extension of the Collector. That says only that it begins and ceases to lead:
// not when it last renewed its Lease, so that it may say so long after another replica has taken it, for instance if the
// process was stopped. What it says therefore makes this replica no more than a candidate. It leads for RenewDeadline after
// each write of its term into the progress object, and only once such a write of any other replica is so old that the
// deadline of that one is over too. So two replicas never lead, whatever their extensions say.
//
// A replica that is not ready cannot let others go first, since the extension takes the Lease without asking.
type Extension struct {
	ExtensionOptions
	changes signal
	wake    signal // for Run

	mu      sync.Mutex
	ended   bool            // Run has returned; the extension may call all the same
	told    context.Context // that the extension gave when it said that this replica leads; nil: it does not
	began   time.Time       // requests that were sent before then prove nothing
	proof   time.Time       // when the write was sent that last proved the leadership; zero: none
	other   time.Time       // when the newest write of another replica was read; it was sent before
	term    int             // the highest that was read or written; 0: none
	waiting time.Time       // until when another replica is to be left alone
}

// NewExtension returns what does nothing before Run.
func NewExtension(o ExtensionOptions) *Extension {
	return &Extension{ExtensionOptions: o, changes: newSignal(), wake: newSignal()}
}

// Run implements [Leadership]. It does not wait for the extension, which serves receivers one after the other: it may take
// a receiver from us only after another one has ended a callback. The extension cannot be told to forget the callbacks.
func (x *Extension) Run(ctx context.Context) {
	go x.Callbacks.SetCallBackFuncs(x.start, x.stop)
	var candidate, leads bool
	for ctx.Err() == nil {
		state := x.state()
		if state.candidate != candidate || state.leads != leads {
			candidate, leads = state.candidate, state.leads
			x.changes.raise()
		}
		timer := time.NewTimer(state.lasts)
		select {
		case <-timer.C:
		case <-x.wake:
		case <-state.lost:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	x.mu.Lock()
	x.ended, x.told = true, nil
	x.mu.Unlock()
	if candidate {
		x.changes.raise()
	}
}

// start is called by the extension, which may hold a lock of its own, and calls nobody else before this returns. ctx may be
// one that never ends.
func (x *Extension) start(ctx context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || ctx.Err() != nil { // stop may have been called before
		return
	}
	if x.told == nil || x.told.Err() != nil {
		x.began, x.proof, x.waiting = time.Now(), time.Time{}, time.Time{}
	}
	x.told = ctx
	x.wake.raise()
}

// stop is called like start, perhaps although start was not.
func (x *Extension) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told = nil
	x.wake.raise()
}

// othersEnd returns until when another replica may lead. Its clock may be slower by a sixth.
func (x *Extension) othersEnd() time.Time { return x.other.Add(x.RenewDeadline * 6 / 5) }

type extensionState struct {
	candidate, leads bool
	deadline         time.Time
	lasts            time.Duration   // how long, unless something happens
	lost             <-chan struct{} // closed when the extension's context ends
}

func (x *Extension) state() extensionState {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	state := extensionState{deadline: x.proof.Add(x.RenewDeadline), lasts: time.Hour}
	if x.told == nil || x.told.Err() != nil {
		return state
	}
	state.lost = x.told.Done()
	// until reports whether a time is still to come, at which the state will change.
	until := func(t time.Time) bool {
		if now.After(t) {
			return false
		}
		state.lasts = min(state.lasts, t.Sub(now)+time.Millisecond)
		return true
	}
	if until(x.waiting) {
		return state
	}
	state.candidate = true
	state.leads = !until(x.othersEnd()) && until(state.deadline)
	return state
}

// Candidate implements [Leadership].
func (x *Extension) Candidate() bool { return x.state().candidate }

// Leads implements [Leadership].
func (x *Extension) Leads() bool { return x.state().leads }

// Deadline implements [Leadership].
func (x *Extension) Deadline() (time.Time, bool) {
	state := x.state()
	return state.deadline, state.leads
}

// Changes implements [Leadership].
func (x *Extension) Changes() <-chan struct{} { return x.changes }

// Proved implements [Leadership].
func (x *Extension) Proved(term int, sent time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.term = max(x.term, term)
	if x.told == nil || sent.Before(x.began) || sent.Before(x.proof) {
		return
	}
	x.proof = sent
	x.wake.raise()
}

// OtherTerm implements [Leadership]. A term that is higher than the one that was known belongs to a replica that began to
// lead after this one was told to. That of a leader before it is known already.
func (x *Extension) OtherTerm(term int, read time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.other = read
	if x.told != nil && x.term != 0 && term > x.term {
		x.began, x.proof, x.waiting = read, time.Time{}, read.Add(x.LeaseDuration)
	}
	x.term = max(x.term, term)
	x.wake.raise()
}
