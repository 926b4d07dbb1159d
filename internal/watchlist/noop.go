package watchlist

import (
	"context"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// A version of an object that has the content that was emitted last is passed over: whoever reads the records learns
// nothing from it. The position and the inventory move all the same, here and in the checkpoint, so that it is not looked
// at again.

// isNoop reports whether another version of an object need not be emitted. After the history was set back it has to be,
// unless the last record has no higher version, which would make the coming ones look old. What dedup holds back was not
// emitted yet.
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

// sameWriter is how long after the newest entry of managedFields that entry may be of one more change. Its time has whole
// seconds, so that a second change within one leaves it as it is.
const sameWriter = 2 * time.Second

// explain says what changed, and who changed it, as far as that can be known.
func (r *Reader) explain(c *Change) {
	var before redact.Content
	switch c.Type {
	case Modified:
		before = r.inventory.content(c.Key)
		c.Sections = r.Plan.Changed(&before, &c.Object.Content)
	case Added:
	default:
		return
	}
	obj := &c.Object
	switch isSame := before.Writer != 0 && before.Writer == obj.Content.Writer; {
	case c.Sections.IsDeletion():
		// managedFields do not say who deletes.
	case isSame && r.Now().Sub(obj.Times.Updated) > sameWriter:
		// They do not say either who took something away, as a label or a finalizer.
	case obj.Managers[1].Name != "" && c.Sections.IsOnly("status"):
		c.Manager = obj.Managers[1]
	default:
		c.Manager = obj.Managers[0]
	}
}
