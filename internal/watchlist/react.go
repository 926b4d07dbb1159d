package watchlist

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// react decides what to do after the end of a stream: resume from the position or take a snapshot instead, and how long
// to wait before that. The cases are those that a real API server, or a proxy in front of it, can produce.
func (r *Reader) react(ctx context.Context, end ending) {
	r.Observer.StreamEnded(end.reason())
	if end.lived >= steadyLife {
		r.backoff.Reset()
		r.faults.unexpectedErrors = 0
	}
	r.countFruitless(end)
	r.checkQuiet(end)
	r.countMute(end)
	err := end.err
	if end.listed {
		r.noteFailedList(err)
	}
	switch {
	case errors.Is(err, errPollDue) && !r.polls():
		return // a watch is retried

	case errors.Is(err, errPollDue), errors.Is(err, errRelistDue):
		r.loseHistory(reasonRelist, checked)
		return

	case errors.Is(err, errRewound):
		return // a second snapshot will be compared by equality

	case errors.Is(err, errQueueFull):
		r.Observer.Paused()
		r.setState(Paused, nil)
		_ = r.Emitter.WaitForRoom(ctx) // fails only if ctx has ended
		return

	case end.listed && isForbidden(err) && r.listForbidden(err):
		r.wait(ctx, r.backoff.NextBackOff())
		return

	case errors.Is(err, errLackedObjects):
		return // it is listed now

	case errors.Is(err, errUnconfirmed):
		r.wait(ctx, r.backoff.NextBackOff())
		return

	case isForbidden(err), isUnauthorized(err):
		// Lost rights prove nothing about the objects: the inventory stays.
		r.setState(Forbidden, r.withMissing(ctx, end))
		if r.Optional && isForbidden(err) {
			r.wait(ctx, spread(parkInterval))
			return
		}
		r.wait(ctx, r.slow.NextBackOff())
		return

	case isNotFound(err):
		r.awaitServed(ctx, err)
		return

	case isExpired(err) && !end.snapshot:
		// An API server loses its history when it restarts or a CRD is edited; nothing is wrong.
		r.Knowledge.historyGone(r.position.rv)
		r.historyExpired()
		r.paceRecovery(ctx, end)
		return

	case isExpired(err) && !end.listed:
		// kube-apiserver accepts any version for a snapshot, but not every server does.
		r.Knowledge.takeAnyVersion()

	case isVersionTooLarge(err), errors.Is(err, errStale):
		r.awaitHistory(ctx, err)
		return

	case end.snapshot && !end.listed && r.givesUpStreaming(end):
		return

	case r.compareUnanswered(end):
		return

	case isWatchUnsupported(err) && !end.listed:
		if r.Knowledge.notWatchable() {
			r.Logger.Warn("server does not let resource be watched, listing it at intervals instead", r.fields(err)...)
		}
		return

	case isBadRequest(err) && !end.snapshot, isInvalid(err) && !end.snapshot:
		r.reactToRefusedVersion(ctx, err)
		return

	case isRefused(err), isInvalid(err), isWatchUnsupported(err):
		r.setState(Refused, err)
		r.wait(ctx, spread(parkInterval))
		return

	case errors.Is(err, errSilent):
		// The stream may hang, on this connection or at this API server. If a resumed watch never delivers anything,
		// the position may also lie in the future of a server that was set back: such a watch is accepted and stays
		// silent forever.
		r.server.freshNext = true
		r.reactToSilence(end)
		return

	case errors.Is(err, errUndecodable), errors.Is(err, ErrFrameTooLarge):
		if end.snapshot {
			r.faults.badSnapshots++
		} else if r.faults.badFrames > 1 {
			r.loseHistory(reasonUndecodable, certain)
			if r.lost != nil {
				r.lost.object = objectTooLarge(err)
			}
			r.Logger.Error("watch event cannot be decoded, going around it with a fresh snapshot", r.fields(err)...)
		}

	case isCleanEnd(err) && end.opened && !end.snapshot:
		r.reactToCleanEnd(ctx, end)
		return

	case statusCode(err) != 0 && end.opened && !end.snapshot:
		if r.faults.unexpectedErrors++; r.faults.unexpectedErrors >= maxUnexpectedErrors {
			r.faults.unexpectedErrors = 0
			r.loseHistory("server_error", suspected)
		}
	}
	if !end.opened {
		r.setState(Unreachable, err)
		// Behind a load balancer, another connection may reach a healthier API server.
		r.server.freshNext = r.server.freshNext || statusCode(err) >= http.StatusInternalServerError
	}
	r.waitAsAsked(ctx, err)
}

