package watchlist

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// takeSnapshot reads what the server holds and emits each difference from the inventory as it arrives: at first
// everything, later what changed while no stream was open. The position moves only when the snapshot is complete,
// because objects come in order of name, not of version. If the snapshot is cut, the inventory knows what was already
// emitted, and the next try continues from there.
//
// It returns the stream of the snapshot, which continues with live events, or nil if it was a LIST. With an error it
// returns the closed stream, if there was one.
func (r *Reader) takeSnapshot(ctx context.Context) (taken *stream, err error) {
	span := r.startSnapshotSpan(ctx)
	defer func() {
		span.ends(err)
		span.finish()
	}()
	held, err := r.awaitSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer held.release()
	span.AddEvent("slot held")

	if err := r.lost.note(ctx, r); err != nil {
		return nil, err
	}
	pass := &snapshotPass{known: r.inventory.len()}
	r.inventory.beginPass()
	r.divider.begin()
	s := r.openSnapshot(ctx, r.snapshotRequest(), held)
	pass.listed = s.listed
	err = r.readSnapshot(ctx, s, pass, held)
	span.stream, span.objects = s, pass.received
	if err != nil || pass.listed {
		s.close()
	}
	if err == nil && pass.listed {
		return nil, nil
	}
	return s, err
}

// snapshotRequest asks for objects at least as new as the position. Unlike a watch from the position it never expires,
// and a server that was set back answers that it has not reached that version.
func (r *Reader) snapshotRequest() Request {
	r.followAPI()
	req := Request{
		Scope:             r.Scope,
		API:               r.API,
		SendInitialEvents: true,
		ResourceVersion:   r.snapshotVersion(),
		Timeout:           spread(watchTimeout),
		FreshConnection:   r.server.freshNext,
	}
	r.server.freshNext = false
	return req
}

// snapshotVersion returns the minimum version of a snapshot; "" leaves it to the server.
func (r *Reader) snapshotVersion() string {
	if r.Knowledge.takesAnyVersion() || r.server.historyReset || !r.position.rv.comparable() {
		return ""
	}
	return r.position.rv.String()
}

// openSnapshot opens a snapshot in a form that the server is known to support.
func (r *Reader) openSnapshot(ctx context.Context, req Request, held *slot) *stream {
	req.OnSent = held.sent
	if r.Knowledge.lists() || (r.server.listNext || r.position.unversioned()) && !r.Knowledge.listsForbidden() {
		r.Observer.StreamOpened("list")
		s := openStream(ctx, snapshotLister{pages: r.Opener}, req)
		s.listed = true
		return s
	}
	r.Observer.StreamOpened("snapshot")
	return openStream(ctx, r.Opener, req)
}

