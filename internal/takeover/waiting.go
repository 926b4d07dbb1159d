package takeover

import (
	"cmp"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// waiting is a change that the leader has not published as accepted yet: what a checkpoint needs of it, in a fifth of the memory.
type waiting struct {
	scope *scope.Scope
	key   watchlist.Key
	id    redact.Identity
	read  int64 // when it was read, Unix nanoseconds

	typ                                           watchlist.Type
	origin                                        watchlist.Origin
	inferred, advances, closes, verifies, rewinds bool

	whole *watchlist.Change // nil: the rest is empty
}

// waitingOf returns what outlives the frame of a change.
func waitingOf(c *watchlist.Change) waiting {
	w := waiting{
		scope: c.Scope, key: c.Key, id: c.Object.Identity.Clone(), read: c.ReadAt.UnixNano(), typ: c.Type, origin: c.Origin,
		inferred: c.Inferred, advances: c.Advances, closes: c.Closes, verifies: c.Verifies, rewinds: c.Rewinds,
	}
	if c.Gap != nil || c.Snapshot != nil || c.Selected != nil || c.Doubt != 0 || c.Stay != "" || c.Ahead != 0 {
		whole := *c
		whole.Object = redact.Object{Identity: w.id}
		whole.Diff, whole.Cut, whole.Manager = nil, nil, redact.Manager{}
		w.whole = &whole
	}
	return w
}

// change is the inverse of waitingOf.
func (w *waiting) change() watchlist.Change {
	if w.whole != nil {
		return *w.whole
	}
	return watchlist.Change{
		Scope: w.scope, Key: w.key, Object: redact.Object{Identity: w.id}, ReadAt: time.Unix(0, w.read), Type: w.typ, Origin: w.origin,
		Inferred: w.inferred, Advances: w.advances, Closes: w.closes, Verifies: w.verifies, Rewinds: w.rewinds,
	}
}

// version is that of the object or, if the change is of none, the one that it has reached.
func (w *waiting) version() string {
	if w.whole != nil {
		return cmp.Or(w.id.ResourceVersion, w.whole.ReachedVersion())
	}
	return w.id.ResourceVersion
}