func (r *Reader) reactToSilence(end ending) {
	r.server.quiet = 0
	r.log(zapcore.WarnLevel, "nothing arrived on stream for too long, not even a bookmark: opening another", "silent",
		append(r.fields(nil), zap.Duration("after", end.lived))...)
	if end.frames == 0 {
		doubt := suspected
		if r.Knowledge.doubtsWatches() {
			doubt = checked // only a retry was needed
		}
		r.loseHistory("silent", doubt)
		r.Knowledge.silentWatch()
	}
}

// maxQuiet bounds the time between comparisons if streams are cut before a bookmark is due.
const maxQuiet = 8 * time.Minute

// checkQuiet compares after a series of streams that were cut, as some load balancers do with idle ones, and that were
// silent for too long in total. Each was alive until then, so nothing suggests a loss, but the position may lie in the
// future of a server that was set back. Each comparison that finds nothing doubles the time to the next.
func (r *Reader) checkQuiet(end ending) {
	limit := min(resumeSilenceLimit<<r.server.quietChecks, maxQuiet)
	if end.snapshot || errors.Is(end.err, errSilent) || r.Knowledge.lacksBookmarks() || r.server.quiet < limit {
		return
	}
	r.server.quiet = 0
	r.server.quietChecks = min(r.server.quietChecks+1, 4)
	r.loseHistory("silent", checked)
}

// reactToRefusedVersion handles a server that refuses a watch from the position. If a second try fails too, the version
// means nothing to the server, as after it was replaced by another.
func (r *Reader) reactToRefusedVersion(ctx context.Context, err error) {
	if r.faults.refusedVersions++; r.faults.refusedVersions >= maxRefusedVersions {
		r.faults.refusedVersions = 0
		r.resetHistory(err)
		return
	}
	r.wait(ctx, r.backoff.NextBackOff())
}

const (
	maxRecoveryPace = time.Minute
	maxFutilePace   = 5 * time.Minute
	quickRecoveries = 2
)

// paceRecovery waits before a snapshot if recoveries follow one another without a live event or bookmark between them.
// Otherwise a server that keeps losing its history, or whose watch never knows the version of its list, would be asked
// for everything again and again. Changes in the meantime come, delayed, with the next snapshot.
func (r *Reader) paceRecovery(ctx context.Context, end ending) {
	r.server.recoveries++
	pace, most := time.Duration(0), maxRecoveryPace
	n := r.server.recoveries - quickRecoveries
	if r.server.futile > 0 {
		n, most = max(n, r.server.futile), maxFutilePace
	}
	if n > 0 {
		pace = spread(min(steadyLife<<min(n-1, 10), most))
	}
	since := time.Since(r.schedule.lastSnapshot)
	switch {
	case since < pace:
		r.wait(ctx, pace-since)
	case since < steadyLife && end.lived < steadyLife:
		r.wait(ctx, r.backoff.NextBackOff())
	}
}

