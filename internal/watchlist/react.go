package watchlist

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// react decides what follows from the end of a stream: whether the history since the position is still to be
// had or a snapshot has to make up for it, and how long to wait before. The cases are those that a real API
// server, and what stands in front of one, can produce.
func (r *Reader) react(ctx context.Context, end ending) {
	r.Observer.StreamEnded(endReason(end.err))
	if end.lived >= steadyLife {
		r.backoff.Reset()
		r.faults.unexpectedErrors = 0
	}
	err := end.err
	switch {
	case errors.Is(err, errPollDue), errors.Is(err, errRelistDue):
		r.loseHistory("relist", checked)
		return

	case errors.Is(err, errQueueFull):
		r.Observer.Paused()
		r.setState(Paused, nil)
		_ = r.Emitter.WaitForRoom(ctx) // its only error is that ctx has ended
		return

	case isForbidden(err), isUnauthorized(err):
		// Rights that were lost say nothing of the objects: the inventory stays.
		r.setState(Forbidden, err)
		r.wait(ctx, r.slow.NextBackOff())
		return

	case isNotFound(err):
		r.awaitServed(ctx, err)
		return

	case isExpired(err) && !end.snapshot:
		// An API server that restarts, or a CRD that is edited, forgets its history; nothing is wrong.
		r.loseHistory(reasonExpired, certain)
		if time.Since(r.schedule.lastSnapshot) < steadyLife && end.lived < steadyLife {
			r.wait(ctx, r.backoff.NextBackOff())
		}
		return

	case isExpired(err) && !end.listed:
		// kube-apiserver takes any version for a snapshot, but not every server does.
		r.Knowledge.takeAnyVersion()

	case isVersionTooLarge(err), errors.Is(err, errStale):
		r.awaitHistory(ctx, err)
		return

	case end.snapshot && !end.listed && r.hasNoWatchList(err):
		r.faults.incompleteSnapshots, r.faults.internalErrors = 0, 0
		if r.Knowledge.noWatchList() {
			r.Logger.Info("server does not stream the initial state of resource, listing it instead", r.fields(err)...)
		}
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
		// The stream may hang, on this connection or at this API server. If a watch that was resumed
		// never says anything, the position may also lie in the future of a server that was set back:
		// it is then accepted and stays silent for ever.
		r.server.freshNext = true
		if end.frames == 0 {
			r.loseHistory("silent", suspected)
			r.Knowledge.silentWatch()
		}
		return

	case errors.Is(err, errUndecodable), errors.Is(err, ErrFrameTooLarge):
		if end.snapshot {
			r.faults.badSnapshots++
		} else if r.faults.badFrames > 1 {
			r.loseHistory("undecodable", certain)
		}

	case isCleanEnd(err) && !end.snapshot:
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
		// Behind a load balancer another connection may lead to an API server that fares better.
		r.server.freshNext = r.server.freshNext || statusCode(err) >= http.StatusInternalServerError
	}
	r.wait(ctx, max(r.backoff.NextBackOff(), retryAfter(err)))
}

// reactToRefusedVersion: the server refuses a watch from the position. If a second try fares no better, the version
// means nothing to it, as when another server has taken its place.
func (r *Reader) reactToRefusedVersion(ctx context.Context, err error) {
	if r.faults.refusedVersions++; r.faults.refusedVersions >= maxRefusedVersions {
		r.faults.refusedVersions = 0
		r.resetHistory(err)
		return
	}
	r.wait(ctx, r.backoff.NextBackOff())
}

// reactToCleanEnd: time was up, the server goes down, or it found this watcher too slow.
func (r *Reader) reactToCleanEnd(ctx context.Context, end ending) {
	if end.frames == 0 && end.lived < shortLife {
		// Some platforms end a watch from an expired version at once and without a word.
		// https://github.com/kubernetes/kubernetes/issues/104171
		if r.faults.shortEmptyStreams++; r.faults.shortEmptyStreams >= maxShortEmptyStreams {
			r.faults.shortEmptyStreams = 0
			r.loseHistory("closed_repeatedly", suspected)
		}
	} else {
		r.faults.shortEmptyStreams = 0
	}
	if end.frames == 0 && end.lived >= shortLife && r.Knowledge.lacksBookmarks() {
		// Without bookmarks a watch that is set in the future cannot be told from a quiet one.
		r.loseHistory("unverified", checked)
	}
	if end.lived >= steadyLife {
		r.wait(ctx, time.Duration(rand.Int64N(int64(time.Second))))
		return
	}
	r.wait(ctx, r.backoff.NextBackOff())
}

// hasNoWatchList says that err, met before the end marker, means that no snapshot can be streamed here.
func (r *Reader) hasNoWatchList(err error) bool {
	switch {
	case isInvalid(err):
		return true
	case errors.Is(err, errNoEndMarker) && !r.Knowledge.sendsEndMarkers():
		return true
	case errors.Is(err, errNoEndMarker), errors.Is(err, errIncomplete):
		// A server that can do it may still fail at it for a while.
		r.faults.incompleteSnapshots++
		return r.faults.incompleteSnapshots >= maxIncompleteSnapshots
	case isInternal(err):
		r.faults.internalErrors++
		return r.faults.internalErrors >= maxInternalErrors
	}
	return false
}

// awaitHistory: the server has not come as far as the position. Another one may be ahead, so it gets a
// minute; then its history was set back, as when etcd is restored from a backup.
func (r *Reader) awaitHistory(ctx context.Context, err error) {
	if r.server.behindSince.IsZero() {
		r.server.behindSince = time.Now()
	}
	r.loseHistory("silent", suspected)
	if time.Since(r.server.behindSince) >= lagTimeout {
		r.resetHistory(err)
		return
	}
	r.server.freshNext = true // perhaps it leads to an API server that is not behind
	r.wait(ctx, max(r.backoff.NextBackOff(), retryAfter(err)))
}

// awaitServed: 404 may be an API server that is starting, or a resource that is no longer served. Only in
// that case are its objects gone.
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
		r.wait(ctx, spread(servedCheckInterval))
	}
}

// sweepRemoved tells that every object is gone, because the resource is.
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
	r.position, r.lost, r.initial = position{}, nil, snapshotSet{}
	clear(r.deletedAhead)
}

func (r *Reader) wait(ctx context.Context, d time.Duration) {
	_ = sleep(ctx, d) // its only error is that ctx has ended, which the caller's loop looks at
}
