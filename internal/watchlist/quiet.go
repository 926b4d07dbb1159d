package watchlist

import (
	"context"
	"time"
)

// Without bookmarks, as for Events, a quiet stream shows neither that it is alive nor how far the server has advanced:
// a muted stream looks the same, and the position grows so old that its history is compacted. A metadata snapshot is
// therefore compared beside it now and then, and if nothing differs the position moves to the version of the snapshot.

const (
	// quietSettle is how long the stream gets to deliver events in flight before the position moves.
	quietSettle = 5 * time.Second
	// aliveMemory is how long after a quiet stream was cut an expired history proves no loss: nothing can have been
	// missed except in that moment.
	aliveMemory = 5 * time.Second
)

// armQuiet schedules the comparison of the live stream, in case it stays silent until then.
func (f *follower) armQuiet() {
	if f.QuietInterval <= 0 || !f.Knowledge.lacksBookmarks() {
		return
	}
	if f.schedule.quiet.IsZero() {
		f.schedule.quiet = time.Now().Add(spread(f.QuietInterval))
	}
	f.quiet.Reset(time.Until(f.schedule.quiet))
}

// catchUp returns how long the live stream may take to reach the snapshot's version.
func (f *follower) catchUp(l *relist) time.Duration {
	rewound, _ := l.older.prove(l.endVersion)
	if l.quiet && !rewound && !l.unidentified && len(l.pending.objects) == 0 && len(f.absentFrom(l)) == 0 {
		return quietSettle
	}
	return catchUpTimeout
}

// keepQuiet keeps the live stream and moves the position to the version of a snapshot that shows nothing new.
func (f *follower) keepQuiet(ctx context.Context) error {
	at := f.successor.relist.endVersion
	f.dropSuccessor()
	if !f.position.hasPassed(at) {
		if err := f.advanced(ctx, at, liveEmitTimeout); err != nil {
			return err
		}
		f.position.close(at)
		f.lastKnown = f.Now()
	}
	f.schedule.quiet = time.Time{}
	f.armQuiet()
	return f.readLive(ctx)
}

// noteAlive notes that a stream that was cut after a silence had been alive until then.
func (f *follower) noteAlive(end ending) {
	if end.opened && !f.quietFrom.IsZero() && time.Since(f.quietFrom) >= steadyLife && statusCode(end.err) == 0 && end.err != errSilent {
		f.server.aliveUntil = time.Now()
	}
}

// historyExpired records that the server no longer has the history.
func (r *Reader) historyExpired() {
	how := certain
	if r.wasAlive() {
		how = checked
	}
	reason := reasonExpired
	if !r.position.none() && r.position.rv == r.succession.accepted {
		reason = ReasonTakeover // this process has read nothing since
	}
	r.loseHistory(reason, how)
}

// wasAlive reports whether a quiet stream without bookmarks has just been cut. It had delivered everything, so that an
// expired history means a loss only if there are differences.
func (r *Reader) wasAlive() bool {
	return r.Knowledge.lacksBookmarks() && !r.server.aliveUntil.IsZero() && time.Since(r.server.aliveUntil) <= aliveMemory
}
