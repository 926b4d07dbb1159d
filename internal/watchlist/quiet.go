package watchlist

import (
	"context"
	"time"
)

// Where no bookmarks come, as of Events, a quiet stream shows neither that it is alive nor how far the server has come: a
// muted one looks the same, and the position grows so old that its history is compacted. So it is compared with the metadata
// of the objects now and then, beside it, and if nothing differs the position moves to the version of the snapshot.

const (
	// quietSettle is how long the stream has to deliver what is on the way before the position moves.
	quietSettle = 5 * time.Second
	// aliveMemory is how soon after a quiet stream was cut the history has to be found expired for nothing to have been
	// missed but in that moment.
	aliveMemory = 5 * time.Second
)

// armQuiet schedules the comparison of the live stream, should it say nothing until then.
func (f *follower) armQuiet() {
	if f.QuietInterval <= 0 || !f.Knowledge.lacksBookmarks() {
		return
	}
	if f.schedule.quiet.IsZero() {
		f.schedule.quiet = time.Now().Add(spread(f.QuietInterval))
	}
	f.quiet.Reset(time.Until(f.schedule.quiet))
}

// catchUp is how long the live stream has to come as far as the snapshot.
func (f *follower) catchUp(l *relist) time.Duration {
	rewound, _ := l.older.prove(l.endVersion)
	if l.quiet && !rewound && !l.unidentified && len(l.pending.objects) == 0 && len(f.absentFrom(l)) == 0 {
		return quietSettle
	}
	return catchUpTimeout
}

// keepQuiet goes on with the live stream from the version of a snapshot that shows nothing new.
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

// noteAlive notes a stream that was cut after it had said nothing for a while: it was alive until then.
func (f *follower) noteAlive(end ending) {
	if end.opened && !f.quietFrom.IsZero() && time.Since(f.quietFrom) >= steadyLife && statusCode(end.err) == 0 && end.err != errSilent {
		f.server.aliveUntil = time.Now()
	}
}

// historyExpired makes up for a history that the server no longer has.
func (r *Reader) historyExpired() {
	how := certain
	if r.wasAlive() {
		how = checked
	}
	r.loseHistory(reasonExpired, how)
}

// wasAlive reports whether a quiet stream without bookmarks has just been cut. It had delivered everything, so that expired
// history means nothing unless there are differences.
func (r *Reader) wasAlive() bool {
	return r.Knowledge.lacksBookmarks() && !r.server.aliveUntil.IsZero() && time.Since(r.server.aliveUntil) <= aliveMemory
}
