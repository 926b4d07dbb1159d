package watchlist

import (
	"context"
	"time"
)

// lostHistory is a stretch of history that has to be made up for by comparing a snapshot with the
// inventory. It stays until a snapshot is complete, over as many tries as that takes.
type lostHistory struct {
	reason string
	// certain: the server said that it no longer has the history. Else it is only a suspicion, and if
	// the snapshot shows no difference there is nothing to tell.
	certain bool
	from    version
	since   time.Time

	added, modified, deleted int
}

// loseHistory makes the next thing that is read a snapshot. What was lost before stays lost.
func (r *Reader) loseHistory(reason string, certain bool) {
	if r.position.none() {
		return // nothing has been read, so nothing can be lost
	}
	if r.lost == nil {
		r.lost = &lostHistory{reason: reason, from: r.position.rv, since: r.lastKnown}
	}
	if certain && !r.lost.certain {
		r.lost.reason, r.lost.certain = reason, true
	}
}

func (l *lostHistory) count(t Type) {
	switch t {
	case Added:
		l.added++
	case Modified:
		l.modified++
	case Deleted:
		l.deleted++
	}
}

// tell emits the one record that says what could not be seen, if something could not.
func (l *lostHistory) tell(ctx context.Context, r *Reader, until version) error {
	if !l.certain && l.added+l.modified+l.deleted == 0 {
		return nil
	}
	err := r.emit(ctx, Change{Type: Gap, Origin: Recovered, Gap: &GapInfo{
		Reason: l.reason,
		FromRV: l.from.String(), ToRV: until.String(),
		From: l.since, To: r.Now(),
		Added: l.added, Modified: l.modified, Deleted: l.deleted,
	}}, snapshotEmitPatience)
	if err == nil {
		r.Observer.GapRecorded(l.reason)
	}
	return err
}