// readSnapshot reads s up to the end marker. No timer runs while the request waits for its turn on our side, or while
// the server waits for us. The [Opener] bounds the time until the server begins to answer.
func (r *Reader) readSnapshot(ctx context.Context, s *stream, pass *snapshotPass, held *slot) error {
	sent := s.sent
	limit := time.NewTimer(slowAnswer)
	limit.Stop()
	defer limit.Stop()
	var progress *initialProgress
	defer func() { r.Crowd.endInitial(progress) }()
	for {
		for line, ok := s.next(); ok; line, ok = s.next() {
			if complete, err := r.snapshotFrame(ctx, pass, line); complete || err != nil {
				return err
			}
		}
		progress.note(pass.received, 0)
		switch {
		case !s.opened:
		case s.listed:
			limit.Stop() // each page has a limit of its own
		case pass.isEndless():
			return errNoEndMarker
		default:
			limit.Reset(endMarkerTimeout)
		}
		select {
		case <-sent:
			sent = nil
			if !s.opened {
				limit.Reset(slowAnswer)
			}
		case c := <-s.chunks:
			if err := s.take(c); isCleanEnd(err) && s.opened {
				return errIncomplete
			} else if err != nil {
				return err
			}
			r.received(c)
			progress.note(pass.received, len(c.frames))
			if c.opened {
				held.answered()
				if r.position.none() {
					progress = r.Crowd.beginInitial(r.Scope)
				}
			} else {
				r.nowReading()
			}
			if c.head != nil {
				if err := r.tooLargeInSnapshot(ctx, pass, c.head); err != nil {
					return err
				}
			}
		case <-limit.C:
			if s.opened {
				return errNoEndMarker
			}
			r.setState(Unreachable, errSlowAnswer)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// snapshotPass is one try at a snapshot.
type snapshotPass struct {
	listed       bool
	known        int  // objects in the inventory when it began
	received     int  // objects received
	unidentified bool // some object could not be identified, so no absence is proven
	older        olderObjects
	liveSince    time.Time // when the first event arrived that looks like one of an ordinary watch
}

// isEndless reports whether the stream is not a snapshot but an ordinary watch of a server that does not know initial
// events. Live events between initial events are rare, and only servers before 1.31 send them.
func (p *snapshotPass) isEndless() bool {
	return !p.liveSince.IsZero() && time.Since(p.liveSince) >= endlessTimeout
}

// snapshotFrame handles one frame up to the end marker, and reports whether it was the end marker.
func (r *Reader) snapshotFrame(ctx context.Context, pass *snapshotPass, line []byte) (complete bool, err error) {
	f, err := parseFrame(line)
	if err != nil {
		return false, r.unidentifiedInSnapshot(pass, err)
	}
	if !pass.listed && pass.liveSince.IsZero() && (f.event == watch.Modified || f.event == watch.Deleted) {
		pass.liveSince = time.Now()
	}
	r.Observer.EventRead(f.event, r.snapshotOrigin())
	switch f.event {
	case watch.Added, watch.Modified:
		pass.received++
		return false, r.snapshotObject(ctx, pass, f)
	case watch.Deleted:
		return false, r.snapshotDeletion(ctx, pass, f)
	case watch.Bookmark:
		mark, err := parseBookmark(f.object)
		if err != nil || !mark.endsInitialList {
			return false, nil
		}
		return true, r.completeSnapshot(ctx, pass, mark.rv)
	case watch.Error:
		return false, statusError(f.object)
	}
	return false, r.unidentifiedInSnapshot(pass, errUnknownType(f.event))
}

// unidentifiedInSnapshot handles a frame that cannot be identified. The first time, the snapshot is repeated. If that
// does not help, the frame is skipped and the snapshot no longer proves any object gone.
func (r *Reader) unidentifiedInSnapshot(pass *snapshotPass, cause error) error {
	if r.faults.badSnapshots == 0 {
		return fmt.Errorf("%w: %w", errUndecodable, cause)
	}
	if !pass.unidentified {
		r.Logger.Error("snapshot holds an event that cannot be decoded; deletions are not inferred from it",
			r.fields(cause)...)
	}
	pass.unidentified = true
	r.loseHistory(reasonUndecodable, certain)
	return nil
}

func (r *Reader) snapshotObject(ctx context.Context, pass *snapshotPass, f frame) error {
	if _, foreign := r.foreign(f.object); foreign {
		return nil
	}
	if pass.known > 0 || !r.succession.accepted.none() {
		if id, err := r.Plan.Identify(f.object); err == nil {
			key := keyOf(id)
			if r.isToAdopt(key, id) {
				r.inventory.markSeen(key)
				return r.adopt(ctx, key, id)
			}
			if known, ok := r.inventory.get(key); ok && r.relate(parseVersion(id.ResourceVersion), known) == emitted {
				r.inventory.markSeen(key)
				pass.older.note(key, parseVersion(id.ResourceVersion), known, func() (redact.Object, error) {
					return r.decode(f.object, true)
				})
				return nil
			}
		}
	}
	obj, err := r.decode(f.object, r.faults.badSnapshots > 0)
	if err != nil {
		return r.unidentifiedInSnapshot(pass, err)
	}
	key, rv := keyOf(obj.Identity), parseVersion(obj.ResourceVersion)
	if gone, ok := r.deletedAhead[key]; ok && !gone.before(rv) && !r.server.historyReset {
		return nil
	}
	pass.older.drop(key)
	known, isKnown := r.inventory.get(key)
	if isKnown {
		r.inventory.markSeen(key)
		if r.isUnchanged(key, &obj, rv, known) {
			return nil
		}
		if r.isNoopOfSnapshot(key, &obj) {
			return r.passOverInSnapshot(ctx, key, obj)
		}
	}
	if err := r.emitFromSnapshot(ctx, key, obj, isKnown && r.inventory.wasEmitted(key)); err != nil {
		return err
	}
	r.rememberObject(key, &obj, rv)
	return nil
}

// passOverInSnapshot notes a version that a snapshot holds of an object that is as it was emitted last.
func (r *Reader) passOverInSnapshot(ctx context.Context, key Key, obj redact.Object) error {
	r.lost.countUnchanged()
	r.progressed()
	return r.passOver(ctx, Change{Origin: Recovered, Object: obj, Key: key}, snapshotEmitTimeout)
}

func (r *Reader) emitFromSnapshot(ctx context.Context, key Key, obj redact.Object, isKnown bool) error {
	c := Change{Object: obj, Key: key}
	switch {
	case r.position.none() && r.SkipInitial:
		return r.known(ctx, c)
	case isKnown:
		c.Type, c.Origin = Modified, Recovered
	case !r.position.none() && r.isEntering(obj.Namespace):
		return r.emitEntering(ctx, c, snapshotEmitTimeout)
	case r.position.none():
		if err := r.initial.begin(ctx, r); err != nil {
			return err
		}
		c.Type, c.Origin, c.Snapshot = Snapshot, Initial, r.initial.info()
	case r.lost != nil && r.lost.widened && r.SkipInitial:
		return r.known(ctx, c)
	case r.lost != nil && r.lost.widened:
		c.Type, c.Origin = Snapshot, Recovered
	default:
		c.Type, c.Origin = Added, Recovered
	}
	r.explain(&c)
	if err := r.emit(ctx, c, snapshotEmitTimeout); err != nil {
		return err
	}
	r.progressed()
	if c.Origin == Initial {
		r.initial.objects++
		return nil
	}
	r.recovered(c.Type)
	if r.lost != nil {
		r.lost.count(c.Type)
		r.foundByRelist(c.Type, r.lost)
	}
	return nil
}

// snapshotDeletion handles a deletion before the end marker. Servers before 1.31 could send live events there.
// https://github.com/kubernetes/kubernetes/pull/127012
func (r *Reader) snapshotDeletion(ctx context.Context, pass *snapshotPass, f frame) error {
	if _, foreign := r.foreign(f.object); foreign {
		return nil
	}
	obj, err := r.decode(f.object, r.faults.badSnapshots > 0)
	if err != nil {
		return r.unidentifiedInSnapshot(pass, err)
	}
	key, rv := keyOf(obj.Identity), parseVersion(obj.ResourceVersion)
	if gone, ok := r.deletedAhead[key]; ok && gone == rv {
		return nil
	}
	if err := r.emitDeletion(ctx, Change{Type: Deleted, Origin: Live, Object: obj, Key: key}, snapshotEmitTimeout); err != nil {
		return err
	}
	r.forget(key)
	r.deletedAhead[key] = rv
	pass.older.drop(key)
	return nil
}

// completeSnapshot is called at the end marker: objects that were not in the snapshot are gone, and everything up to
// the snapshot's version has been read.
func (r *Reader) completeSnapshot(ctx context.Context, pass *snapshotPass, rv version) error {
	if !pass.listed {
		r.Knowledge.endMarkerSeen()
	}
	if rv.none() && !r.hasNoVersions(pass) {
		return errNoVersion
	}
	if !r.server.historyReset && rv.before(r.position.rv) {
		return errStale
	}
	if err := r.emitOlder(ctx, pass, rv); err != nil {
		return err
	}
	if !pass.unidentified {
		absent := r.inventory.unseen()
		if r.isDoubtful(pass, absent) {
			var err error
			if rv, err = r.confirm(ctx, pass, absent, rv); err != nil {
				return err
			}
			absent = r.inventory.unseen()
		}
		for _, key := range absent {
			if err := r.emitInferredDeletion(ctx, key, rv, snapshotEmitTimeout); err != nil {
				return err
			}
			if r.lost != nil {
				r.countDeletion(r.lost)
				r.foundByRelist(Deleted, r.lost)
			}
			if r.initial.hidden != nil {
				r.countDeletion(r.initial.hidden)
			}
		}
	}
	if err := r.emitComplete(ctx, pass, rv); err != nil {
		return err
	}
	r.unverified, r.outdated = false, false
	r.succession = succession{}
	r.haveEntered()
	if !pass.listed {
		r.Knowledge.streamCompleted()
	}
	if r.server.historyReset {
		clear(r.deletedAhead) // its versions belong to another history
	}
	r.server.listNext, r.doubted = false, doubted{}
	if r.lost != nil && !r.lost.differs() && rv == r.position.rv {
		r.server.futile++
	} else {
		r.server.futile = 0
	}
	r.judgeWatches(pass)
	r.initial, r.lost, r.server.historyReset = snapshotSet{}, nil, false
	r.position = closedPosition(rv)
	r.lastKnown = r.Now()
	r.verified = verification{rv, r.lastKnown}
	r.server.behindSince, r.server.quiet = time.Time{}, 0
	r.progressed()
	r.faults = faults{unexpectedErrors: r.faults.unexpectedErrors, shortEmptyStreams: r.faults.shortEmptyStreams, failedRelists: r.faults.failedRelists}
	r.schedule.lastSnapshot, r.schedule.relistObjects = time.Now(), false
	r.scheduleRelist(r.RelistInterval)
	r.scheduleSet() // the relist that was to send it is no longer due
	r.scheduleRotate()
	r.nowReading()
	return nil
}

// hasNoVersions reports whether the resource has no versions, and notes it: the resource is then listed at intervals
// and the contents are compared. For a stream that is accepted only once a LIST has no version either.
func (r *Reader) hasNoVersions(pass *snapshotPass) bool {
	if !pass.listed && !r.Knowledge.listsForbidden() {
		return false
	}
	if !r.position.unversioned() {
		r.log(zapcore.InfoLevel, "resource has no resourceVersion: comparing its contents at intervals instead of watching it", "",
			append(r.fields(nil), zap.Duration("interval", pollInterval))...)
	}
	return true
}

// emitComplete emits the one change that ends a snapshot. It moves the position and that of the checkpoint, so that it
// is never emitted twice.
func (r *Reader) emitComplete(ctx context.Context, pass *snapshotPass, rv version) error {
	var c Change
	isFirst := r.position.none()
	if isFirst && !r.SkipInitial {
		if err := r.initial.begin(ctx, r); err != nil {
			return err
		}
	}
	if r.initial.incomplete = isFirst && pass.unidentified; r.initial.incomplete {
		if err := r.emitUnidentified(ctx, rv); err != nil {
			return err
		}
	}
	if isFirst && r.initial.hidden != nil {
		if err := r.emitHidden(ctx, rv); err != nil {
			return err
		}
	}
	switch {
	case isFirst && !r.SkipInitial:
		c = r.initial.endChange(r, rv)
	case r.lost != nil && r.lost.isGap(rv):
		c = r.lost.gap(r, rv)
	case r.Restore == nil || rv.none():
		return nil
	default:
		c = Change{Type: Advanced, Object: atVersion(rv)}
	}
	c.Closes, c.Verifies, c.Rewinds = true, true, r.server.historyReset
	err := r.emit(ctx, c, snapshotEmitTimeout)
	switch {
	case err != nil:
	case c.Type == Gap:
		r.Observer.GapRecorded(c.Gap.Reason)
	case c.Type == SnapshotEnd:
		r.setEnded(r.initial.epoch)
	}
	return err
}

// emitHidden emits, once, the gap of the history that a first snapshot hides.
func (r *Reader) emitHidden(ctx context.Context, rv version) error {
	if err := r.emitGapInFirst(ctx, r.initial.hidden, rv); err != nil {
		return err
	}
	r.initial.hidden = nil
	return nil
}

// emitUnidentified emits, once, the gap of a first snapshot that held an unidentified object. A later snapshot reports
// it with its lost history.
func (r *Reader) emitUnidentified(ctx context.Context, rv version) error {
	if r.initial.gapEmitted {
		return nil
	}
	if err := r.emitGapInFirst(ctx, &lostHistory{reason: reasonUndecodable, doubt: certain}, rv); err != nil {
		return err
	}
	r.initial.gapEmitted = true
	return nil
}

// emitGapInFirst emits a gap before the end of a first snapshot. Only that end verifies the snapshot.
func (r *Reader) emitGapInFirst(ctx context.Context, hole *lostHistory, rv version) error {
	c := hole.gap(r, rv)
	c.Verifies = false
	if err := r.emit(ctx, c, snapshotEmitTimeout); err != nil {
		return err
	}
	r.Observer.GapRecorded(hole.reason)
	return nil
}

// known adds an object to the checkpoint without emitting it.
func (r *Reader) known(ctx context.Context, c Change) error {
	if r.Restore == nil {
		return nil
	}
	c.Type = Known
	c.Object = redact.Object{Identity: c.Object.Identity.Clone(), Content: c.Object.Content}
	return r.emit(ctx, c, snapshotEmitTimeout)
}

// emitInferredDeletion emits the deletion of an object that a snapshot at rv did not hold.
func (r *Reader) emitInferredDeletion(ctx context.Context, key Key, rv version, timeout time.Duration) error {
	id := r.inventory.identity(key)
	id.ResourceVersion = rv.String()
	err := r.emitDeletion(ctx, Change{Type: Deleted, Origin: Recovered, Inferred: true, Key: key, Object: redact.Object{
		Identity: id, APIVersion: r.API.APIVersion(r.Scope.Group), Kind: r.API.Kind, JSON: r.lastState(key),
	}}, timeout)
	if err != nil {
		return err
	}
	if !r.OmitDeletions {
		r.recovered(Deleted)
	}
	r.forget(key)
	return nil
}

// snapshotSet frames the Snapshot changes of one snapshot with a begin and an end record, so that a backend can prove
// that it has them all.
type snapshotSet struct {
	epoch   string
	begun   bool
	objects int

	incomplete bool // something that could not be decoded is missing from it
	gapEmitted bool // a gap was emitted for that

	hidden *lostHistory // see Progress; nil once a gap was emitted for that
}

func (set *snapshotSet) info() *SnapshotInfo { return &SnapshotInfo{Epoch: set.epoch} }

func (set *snapshotSet) begin(ctx context.Context, r *Reader) error {
	if set.begun {
		return nil
	}
	if set.epoch == "" {
		set.epoch = uuid.NewString()
	}
	if err := r.emit(ctx, Change{Type: SnapshotBegin, Origin: r.setOrigin(), Snapshot: set.info()}, snapshotEmitTimeout); err != nil {
		return err
	}
	set.begun = true
	r.sets.begins(set.epoch)
	return nil
}

func (set *snapshotSet) endChange(r *Reader, rv version) Change {
	return Change{Type: SnapshotEnd, Origin: r.setOrigin(), Snapshot: &SnapshotInfo{
		Epoch: set.epoch, ResourceVersion: rv.String(), Objects: set.objects, Incomplete: set.incomplete,
	}}
}

func (r *Reader) setOrigin() Origin {
	if r.position.none() {
		return Initial
	}
	return Relist
}
