package watchlist

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// With diffs, a reader keeps the last state of each object as it was emitted, redacted and compressed. It is not part of
// the checkpoint, which holds no objects: after a restart, an object has to be read once before a diff of it is known.

// compare sets what changed in a modified object.
func (r *Reader) compare(c *Change) {
	if r.lastStates == nil || c.Type != Modified || r.excludes(Modified) || c.Object.JSON == "" {
		return
	}
	if before := r.lastStates.Get(c.Key); before != nil {
		c.Diff = diff.Compare(before, []byte(c.Object.JSON), r.Plan.Ignores)
	}
}

// keepState keeps a state that was emitted.
func (r *Reader) keepState(key Key, obj *redact.Object) {
	if r.lastStates != nil {
		r.lastStates.Put(key, obj.JSON)
	}
}

// lastState returns the last state of an object as JSON, or "" if it is not known.
func (r *Reader) lastState(key Key) string {
	if r.lastStates == nil {
		return ""
	}
	return string(r.lastStates.Get(key))
}

// forgetState is called when the deletion of an object was emitted, or when its last record was dropped.
func (r *Reader) forgetState(key Key) {
	if r.lastStates != nil {
		r.lastStates.Remove(key)
	}
}