// reactToCleanEnd handles a stream that the server ended normally: its time was up, the server is shutting down, or it
// found this watcher too slow.
func (r *Reader) reactToCleanEnd(ctx context.Context, end ending) {
	usual := r.isUsualEnd(end)
	if end.frames == 0 && end.lived < shortLife && !usual {
		// Some platforms end a watch from an expired version at once and without an error.
		// https://github.com/kubernetes/kubernetes/issues/104171
		if r.faults.shortEmptyStreams++; r.faults.shortEmptyStreams >= maxShortEmptyStreams {
			r.faults.shortEmptyStreams = 0
			r.loseHistory("closed_repeatedly", suspected)
		}
	} else {
		r.faults.shortEmptyStreams = 0
	}
	if end.frames == 0 && end.lived >= shortLife && r.Knowledge.lacksBookmarks() &&
		time.Since(r.schedule.lastSnapshot) >= unverifiedInterval && r.Now().Sub(r.verified.at) >= unverifiedInterval {
		// Without bookmarks, a watch from a future version looks like a quiet one.
		r.loseHistory(reasonUnverified, checked)
	}
	switch {
	case end.lived >= steadyLife:
		r.wait(ctx, rand.N(time.Second))
	case usual:
		r.backoff.Reset()
		r.wait(ctx, max(rand.N(time.Second), shortLife-end.lived))
	default:
		r.wait(ctx, r.backoff.NextBackOff())
	}
}

// isUsualEnd reports whether the server normally ends streams like this one: after it delivered something, or after
// about as long as the previous one. Some proxies allow a stream only a few seconds.
func (r *Reader) isUsualEnd(end ending) bool {
	usual := end.frames > 0 || r.server.streamLife > 0 && end.lived >= r.server.streamLife*8/10
	if end.frames > 0 || end.lived >= shortLife {
		r.server.streamLife = end.lived
	}
	return usual
}

// givesUpStreaming decides, after an incomplete streamed snapshot, whether the next one is a LIST.
func (r *Reader) givesUpStreaming(end ending) bool {
	err := end.err
	switch {
	case statusCode(err) == http.StatusBadRequest && !namesInitialEvents(err) && !blamesSelector(err) &&
		r.snapshotVersion() != "" && r.Knowledge.takeAnyVersion():
		return true // perhaps the server does not understand the version

	case isInvalid(err), statusCode(err) == http.StatusBadRequest && !blamesSelector(err):
		return r.listInstead(err, "server does not stream the initial state of resource, listing it instead")

	case errors.Is(err, errNoEndMarker) && !r.Knowledge.sendsEndMarkers():
		proven, first := r.Knowledge.silentStream()
		switch {
		case r.Knowledge.listsForbidden():
			return false
		case proven:
			return r.listInstead(err, "server never sends the end of the initial state of resource, listing it instead")
		case first:
			r.log(zapcore.InfoLevel, "server did not send the end of the initial state of resource, listing it instead this time", "", r.fields(err)...)
		}
		r.server.listNext = true
		return true

	case isInternal(err):
		if r.faults.internalErrors++; r.faults.internalErrors < maxInternalErrors {
			return false
		}
	case errors.Is(err, errNoVersion):
		if r.faults.markersNoVersion++; r.faults.markersNoVersion < maxMarkersNoVersion {
			return false
		}
	case end.opened, isUnanswered(err), isRefused(err):
		// A server that supports it, or the network, may still fail for a while.
		if r.faults.incompleteSnapshots++; r.faults.incompleteSnapshots < maxIncompleteSnapshots {
			return false
		}
	default:
		return false // a LIST would fail too
	}
	return r.listInstead(err, "streaming the initial state of resource fails again and again, listing it instead")
}

// listInstead makes the following snapshots LISTs until that knowledge expires, unless listing is forbidden.
func (r *Reader) listInstead(err error, message string) bool {
	r.faults.incompleteSnapshots, r.faults.internalErrors, r.faults.markersNoVersion = 0, 0, 0
	if r.Knowledge.listsForbidden() {
		return false
	}
	if r.Knowledge.noWatchList() {
		r.log(zapcore.InfoLevel, message, "", r.fields(err)...)
	}
	r.server.listNext = true
	return true
}

