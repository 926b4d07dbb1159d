package watchlist

import "github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"

// TypeSet is a set of types of changes.
type TypeSet uint16

// With returns the set with one more type.
func (s TypeSet) With(t Type) TypeSet { return s | 1<<t }

// Has reports whether a type is in the set.
func (s TypeSet) Has(t Type) bool { return s&(1<<t) != 0 }

// excludes reports whether changes of the type do not become records. Without its Snapshot changes, the begin and the end
// of a set would claim a set that nobody has.
func (r *Reader) excludes(t Type) bool {
	if t == SnapshotBegin || t == SnapshotEnd {
		t = Snapshot
	}
	return r.Exclude.Has(t)
}

// prepare gives a change the form in which it is queued. The inventory and the comparisons work with the whole object.
func (r *Reader) prepare(c *Change) {
	switch {
	case !c.IsRecord():
	case r.excludes(c.Type):
		c.Excluded = true
		c.Object = redact.Object{Identity: c.Object.Identity.Clone(), Content: c.Object.Content}
	case r.Fit != nil:
		r.Fit(c)
	}
}

// prepared counts a change that was queued.
func (r *Reader) prepared(c *Change) {
	switch {
	case c.Excluded:
		r.Observer.Excluded(c.Type)
	case len(c.Cut) > 0:
		r.Observer.ObjectCut()
	}
}

// recovered counts a change that no watch event reported, if it becomes a record.
func (r *Reader) recovered(t Type) {
	if !r.excludes(t) {
		r.Observer.Recovered()
	}
}

// received counts a part of an answer.
func (r *Reader) received(c chunk) {
	if len(c.frames) > 0 {
		r.Observer.Received(len(c.frames))
	}
}

// snapshotOrigin is the origin of the events of a snapshot.
func (r *Reader) snapshotOrigin() Origin {
	if r.position.none() {
		return Initial
	}
	return Recovered
}

// foundByRelist counts an object that a relist found to differ, although the watch was open all the time.
func (r *Reader) foundByRelist(t Type, missed *lostHistory) {
	if missed.reason == reasonMissed {
		r.Observer.RelistFound(t)
	}
}
