package watchlist

import (
	"context"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// Reasons for not emitting a change, as the metric names them.
const (
	suppressedNoop     = "noop"
	suppressedDeletion = "deleted"
	suppressedState    = "dedup_interval"
)

// emitDeletion emits the deletion of an object. If deletions are omitted, it emits a change that only updates the
// checkpoint.
func (r *Reader) emitDeletion(ctx context.Context, c Change, timeout time.Duration) error {
	if !r.OmitDeletions {
		return r.emit(ctx, c, timeout)
	}
	if r.Restore != nil || r.dedup != nil {
		c.Type, c.Object = Forgotten, redact.Object{Identity: c.Object.Identity.Clone()}
		if err := r.emit(ctx, c, timeout); err != nil {
			return err
		}
	}
	r.Observer.Suppressed(suppressedDeletion)
	return nil
}

// countDeletion counts a deletion that a comparison has found. One that is omitted is no reason for a gap.
func (r *Reader) countDeletion(found *lostHistory) {
	if r.OmitDeletions {
		found.vanished++
		return
	}
	found.count(Deleted)
}
