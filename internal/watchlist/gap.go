package watchlist

import (
	"context"
	"time"
)

// lostHistory is a stretch of history that has to be made up for by comparing a snapshot with the
// inventory. It stays until a snapshot is complete, over as many tries as that takes.
type lostHistory struct {
	reason string
	doubt  doubt
	from   version
	since  time.Time

	// widened: the objects that are not known may be new only to the scope.
	widened bool

	added, modified, deleted int
}

// doubt says how sure it is that history was lost, and so when there is a gap to tell of.
type doubt uint8

const (
	// checked: nothing speaks for a loss, but it has to be looked at. Only differences are told of.
	checked doubt = iota
	// suspected: the stream ended in a way that may have lost something. Unless the server has not come further
	// since, an object may have come and gone, which no snapshot shows.
	suspected
	// certain: the server no longer has the history, or sent what could not be read.
	certain
)

// loseHistory makes the next thing that is read a snapshot. What was lost before stays lost.
func (r *Reader) loseHistory(reason string, how doubt) {
	if r.position.none() {
		return // nothing has been read, so nothing can be lost
	}
	if r.lost == nil {
		r.lost = &lostHistory{reason: reason, from: r.position.rv, since: r.lastKnown}
	}
	if how > r.lost.doubt {
		r.lost.reason, r.lost.doubt = reason, how
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
	differences := l.added + l.modified + l.deleted
	if differences == 0 && (l.doubt == checked || l.doubt == suspected && until == l.from) {
		return nil
	}
	err := r.emit(ctx, Change{Type: Gap, Origin: Recovered, Gap: &GapInfo{
		Reason: l.reason,
		FromRV: l.from.String(), ToRV: until.String(),
		From: l.since, To: r.Now(),
		Added: l.added, Modified: l.modified, Deleted: l.deleted,
	}}, snapshotEmitTimeout)
	if err == nil {
		r.Observer.GapRecorded(l.reason)
	}
	return err
}
