package checkpoint

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Own describes the checkpoint that a replica has of a scope.
type Own struct {
	ResourceVersion string // everything before it was accepted; "": there is no checkpoint, or its initial state is incomplete
	// Incomplete: objects that were emitted may be missing in it.
	Incomplete bool
	Generation int // of the history of its versions; see takeover.Progress
}

// Handover is from where a reader continues the work of another replica. See docs/takeover.md.
type Handover struct {
	Position
	// Whole: the inventory of the own checkpoint holds every object that was emitted. Otherwise its objects are forgotten.
	Whole bool
	// Anew: there is no position, and the initial state is emitted again. FromRV is then the version after which that hides
	// history; "": it hides none.
	Anew   bool
	FromRV string
	From   time.Time
	// SetBack: etcd was set back since the position. Everything is compared or, if Anew, that is why history is hidden.
	SetBack bool
	// Generation is that of the history which is read from now on.
	Generation int
	// Perhaps are objects that may have been emitted in an unknown version, in addition to those of the checkpoint.
	Perhaps []redact.Identity
}

// Position is how far the records of a reader were accepted, for another replica.
type Position struct {
	ResourceVersion string // "": the initial state is not complete, or its set has to be sent again
	Closed          bool
	At              []watchlist.Key // see watchlist.Progress
	// Owed are the objects whose newest record was refused, and Denied is the stretch of history with refused records that
	// no gap record has reported.
	Owed   []redact.Identity
	Denied *watchlist.GapInfo
	// SetBack: the reader has found that etcd was set back, and what it compares since was not all accepted.
	SetBack bool
	// Compared grows with each comparison with a whole snapshot that was accepted, and is 0 before the first of the reader.
	Compared uint64
}

// handOver makes a reader continue from where another replica stopped, and reports whether it does.
func (p *plan) handOver(k *Keeper) bool {
	if k.Handover == nil {
		return false
	}
	own := Own{}
	usable := p.own != nil && len(p.parts) == 0 && p.err == nil
	if usable {
		own = Own{p.store.progress.ResourceVersion, p.store.progress.Filling != nil, p.store.progress.Generation}
	}
	h := k.Handover(p.scope, own)
	if h == nil {
		return false
	}
	progress := storedProgress{Time: p.store.progress.Time, Selected: p.store.progress.Selected}
	switch {
	case h.Anew:
		if h.FromRV != "" {
			reason := watchlist.ReasonTakeover
			if h.SetBack {
				reason = watchlist.ReasonHistoryReset
			}
			progress.Hidden = &storedHidden{reason, storedVerification{h.FromRV, h.From}}
		}
	case h.Whole && usable:
		progress = p.store.progress
		p.knownRV = progress.ResourceVersion
		if watchlist.VersionBefore(progress.ResourceVersion, h.ResourceVersion) {
			progress.ResourceVersion, progress.Closed, progress.At = h.ResourceVersion, h.Closed, slices.Clone(h.At)
		}
		if h.SetBack {
			progress.Lost = lossOf(watchlist.SetBack(progress.ResourceVersion, progress.Time))
		}
	default:
		progress.ResourceVersion, progress.Closed, progress.At = h.ResourceVersion, h.Closed, slices.Clone(h.At)
		progress.Filling = &storedVerification{h.ResourceVersion, p.store.progress.Time}
	}
	if !h.Whole || !usable {
		p.forget(k)
	}
	progress.Denied = progress.Denied.and(denialOf(h.Denied))
	progress.Generation = h.Generation
	p.store.progress = progress
	p.handedOver = h
	return true
}

// forget makes the reader start with an empty inventory.
func (p *plan) forget(k *Keeper) {
	for _, e := range p.sources() {
		if p.own == e || e.within(p.scope) {
			k.remove(e)
		}
	}
	p.own, p.parts, p.err = nil, nil, nil
	p.store = newStore(newEntry(p.scope))
}

// restored is the progress with which the reader starts. It also adds the objects that the checkpoint lacks.
func (p *plan) restored() watchlist.Progress {
	progress := p.store.progress.restored()
	h := p.handedOver
	if h == nil {
		return progress
	}
	if progress.Takeover == nil {
		progress.Takeover = &watchlist.Takeover{}
	}
	progress.Takeover.AcceptedRV, progress.Takeover.KnownRV = h.ResourceVersion, p.knownRV
	for i, id := range slices.Concat(h.Owed, h.Perhaps) {
		id.ResourceVersion = ""
		o := watchlist.Stored{Identity: id}
		key := watchlist.KeyOfIdentity(id)
		p.store.objects[key] = &o
		if i < len(h.Owed) {
			p.store.denied[key] = id
		}
		p.give(o)
	}
	return progress
}

// Positions calls f with how far the records of every reader were accepted, also of those that have ended. What these emitted
// last was perhaps not published yet.
func (k *Keeper) Positions(f func(of scope.Scope, p Position)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, p := range k.left {
		if k.stores[of] == nil {
			f(of, p)
		}
	}
	for of, s := range k.stores {
		if s.reader != nil { // see Abandon
			f(of, s.position())
		}
	}
}

func (s *store) position() Position {
	p := Position{Denied: s.progress.Denied.gap(), SetBack: s.progress.Lost.isOfSetBack(), Compared: s.compared}
	if !s.progress.SetOwed {
		p.ResourceVersion, p.Closed, p.At = s.progress.ResourceVersion, s.progress.Closed, slices.Clone(s.progress.At)
	}
	for _, id := range s.denied {
		p.Owed = append(p.Owed, id)
	}
	return p
}

// Abandon ends the use of checkpoints by readers that have returned: by this one, or by all if it is nil. What they emitted
// and was not accepted is read again by their successors.
func (k *Keeper) Abandon(reader *scope.Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.stores {
		if reader != nil && s.reader != reader {
			continue
		}
		if !s.hasEnded() {
			close(s.ended)
			s.entryChanged = true
		}
		s.reader = nil
	}
	if reader == nil {
		clear(k.left)
	}
	signal(k.wake)
}

// Led returns the identity of the process that last led with this storage, or "".
func (k *Keeper) Led() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.led
}

// SetLed stores the identity of this process before it begins to lead.
func (k *Keeper) SetLed(ctx context.Context, identity string) error {
	return k.do(ctx, []*storage.Operation{storage.SetOperation(ledKey, []byte(identity))})
}
