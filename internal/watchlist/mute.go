package watchlist

import (
	"errors"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A proxy that buffers responses lets LISTs through but holds watches back: forever, or until a few KiB have
// accumulated. The resource is then listed at intervals, and a watch is retried now and then.

// maxUnanswered is how many watches in a row may get no answer before a LIST is used instead.
const maxUnanswered = 3

// countMute counts watches that deliver nothing.
func (r *Reader) countMute(end ending) {
	switch {
	case end.snapshot, errors.Is(end.err, errPollDue):
	case end.frames > 0:
		r.server.mute, r.server.missedByMute, r.server.unanswered = 0, false, 0
	case !end.opened && isUnanswered(end.err):
		r.server.unanswered++
	case end.opened && end.lived >= resumeSilenceLimit:
		r.server.mute++
	}
}

// compareUnanswered makes the next read a LIST after several watches got no answer, and reports whether it did.
func (r *Reader) compareUnanswered(end ending) bool {
	if end.snapshot || end.opened || !isUnanswered(end.err) {
		return false
	}
	if r.server.unanswered < maxUnanswered && !r.Knowledge.doubtsWatches() {
		return false
	}
	r.setState(Unreachable, end.err)
	r.server.listNext = true
	r.loseHistory(reasonUnverified, checked)
	return true
}

// judgeWatches is called when a snapshot is complete, before the recorded loss is cleared.
func (r *Reader) judgeWatches(pass *snapshotPass) {
	differs := r.lost != nil && r.lost.differs()
	again := r.Knowledge.doubtsWatches() && r.server.mute+r.server.unanswered > 0
	switch {
	case r.server.historyReset: // that explains a silent watch
		r.server.mute = 0
	case !pass.listed && r.server.unanswered > 0:
		r.server.unanswered = 0 // streams are answered again
	case again, r.server.unanswered >= maxUnanswered, (differs || r.server.missedByMute) && r.watchesLookMute():
		r.pollInstead()
	}
}

// watchesLookMute reports whether a difference found by a comparison would show that watches deliver nothing.
func (r *Reader) watchesLookMute() bool {
	return r.server.mute > 0 && !r.Knowledge.watchDelivers.Load() || r.server.mute >= maxUnanswered
}

// suspectMute is called when a relist has found differences although the watch has never delivered anything. The next
// watch has to deliver something soon.
func (f *follower) suspectMute() {
	f.server.missedByMute = true
	f.silence.Reset(f.silenceLimit(f.live))
}

// pollInstead makes the reader list the resource at intervals.
func (r *Reader) pollInstead() {
	r.server.mute, r.server.missedByMute, r.server.unanswered = 0, false, 0
	if r.Knowledge.watchesAreMute() {
		r.log(zapcore.WarnLevel, "watches of resource deliver nothing while LIST does, perhaps because a proxy buffers responses: listing it at intervals instead", "",
			append(r.fields(nil), zap.Duration("interval", pollInterval))...)
	}
}
