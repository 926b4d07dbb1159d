package watchlist

import "time"

// sentSets follows the sets of Snapshot changes that a reader emits. If the next consumer has refused the begin or the end of
// one, whoever reads the records cannot tell that the set is whole, and learns of no deletion by it. So another one is owed.
type sentSets struct {
	sending, sent string // the epochs of the set that is being emitted, and of the last one whose end was emitted
	broken        bool   // the begin of the one that is being emitted was refused
	owed          bool   // the begin or the end of the last one was refused
}

func (s *sentSets) begins(epoch string) { s.sending, s.broken = epoch, false }

func (s *sentSets) ends(epoch string) { *s = sentSets{sent: epoch, owed: s.broken} }

// refused notes that the begin or the end of a set was refused. A later set takes the place of an earlier one.
func (s *sentSets) refused(epoch string) {
	switch epoch {
	case s.sending:
		s.broken = true
	case s.sent:
		s.owed = true
	}
}

// setEnded is called when the end of a set was emitted.
func (r *Reader) setEnded(epoch string) {
	r.sets.ends(epoch)
	r.scheduleSet()
}

// scheduleSet makes sure that a set that is owed is due at some time.
func (r *Reader) scheduleSet() {
	if r.sets.owed {
		r.scheduleRedelivery()
	}
}

// relists reports whether a snapshot can be taken beside the live stream: there is one, and it is known when it has passed the
// snapshot.
func (r *Reader) relists() bool { return !r.polls() && r.position.rv.comparable() }

// isToSendAnew reports whether a set is due that no relist can send.
func (r *Reader) isToSendAnew() bool {
	at := r.schedule.redelivery.at
	return r.sets.owed && !r.position.none() && !r.relists() && !at.IsZero() && !time.Now().Before(at)
}

// sendAnew makes the next snapshot a first one, as after a restart: a set, with a gap record of what may have been missed before
// it. Of the known objects, only the fact that they were emitted is kept, so that the deletion of those that are gone is emitted.
func (r *Reader) sendAnew() {
	r.Logger.Info(sendingAnother, r.fields(nil)...)
	hidden := r.lost
	if hidden == nil {
		hidden = &lostHistory{reason: reasonRelist, doubt: certain, from: r.lastWholeVersion(), since: r.lastKnown}
	}
	for _, key := range r.inventory.all() {
		r.remember(key, r.inventory.identity(key), version{})
		r.forgetState(key)
	}
	clear(r.deletedAhead)
	r.position, r.lost, r.initial, r.succession = position{}, nil, snapshotSet{hidden: hidden}, succession{}
	r.schedule.redelivery.begins()
}

const sendingAnother = "the begin or end of the set of snapshots was refused, sending another"
