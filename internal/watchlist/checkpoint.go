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
	r.verified = verification{parseVersion(progress.VerifiedRV), progress.VerifiedAt}
	if progress.Lost != nil {
		r.restoreLoss(progress.Lost)
	}
	r.scheduleRelistSince(r.verified.at)
	r.scheduleRotate()
}

// advanced lets whoever keeps checkpoints know that everything up to a version has been emitted. It is emitted like a
// record, so that it takes effect after all that was emitted before it was accepted.
func (r *Reader) advanced(ctx context.Context, rv version, timeout time.Duration) error {
	if r.Restore == nil {
		return nil
	}
	return r.emit(ctx, Change{Type: Advanced, Object: atVersion(rv)}, timeout)
}

// verifiedAt lets whoever keeps checkpoints know that everything was compared with a snapshot at a version.
func (r *Reader) verifiedAt(ctx context.Context, rv version) error {
	if r.Restore == nil {
		return nil
	}
	return r.emit(ctx, Change{Type: Verified, Verifies: true, Object: atVersion(rv)}, snapshotEmitTimeout)
}

// atVersion is the object of a change that is about nothing but a version.
func atVersion(rv version) redact.Object {
	return redact.Object{Identity: redact.Identity{ResourceVersion: rv.String()}}
}
