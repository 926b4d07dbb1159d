package watchlist

import (
	"context"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// lostHistory is a stretch of history that has to be recovered by comparing a snapshot with the inventory. It stays set
// until a snapshot completes, however many tries that takes.
type lostHistory struct {
	reason string
	doubt  Doubt
	from   version
	since  time.Time

	reached version // the position when it was lost
	noted   bool    // a Suspected change was emitted
	ask     bool    // the server may still have the history: a watch will show

	object redact.Identity // the object that caused it, if one did and its identity is known
	// widened is set if unknown objects may be new only to the scope.
	widened bool

	added, modified, deleted int
	vanished                 int // deletions that are not emitted
	// unchanged counts objects that were found at another version, but with the content that was emitted last. They are
	// no difference, but they prove that something was missed.
	unchanged int
}

// Doubt is how certain it is that history was lost. It decides when a gap is emitted.
type Doubt uint8

const (
	// checked: nothing suggests a loss, but it has to be checked. Only differences make a gap.
	checked Doubt = iota
	// suspected: the stream ended in a way that may have lost something. If the server has advanced since, an object
	// may have been created and deleted again, which no snapshot shows.
	suspected
	// certain: the server no longer has the history, or sent what could not be read.
	certain
)

// loseHistory makes the next read a snapshot. An earlier loss stays recorded.
func (r *Reader) loseHistory(reason string, how Doubt) {
	if r.position.none() {
		return // nothing has been read, so nothing can be lost
	}
	if r.lost == nil {
		r.lost = &lostHistory{reason: reason, from: r.lastWholeVersion(), reached: r.position.rv, since: r.lastKnown}
	}
	if r.lost.ask && (reason == reasonExpired || reason == ReasonTakeover) { // it does not, and an earlier process emitted differences without a gap
		r.lost.noted = false
		r.lost.added, r.lost.modified, r.lost.deleted, r.lost.vanished, r.lost.unchanged = 0, 0, 0, 0, 0
	}
	r.lost.ask = false
	if how > r.lost.doubt {
		r.lost.reason, r.lost.doubt, r.lost.noted = reason, how, false
	}
	r.noteLoss()
}

// lastWholeVersion returns a version up to and including which everything was read. Without bookmarks, the events of the
// position's own version may have been cut off in the middle.
func (r *Reader) lastWholeVersion() version {
	if r.Knowledge.lacksBookmarks() {
		return r.position.allBefore(r.position.rv)
	}
	return r.position.rv
}

// resetHistory notes that the server's versions belong to another history: from now on versions can only be compared
// for equality, and everything has to be compared.
func (r *Reader) resetHistory(cause error) {
	r.server.behindSince = time.Time{}
	r.server.historyReset = true
	r.loseHistory(ReasonHistoryReset, certain)
	if r.lost != nil && r.lost.reason != ReasonHistoryReset {
		r.lost.reason, r.lost.noted = ReasonHistoryReset, false
		r.noteLoss()
	}
	r.Logger.Warn("server's history was set back, comparing everything with a fresh snapshot", r.fields(cause)...)
}

// compareBeside finishes a recovery that an earlier process had begun, by comparing with a snapshot beside the live
// stream. The stream resumes from the position, so it also delivers objects that were created and deleted since. An
// object that the earlier process emitted from its snapshot may be in no checkpoint; then only its deletion event shows
// that it is gone.
func (r *Reader) compareBeside() {
	r.schedule.relistObjects = true
	r.verifySoon()
}

// ScopeChange returns the suspicion of a reader that starts with the inventory of other scopes, known up to a version.
func ScopeChange(rv string, at time.Time) Suspicion {
	return Suspicion{Doubt: suspected, Gap: GapInfo{Reason: reasonScopeChanged, FromRV: rv, From: at}}
}

// SetBack returns the suspicion of a reader that begins after etcd was set back: it compares everything, by equality.
func SetBack(rv string, at time.Time) Suspicion {
	return Suspicion{Doubt: certain, Gap: GapInfo{Reason: ReasonHistoryReset, FromRV: rv, From: at}}
}

// The reasons why a first snapshot may hide history; see [Progress].
const (
	// ReasonResharded: some of its objects were in another shard before.
	ReasonResharded = "resharded"
	// ReasonTakeover: this process continues the work of another one, and the history in between is gone.
	ReasonTakeover = "takeover"
	// ReasonHistoryReset: etcd was set back. It is also a reason to compare everything.
	ReasonHistoryReset = "history_reset"
	// ReasonSetRefused: its set is another one, since the next consumer refused the begin or the end of the last.
	ReasonSetRefused = "set_refused"
)

const (
	reasonScopeChanged = "scope_changed"
	reasonExpired      = "expired"
	reasonRelist       = "relist" // between two snapshots, where there is no watch, nobody looks
	reasonUnverified   = "unverified"
	reasonUndecodable  = "undecodable"
	reasonMissed       = "missed_by_watch"
)

func (l *lostHistory) suspicion() Change {
	return Change{Type: Suspected, Doubt: l.doubt, Gap: &GapInfo{
		Reason: l.reason, FromRV: l.from.String(), From: l.since,
		Added: l.added, Modified: l.modified, Deleted: l.deleted, Unchanged: l.unchanged, Object: l.object,
	}}
}

// noteLoss passes the suspicion to the checkpoint at once, unless the queue is full.
func (r *Reader) noteLoss() {
	if r.Restore != nil && !r.lost.noted {
		r.lost.noted = r.offer(r.lost.suspicion())
	}
}

// note writes the suspicion to the checkpoint before anything that results from it is emitted, so that it survives a
// restart.
func (l *lostHistory) note(ctx context.Context, r *Reader) error {
	if l == nil || l.noted || r.Restore == nil {
		return nil
	}
	err := r.emit(ctx, l.suspicion(), snapshotEmitTimeout)
	l.noted = err == nil
	return err
}

// restoreLoss continues with a suspicion of an earlier process.
func (r *Reader) restoreLoss(s *Suspicion) {
	r.lost = &lostHistory{
		reason: s.Gap.Reason, doubt: s.Doubt, from: parseVersion(s.Gap.FromRV), since: s.Gap.From, noted: true,
		added: s.Gap.Added, modified: s.Gap.Modified, deleted: s.Gap.Deleted, unchanged: s.Gap.Unchanged, object: s.Gap.Object,
	}
	if r.lost.reached = r.lost.from; r.lost.from == r.lastWholeVersion() {
		r.lost.reached = r.position.rv
	}
	r.server.historyReset = s.Gap.Reason == ReasonHistoryReset
	r.lost.widened = s.Gap.Reason == reasonScopeChanged
	switch s.Gap.Reason {
	case reasonExpired, ReasonTakeover, reasonDropped, reasonMissed:
		r.lost.ask = true
	case reasonScopeChanged:
		r.lost.ask = s.Begun
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

// countUnchanged counts an object that was found at another version, with the content that was emitted last.
func (l *lostHistory) countUnchanged() {
	if l != nil {
		l.unchanged++
	}
}

// differences returns the number of emitted differences, which a gap record reports.
func (l *lostHistory) differences() int { return l.added + l.modified + l.deleted }

// differs reports whether a comparison found anything that was missed, including what is not emitted.
func (l *lostHistory) differs() bool { return l.differences()+l.vanished+l.unchanged > 0 }

// isGap reports whether a snapshot at that version shows, or leaves possible, that changes were missed.
func (l *lostHistory) isGap(until version) bool {
	switch {
	case l.differences() > 0:
		return true
	case l.unchanged > 0 && l.reason != reasonRelist:
		return true // what was not seen may have been a change that was taken back
	case l.doubt == checked:
		return false
	case l.reason == ReasonHistoryReset, l.reason == reasonUndecodable:
		return true
	}
	return until != l.reached // else the server has not advanced, and nothing can have been missed
}

// gap returns the one record that describes the lost history.
func (l *lostHistory) gap(r *Reader, until version) Change {
	return Change{Type: Gap, Origin: Recovered, Verifies: true, Gap: &GapInfo{
		Reason: l.reason,
		FromRV: l.from.String(), ToRV: until.String(),
		From: l.since, To: r.Now(),
		Added: l.added, Modified: l.modified, Deleted: l.deleted, Object: l.object,
	}}
}
