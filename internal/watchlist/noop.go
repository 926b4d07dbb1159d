package watchlist

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// A version of an object with the content that was emitted last is not emitted: a record of it would contain nothing new.
// The position and the inventory move past it, here and in the checkpoint, so that it is not examined again.

// isNoop reports whether a version of an object changes nothing and need not be emitted. After the history was set back, a
// version lower than that of the last record has to be emitted, or the next changes would look older than that record.
// States that dedup holds back were not emitted yet, so there is nothing to compare with.
func (r *Reader) isNoop(key Key, obj *redact.Object) bool {
	if !r.SuppressNoop || r.dedup != nil || !r.holdsTheSame(key, obj) {
		return false
	}
	if r.server.historyReset {
		last := r.inventory.record(key)
		return !last.none() && parseVersion(obj.ResourceVersion).atLeast(last)
	}
	return true
}

// isNoopOfSnapshot is isNoop for a version that a snapshot holds. An earlier process may have emitted other contents after
// the one that its checkpoint has: it crashed before their acceptance was written, or never learned of it. A watch delivers
// these again in order, but a snapshot shows only the last one. If that equals the checkpoint's, it may still differ from
// what was emitted, so it is emitted until a comparison is complete. The version of the last record itself is never repeated:
// only a restore of etcd could have undone a later one.
func (r *Reader) isNoopOfSnapshot(key Key, obj *redact.Object) bool {
	if r.outdated && parseVersion(obj.ResourceVersion) != r.inventory.record(key) {
		return false
	}
	return r.isNoop(key, obj)
}

// passOver notes a version of an object that is not emitted.
func (r *Reader) passOver(ctx context.Context, c Change, timeout time.Duration) error {
	content := c.Object.Content
	rv := parseVersion(c.Object.ResourceVersion)
	if r.Restore != nil {
		c.Type, c.Ahead = Unchanged, r.inventory.aheadOf(c.Key, rv)
		c.Object = redact.Object{Identity: c.Object.Identity.Clone(), Content: content}
		if err := r.emit(ctx, c, timeout); err != nil {
			return err
		}
	}
	r.inventory.passOver(c.Key, rv, &content)
	r.Observer.Suppressed(suppressedNoop)
	return nil
}

// sameWriter is how long the newest entry of managedFields may stand for another change too. Its time has whole seconds, so
// a second change within the same second leaves the entry as it is.
const sameWriter = 2 * time.Second

// pods are the resource whose objects are assigned to nodes.
var pods = schema.GroupResource{Resource: "pods"}

// explain sets which sections changed, and who changed them, as far as that can be known.
func (r *Reader) explain(c *Change) {
	var before redact.Content
	switch c.Type {
	case Modified:
		before = r.inventory.content(c.Key)
		c.Sections = r.Plan.Changed(&before, &c.Object.Content)
		r.compare(c)
	case Added:
	default:
		return
	}
	obj := &c.Object
	isSame := before.Writer != 0 && before.Writer == obj.Content.Writer
	c.Undated = isSame && !c.Sections.IsDeletion() && r.Now().Sub(obj.Times.Updated) > sameWriter
	switch {
	case c.Sections.IsDeletion():
		// managedFields do not record who deletes an object.
	case isSame && obj.Scaler.Name != "" && c.Sections.IsOnly("spec"):
		c.Manager = obj.Scaler
	case c.Undated:
		// Nor do they record who removed something, such as a label or a finalizer.
	case isSame && r.Scope.GroupResource == pods && c.Sections.Has("spec"):
		// Nor do they record who assigned a pod to a node, which mostly happens in the second in which it was created.
	case obj.Managers[1].Name != "" && c.Sections.Has("status"):
		c.Manager = obj.Managers[1]
	default:
		c.Manager = obj.Managers[0]
	}
}