// noteFailedList makes the next snapshot a stream again if LISTs fail.
func (r *Reader) noteFailedList(err error) {
	if errors.Is(err, errQueueFull) {
		return
	}
	r.faults.failedLists++
	if r.faults.failedLists >= maxFailedLists || isRefused(err) || isWatchUnsupported(err) {
		r.faults.failedLists = 0
		r.server.listNext = false
		r.Knowledge.doubtLists()
	}
}

// listForbidden notes that there is no right to list, so that the resource can only be streamed, and reports whether
// that is new.
func (r *Reader) listForbidden(err error) bool {
	r.server.listNext = false
	news := r.Knowledge.noList()
	if news {
		r.log(zapcore.WarnLevel, "no right to list resource, whose server seems not to stream it: streaming it all the same; grant the verb list", "",
			append(r.fields(err), zap.String("remedy", ruleToAdd(r.Scope, "list")))...)
	}
	return news
}

// behindFor notes that a server is behind the position and returns for how long it has been. A relist counts like a
// resume as long as the live stream is silent too.
func (r *Reader) behindFor() time.Duration {
	now := time.Now()
	if r.server.behindSince.IsZero() || now.Sub(r.server.behindSeen) > behindMemory {
		r.server.behindSince = now
	}
	r.server.behindSeen = now
	return now.Sub(r.server.behindSince)
}

// awaitHistory handles a server that is behind the position. Another replica may have caught up, so it gets a minute;
// after that its history counts as set back, as when etcd is restored from a backup.
func (r *Reader) awaitHistory(ctx context.Context, err error) {
	r.loseHistory("silent", suspected)
	if r.behindFor() >= lagTimeout {
		r.resetHistory(err)
		return
	}
	r.server.freshNext = true // may reach an API server that is not behind
	r.waitAsAsked(ctx, err)
}

// awaitServed handles a 404, which may mean that the API server is starting or that it no longer serves the resource.
// Only in the latter case are the objects gone.
func (r *Reader) awaitServed(ctx context.Context, cause error) {
	for ctx.Err() == nil {
		served, err := r.Served(ctx)
		if err != nil {
			r.setState(Unreachable, err)
			r.wait(ctx, r.backoff.NextBackOff())
			continue
		}
		if served {
			r.wait(ctx, r.backoff.NextBackOff())
			return
		}
		r.setState(NotServed, cause)
		r.sweepRemoved(ctx)
		if r.UntilGone {
			r.gone = true
			return
		}
		r.wait(ctx, spread(servedCheckInterval))
	}
}

// sweepRemoved emits the deletion of every object, because the resource is gone.
func (r *Reader) sweepRemoved(ctx context.Context) {
	for _, key := range r.inventory.all() {
		for r.emitInferredDeletion(ctx, key, r.position.rv, snapshotEmitTimeout) != nil {
			if ctx.Err() != nil {
				return
			}
		}
	}
	for r.advanced(ctx, version{}, snapshotEmitTimeout) != nil {
		if ctx.Err() != nil {
			return
		}
	}
	r.position, r.lost, r.initial, r.sets = position{}, nil, snapshotSet{}, sentSets{}
	clear(r.deletedAhead)
}

// waitAsAsked waits before the next try, at least as long as the server asks for.
func (r *Reader) waitAsAsked(ctx context.Context, err error) {
	asked := retryAfter(err)
	pause := max(r.backoff.NextBackOff(), asked)
	if asked > 0 || isThrottled(err) {
		r.Observer.Throttled(pause) // what it asks for is often a second, and is asked again and again
	}
	r.wait(ctx, pause)
}

func (r *Reader) wait(ctx context.Context, d time.Duration) {
	_ = sleep(ctx, d) // fails only if ctx has ended, which the caller's loop checks
}
