package watchlist

import (
	"context"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// restore takes up where an earlier reader of the resource was stopped.
func (r *Reader) restore(ctx context.Context) {
	if r.Restore == nil {
		return
	}
	progress, err := r.Restore(ctx, r.Scope, func(id redact.Identity) {
		if key := keyOf(id); r.owns(key) {
			r.remember(key, id, parseVersion(id.ResourceVersion))
		}
	})
	if err != nil {
		r.Observer.InventoryChanged(-r.inventory.len())
		r.inventory = newInventory()
		if ctx.Err() == nil {
			r.Logger.Error("checkpoint is of no use", r.fields(err)...)
		}
		return
	}
	r.position = position{rv: parseVersion(progress.ResourceVersion), closed: progress.Closed, at: progress.At}
	r.initial = snapshotSet{epoch: progress.Epoch, begun: progress.Epoch != "", objects: progress.Objects}
	if r.position.none() {
		return
	}
	r.lastKnown = progress.Time
	r.verified = verification{r.position.rv, progress.Time}
	r.scheduleRelist(r.RelistInterval)
	r.scheduleRotate()
}

// advanced tells whoever keeps checkpoints that everything up to a version has been told. It is emitted
// like a record, so that it takes effect after all that was emitted before it was accepted.
func (r *Reader) advanced(ctx context.Context, rv version, timeout time.Duration) error {
	if r.Restore == nil {
		return nil
	}
	return r.emit(ctx, Change{Type: Advanced, Object: redact.Object{Identity: redact.Identity{ResourceVersion: rv.String()}}}, timeout)
}
