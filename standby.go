package k8swatchlistreceiver

import (
	"context"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// newMirror returns the reader of a standby. It reads identities only, and emits into the mirror, from where the checkpoint
// follows the leader's.
func (x *replica) newMirror(t catalog.Target) catalog.Reader {
	m := takeover.NewMirror(x.keeper.Accepted)
	m.IsStill = func(ctx context.Context, from, to string) bool {
		return watchlist.IsStill(ctx, watchlist.MetadataOpener{Opener: x.client}, t.Scope, t.API, from, to)
	}
	var reader *watchlist.Reader
	o := x.readsOf(t)
	o.Plan = redact.NewPlan(t.Scope.Group, t.Scope.Resource)
	o.Opener, o.Emitter = watchlist.MetadataOpener{Opener: x.client}, m
	o.SkipInitial = true
	o.Observer = standbyObserver{scope: t.Scope, optional: t.ByPattern, health: x.health, mirror: m}
	o.EmitLast = func(watchlist.Change) {
		x.health.forget(t.Scope.String())
		x.keeper.Abandon(&reader.Scope) // what the leader has published is in its checkpoint
	}
	o.Restore = func(ctx context.Context, of *scope.Scope, add func(watchlist.Stored)) (watchlist.Progress, error) {
		progress, err := x.keeper.Restore(ctx, of, add)
		m.Restored(progress)
		return progress, err
	}
	x.health.reading(t.Scope, watchlist.State{}, t.ByPattern)
	reader = watchlist.NewReader(o)
	x.mirrors.Add(t.Scope, m)
	return reader
}

// hasten makes a standby ready where nothing happens, without waiting for the leader's next bookmarks.
func (x *replica) hasten(ctx context.Context) {
	ticker := time.NewTicker(x.publishInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		x.mu.Lock()
		mirrors, published, isOther := x.mirrors, x.seen, x.behind || x.seen.Generation != x.gen
		x.mu.Unlock()
		if !isOther { // versions of two histories cannot be compared
			mirrors.Ask(ctx, &published)
		}
	}
}

// standbyObserver passes on the state of a standby's reader.
type standbyObserver struct {
	watchlist.NopObserver
	scope    scope.Scope
	optional bool
	health   *health
	mirror   *takeover.Mirror
}

// StateChanged implements watchlist.Observer.
func (o standbyObserver) StateChanged(s watchlist.State) {
	o.mirror.SetFault(s.Condition.IsFault())
	switch s.Condition {
	case watchlist.Reading, watchlist.Paused: // paused until the leader has published more
		s = watchlist.State{Condition: watchlist.Standby}
	}
	o.health.reading(o.scope, s, o.optional)
}
