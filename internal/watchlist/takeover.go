package watchlist

import (
	"context"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// Takeover is how a reader continues the work of a reader in another process; see docs/takeover.md.
type Takeover struct {
	// AcceptedRV is the version up to which the other reader's records were accepted.
	AcceptedRV string
	// KnownRV is the version up to which the inventory holds everything that was emitted. An object that it lacks at an earlier one
	// exists again, since etcd was set back. "": nothing is known.
	KnownRV string
	// Filling means that the inventory is not known. It is read beside the stream from the position, which delivers every
	// change after it. If that history is gone, nobody knows which objects were emitted and are gone since, so that the
	// initial state is emitted anew.
	Filling bool
}

// succession is what a reader has yet to find out about the work that it continues, until a comparison is complete.
type succession struct {
	accepted version // see Takeover.AcceptedRV
	known    version // see Takeover.KnownRV
	filling  bool    // see Takeover.Filling
}

// isToAdopt reports whether the process before this one emitted a version of an object that the inventory lacks, so that it is
// only noted. The newest record of an object whose version is not known was perhaps not accepted.
func (r *Reader) isToAdopt(key Key, id redact.Identity) bool {
	s := &r.succession
	if s.accepted.none() || r.server.historyReset || r.isEntering(id.Namespace) {
		return false
	}
	rv := parseVersion(id.ResourceVersion)
	known, ok := r.inventory.get(key)
	if !ok && rv.before(s.known) {
		return false
	}
	return s.accepted.atLeast(rv) && (!ok || !known.none() && known.before(rv))
}

// adopt notes an object that the process before this one emitted.
func (r *Reader) adopt(ctx context.Context, key Key, id redact.Identity) error {
	if err := r.known(ctx, Change{Key: key, Object: redact.Object{Identity: id}}); err != nil {
		return err
	}
	r.remember(key, id, parseVersion(id.ResourceVersion))
	return nil
}

// beginAnew makes the reader emit the initial state again, because history is gone that the inventory would be needed to
// recover. What is known of the inventory leaves the checkpoint, since the set replaces it: what is gone is not in the set, and
// would be taken for missed later.
func (r *Reader) beginAnew(ctx context.Context) error {
	for _, key := range r.inventory.all() {
		if err := r.forgotten(ctx, key); err != nil {
			return err
		}
	}
	hidden := &lostHistory{reason: ReasonTakeover, doubt: certain, from: r.lastWholeVersion(), since: r.lastKnown}
	r.Logger.Warn("history is gone that only a complete inventory could replace, emitting the initial state again", r.fields(nil)...)
	r.inventory = newInventory()
	if r.Diffs != nil {
		r.lastStates.Clear()
		r.lastStates = diff.NewStates[Key](r.Diffs)
	}
	clear(r.deletedAhead)
	r.position, r.lost, r.initial = position{}, nil, snapshotSet{hidden: hidden}
	r.succession, r.sets = succession{}, sentSets{}
	return nil
}

// forgotten removes an object from the inventory and from the checkpoint. That it is gone is not emitted.
func (r *Reader) forgotten(ctx context.Context, key Key) error {
	if r.Restore != nil {
		c := Change{Type: Forgotten, Key: key, Object: redact.Object{Identity: r.inventory.identity(key)}}
		if err := r.emit(ctx, c, snapshotEmitTimeout); err != nil {
			return err
		}
	}
	r.forget(key)
	return nil
}
