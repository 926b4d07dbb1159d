package watchlist

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// restore resumes where an earlier reader of the scope stopped.
func (r *Reader) restore(ctx context.Context) {
	if r.Restore == nil {
		return
	}
	progress, err := r.Restore(ctx, &r.Scope, func(o Stored) {
		if key := keyOf(o.Identity); r.mayOwn(o.Identity) {
			r.remember(key, o.Identity, parseVersion(o.ResourceVersion))
			r.inventory.putContent(key, &redact.Content{Sum: o.Content})
			r.inventory.putAhead(key, o.Ahead)
		}
	})
	if err != nil {
		r.Observer.InventoryChanged(-r.inventory.len())
		r.inventory = newInventory()
		r.storage.later = progress.Later
		if ctx.Err() == nil {
			r.Logger.Warn("cannot restore the checkpoint, reading without what was known before", r.fields(err)...)
		}
		return
	}
	r.outdated = r.inventory.len() > 0
	r.position = position{rv: parseVersion(progress.ResourceVersion), closed: progress.Closed, at: progress.At}
	if progress.Epoch != "" {
		r.initial = snapshotSet{epoch: progress.Epoch, begun: true, objects: progress.Objects}
	}
	if g := progress.Hidden; g != nil {
		r.initial.hidden = &lostHistory{reason: g.Reason, doubt: certain, from: parseVersion(g.FromRV), since: g.From}
	}
	if progress.Denied != nil {
		r.restoreDenial(progress.Denied)
	}
	if t := progress.Takeover; t != nil {
		r.succession = succession{accepted: parseVersion(t.AcceptedRV), known: parseVersion(t.KnownRV), filling: t.Filling}
	}
	if r.position.none() {
		return
	}
	r.restoreSelection(progress.Selected)
	r.lastKnown = progress.Time
	r.verified = verification{parseVersion(progress.VerifiedRV), progress.VerifiedAt}
	if progress.Lost != nil {
		r.restoreLoss(progress.Lost)
	}
	r.scheduleRelistSince(r.verified.at)
	r.scheduleRotate()
	if r.inventory.hasUnknown() {
		r.scheduleRedelivery()
	}
	if progress.Unconfirmed || r.succession.filling {
		r.verifySoon()
	}
}

// lateStorage is a storage that was not usable when reading began.
type lateStorage struct {
	later    <-chan struct{} // closed once it is usable; nil: nothing to wait for
	restored bool            // its content has been read
}

// isReady reports whether the storage has become usable.
func (l lateStorage) isReady() bool {
	select {
	case <-l.later:
		return true
	default:
		return false
	}
}

// restoreLate begins to use a storage that was not usable when reading began. Objects that only the storage knows may
// be gone, which a relist shows. The whole inventory has to be written to it.
func (r *Reader) restoreLate(ctx context.Context) error {
	if !r.storage.restored {
		progress, err := r.Restore(ctx, &r.Scope, func(o Stored) {
			key := keyOf(o.Identity)
			if _, known := r.inventory.get(key); !known && r.mayOwn(o.Identity) {
				r.remember(key, o.Identity, version{})
			}
		})
		if err != nil {
			r.storage.later = progress.Later
			if ctx.Err() == nil {
				r.Logger.Warn("still reading without storage", r.fields(err)...)
			}
			return nil
		}
		r.storage.restored = true
		r.verifySoon()
	}
	for _, key := range r.inventory.all() {
		object := redact.Object{Identity: r.inventory.identity(key), Content: r.inventory.content(key)}
		if err := r.known(ctx, Change{Key: key, Object: object, Ahead: r.inventory.ahead(key)}); err != nil {
			return err
		}
	}
	if err := r.emit(ctx, Change{Type: Restated, Object: atVersion(r.position.rv)}, snapshotEmitTimeout); err != nil {
		return err
	}
	r.storage = lateStorage{}
	r.restateSelection()
	r.Logger.Info("storage can be used now, keeping what is known", append(r.fields(nil), zap.Int("objects", r.inventory.len()))...)
	return nil
}

// verifyDelay is how long after a restart a relist checks what is uncertain. All streams resume first.
const verifyDelay = 5 * time.Second

// verifySoon makes a relist due soon, and repeats it until one completes, even if relists are not configured.
func (r *Reader) verifySoon() {
	r.unverified = true
	r.schedule.relist = time.Now().Add(spread(verifyDelay))
}

// advanced notes in the checkpoint that everything up to a version has been emitted. It goes through the queue like a
// record, so that it takes effect only after everything emitted before it was accepted.
func (r *Reader) advanced(ctx context.Context, rv version, timeout time.Duration) error {
	if r.Restore == nil {
		return nil
	}
	return r.emit(ctx, Change{Type: Advanced, Object: atVersion(rv)}, timeout)
}

// verifiedAt notes in the checkpoint that everything was compared with a snapshot at a version.
func (r *Reader) verifiedAt(ctx context.Context, rv version) error {
	if r.Restore == nil {
		return nil
	}
	return r.emit(ctx, Change{Type: Verified, Verifies: true, Object: atVersion(rv)}, snapshotEmitTimeout)
}

// atVersion returns the object of a change that carries only a version.
func atVersion(rv version) redact.Object {
	return redact.Object{Identity: redact.Identity{ResourceVersion: rv.String()}}
}
