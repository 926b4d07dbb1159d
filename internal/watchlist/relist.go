package watchlist

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const (
	// catchUpTimeout is how long the live stream may take to reach the snapshot's version. On a quiet resource the next
	// bookmark does that, within about a minute.
	catchUpTimeout = 90 * time.Second
	// relistObjectsPerSecond limits the speed of a relist. It is not urgent, and at full speed it would starve the live
	// stream of CPU. The limit is about the rate at which a kube-apiserver sends.
	relistObjectsPerSecond = 25_000
	// relistBurst is how many objects of a relist are read before it is the live stream's turn.
	relistBurst = 250
)

// relist is a snapshot taken beside the live stream to find what that stream has missed. Nothing is emitted before the
// live stream has passed the snapshot's version: until then it may still deliver what seems missing, along with
// intermediate versions and short-lived objects that no snapshot shows.
//
// The objects' versions are enough to prove that nothing was missed. Whole objects are requested only by a relist that
// emits every object, or that follows a relist with missed objects or several failed ones.
type relist struct {
	stream       *stream
	span         *span
	began        time.Time
	from         version // the position when it began
	metadataOnly bool
	quiet        bool // for a silent stream without bookmarks
	slot         *slot
	unidentified bool // some object could not be identified, so no absence is proven

	older   olderObjects
	pending pendingObjects
	deleted map[Key]version // by the live stream, since the relist began

	complete   bool
	emitsSet   bool // of SNAPSHOT records
	endVersion version
	set        snapshotSet // for relist.emit: snapshot
}

// endsAtMarker reports whether the relist's stream is of no use after the snapshot.
func (l *relist) endsAtMarker() bool { return l.stream.listed || l.metadataOnly }

func (f *follower) beginRelist(ctx context.Context, held *slot) error {
	if f.successor != nil { // a rotation, which the relist replaces
		f.dropSuccessor()
		f.rescheduleRotate()
	}
	if !f.position.rv.comparable() {
		// There is no way to know when the live stream has passed a snapshot.
		held.release()
		return errRelistDue
	}
	l := &relist{
		from:    f.position.rv,
		slot:    held,
		began:   time.Now(),
		pending: pendingObjects{objects: make(map[Key]pendingObject)},
		deleted: make(map[Key]version),
	}
	req := f.snapshotRequest()
	req.FreshConnection = true
	// Perhaps only the metadata is what the server cannot provide.
	l.quiet, f.quietDue = f.quietDue, false
	l.emitsSet = (f.EmitSnapshots || f.sets.owed) && !l.quiet
	l.metadataOnly = !l.emitsSet && !f.schedule.relistObjects && f.faults.failedRelists < maxFailedRelists
	req.MetadataOnly = l.metadataOnly
	f.inventory.beginPass()
	// A relist is not the place to find out, minutes after a silence, whether the server does stream snapshots.
	f.server.listNext = f.server.listNext || f.Knowledge.wasSilent()
	l.span = f.startSpan(ctx, spanRelist, attribute.Bool("metadata_only", l.metadataOnly))
	l.stream = f.openSnapshot(ctx, req, held)
	l.span.stream = l.stream
	f.successor, f.sendsSet = &successor{stream: l.stream, relist: l}, l.emitsSet
	if l.emitsSet {
		return l.set.begin(ctx, f.Reader)
	}
	return nil
}

// readRelist reads the snapshot up to its end marker, and finishes once the live stream has reached that version.
func (f *follower) readRelist(ctx context.Context) error {
	s, l := f.successor, f.successor.relist
	if s.pause != nil {
		return nil
	}
	before := s.frames
	for !l.complete {
		line, ok := []byte(nil), s.frames-before < relistBurst
		if ok {
			line, ok = s.next()
		}
		if !ok {
			s.throttle(s.frames - before)
			s.resetDue(endMarkerTimeout) // the wait for the queue was not the server's fault
			return nil
		}
		if err := f.relistFrame(ctx, l, line); errors.Is(err, errQueueFull) || ctx.Err() != nil {
			return err
		} else if err != nil {
			f.failSuccessor(err)
			return nil
		}
	}
	if !s.parked {
		s.parked = true
		l.span.AddEvent("snapshot read")
		if l.endsAtMarker() {
			s.close()
		}
		s.setDue(f.catchUp(l))
		l.slot.release()
	}
	if f.position.hasPassed(l.endVersion) {
		return f.finishRelist(ctx)
	}
	return nil
}

func (f *follower) relistFrame(ctx context.Context, l *relist, line []byte) error {
	fr, err := parseFrame(line)
	if err != nil {
		f.unidentifiedInRelist(l, err)
		return nil
	}
	f.Observer.EventRead(fr.event, Relist)
	switch fr.event {
	case watch.Added, watch.Modified:
		l.span.objects++
		return f.relistObject(ctx, l, fr)
	case watch.Deleted:
		// A live event before the end marker. The live stream delivers it too; here it only means that the object is
		// not in the snapshot.
		if id, err := f.Plan.Identify(fr.object); err == nil {
			f.inventory.unmarkSeen(keyOf(id))
			l.older.drop(keyOf(id))
			delete(l.pending.objects, keyOf(id))
		}
		return nil
	case watch.Bookmark:
		mark, err := parseBookmark(fr.object)
		if err != nil || !mark.endsInitialList {
			return nil
		}
		if mark.rv.none() {
			return errNoVersion
		}
		if mark.rv.before(l.from) {
			return errStale
		}
		l.endVersion, l.complete = mark.rv, true
		return nil
	case watch.Error:
		return statusError(fr.object)
	}
	f.unidentifiedInRelist(l, errUnknownType(fr.event))
	return nil
}

// relistObject compares an object of the snapshot with the inventory. Nearly all are unchanged, and only their identity
// is read.
func (f *follower) relistObject(ctx context.Context, l *relist, fr frame) error {
	id, err := f.Plan.Identify(fr.object)
	if err != nil {
		f.unidentifiedInRelist(l, err)
		return nil
	}
	key, rv := keyOf(id), parseVersion(id.ResourceVersion)
	if !f.owns(id) {
		return nil
	}
	gone, isGone := l.deleted[key]
	if !isGone && f.isToAdopt(key, id) {
		if err := f.adopt(ctx, key, id); err != nil {
			return err
		}
	}
	f.inventory.markSeen(key)
	known, isKnown := f.inventory.get(key)
	switch {
	case isGone && !gone.before(rv):
		return nil
	case isKnown && rv == known && l.emitsSet:
		obj, err := f.decode(fr.object, true)
		if err != nil {
			f.unidentifiedInRelist(l, err)
			return nil
		}
		return f.emitRelisted(ctx, l, key, obj)
	case isKnown && f.relate(rv, known) == emitted:
		l.older.note(key, rv, known, nil)
		return nil
	}
	l.older.drop(key)
	if l.metadataOnly {
		l.pending.add(key, rv, nil)
		return nil
	}
	obj, err := f.decode(fr.object, true)
	if err != nil {
		f.unidentifiedInRelist(l, err)
		return nil
	}
	l.pending.add(key, rv, &obj)
	return nil
}

// tooLargeInRelist handles an object that is too large to read. If its identity is known, it counts as part of the
// snapshot, and if the inventory lacks it a recovery follows.
func (f *follower) tooLargeInRelist(l *relist, head []byte) {
	id, err := f.identifyTooLarge(head)
	if err != nil {
		f.unidentifiedInRelist(l, err)
		return
	}
	key := keyOf(id)
	if !f.owns(id) {
		return
	}
	f.inventory.markSeen(key)
	if known, ok := f.inventory.get(key); !ok || f.relate(parseVersion(id.ResourceVersion), known) != emitted {
		l.pending.add(key, parseVersion(id.ResourceVersion), nil)
	}
}

func (f *follower) unidentifiedInRelist(l *relist, cause error) {
	switch {
	case l.unidentified:
	case l.metadataOnly:
		f.Logger.Warn("relist holds an event that cannot be decoded, repeating it with whole objects",
			f.fields(cause)...)
	default:
		f.Logger.Error("relist holds an event that cannot be decoded; deletions are not inferred from it",
			f.fields(cause)...)
	}
	l.unidentified = true
}

func (f *follower) emitRelisted(ctx context.Context, l *relist, key Key, obj redact.Object) error {
	err := f.emit(ctx, Change{Type: Snapshot, Origin: Relist, Object: obj, Key: key, Snapshot: l.set.info()}, snapshotEmitTimeout)
	if err == nil {
		l.set.objects++
	}
	return err
}

// finishRelist emits what the live stream, now past the snapshot, has not delivered, and then continues with a fresh
// stream. If it is interrupted, the differences emitted so far stay recorded for the gap.
func (f *follower) finishRelist(ctx context.Context) error {
	l := f.successor.relist
	missed := f.lost // an earlier process has begun to recover it
	if missed == nil {
		missed = &lostHistory{reason: reasonMissed, from: f.verified.version, reached: f.verified.version, since: f.verified.at}
		if f.onlyDropped(l) {
			missed.reason = reasonDropped
		}
	}
	l.span.found = missed
	next, err := f.settleRelist(ctx, l, missed)
	l.span.ends(err)
	if err != nil {
		if missed.differs() {
			f.lost = missed
		}
		return err
	}
	return next(ctx)
}

// settleRelist emits the differences and returns the next step.
func (f *follower) settleRelist(ctx context.Context, l *relist, missed *lostHistory) (next func(context.Context) error, err error) {
	if rewound, _ := l.older.prove(l.endVersion); rewound {
		f.lost = missed
		f.resetHistory(errRewound)
		return nil, errRelistDue
	}
	settled, err := f.settlePending(ctx, l, missed)
	if err != nil {
		return nil, err
	}
	if l.metadataOnly && (!settled || l.unidentified) && l.pending.missed <= maxMissedObjects {
		return f.relistForObjects, nil
	}
	if !settled {
		f.lost = missed
		return nil, errRelistDue
	}
	if !l.unidentified {
		if err := f.settleAbsent(ctx, l, missed); err != nil {
			return nil, err
		}
	}
	if err := f.emitRelistEnd(ctx, l, missed); err != nil {
		return nil, err
	}
	f.unverified, f.outdated, f.lost = false, false, nil
	if !l.unidentified {
		f.succession = succession{}
	}
	f.Observer.RelistEnded("complete", time.Since(l.began))
	f.verified = verification{l.endVersion, f.Now()}
	f.schedule.relistObjects, f.faults.failedRelists = false, 0
	f.server.listNext = false
	if l.emitsSet || !f.EmitSnapshots {
		f.scheduleRelist(f.RelistInterval)
		f.armRelist()
	}
	if missed.differs() && !f.Knowledge.watchDelivers.Load() && time.Since(f.began) >= resumeSilenceLimit {
		f.suspectMute()
	}
	if l.quiet && !missed.differs() {
		return f.keepQuiet, nil
	}
	return f.replaceLive, nil
}

// settleAbsent emits the deletions of the objects that the snapshot lacks.
func (f *follower) settleAbsent(ctx context.Context, l *relist, missed *lostHistory) error {
	absent := f.absentFrom(l)
	if !l.stream.listed && lacksTooMuch(len(absent), f.inventory.len()) {
		if err := f.confirmRelist(ctx, l, absent, missed); err != nil {
			return err
		}
	}
	for _, key := range absent {
		if !f.OmitDeletions {
			if err := missed.note(ctx, f.Reader); err != nil {
				return err
			}
		}
		if err := f.emitInferredDeletion(ctx, key, l.endVersion, snapshotEmitTimeout); err != nil {
			return err
		}
		if !f.position.hasPassed(l.endVersion) {
			f.deletedAhead[key] = l.endVersion
		}
		f.countDeletion(missed)
		f.foundByRelist(Deleted, missed)
	}
	return nil
}

// absentFrom returns the objects that the snapshot should hold but does not.
func (f *follower) absentFrom(l *relist) []Key {
	absent := f.inventory.unseen()
	n := 0
	for _, key := range absent {
		if known, _ := f.inventory.get(key); known.none() || l.endVersion.atLeast(known) { // else the object is newer than the snapshot
			absent[n] = key
			n++
		}
	}
	return absent[:n]
}

// confirmRelist checks by a LIST whether the objects that the relist lacks are gone. If that cannot be confirmed, a
// whole snapshot is taken.
func (f *follower) confirmRelist(ctx context.Context, l *relist, absent []Key, missed *lostHistory) error {
	if !f.Knowledge.listsForbidden() {
		check := &listCheck{Reader: f.Reader, marker: l.endVersion, streamed: true}
		_, err := check.run(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && check.missing == 0:
			f.log(zapcore.InfoLevel, "a LIST confirms that objects are gone that were missing from a relist", "", append(f.fields(nil), zap.Int("objects", len(absent)))...)
			return nil
		case err == nil:
			f.streamsLackObjects(check)
		}
	}
	f.log(zapcore.InfoLevel, "relist lacks many objects, comparing everything with a whole snapshot", "", append(f.fields(nil), zap.Int("objects", len(absent)))...)
	f.doubt(absent)
	f.lost = missed
	return errRelistDue
}

// emitRelistEnd emits what follows the last difference.
func (f *follower) emitRelistEnd(ctx context.Context, l *relist, missed *lostHistory) error {
	if l.emitsSet {
		l.set.incomplete = l.unidentified
		if err := f.emit(ctx, l.set.endChange(f.Reader, l.endVersion), snapshotEmitTimeout); err != nil {
			return err
		}
		f.setEnded(l.set.epoch)
		f.armRedelivery()
	}
	if !missed.isGap(l.endVersion) {
		return f.verifiedAt(ctx, l.endVersion)
	}
	if err := f.emit(ctx, missed.gap(f.Reader, l.endVersion), snapshotEmitTimeout); err != nil {
		return err
	}
	f.Observer.GapRecorded(missed.reason)
	return nil
}

// replaceLive continues with a fresh stream after a relist.
func (f *follower) replaceLive(ctx context.Context) error {
	l := f.successor.relist
	if l.endsAtMarker() || !f.position.hasPassed(l.endVersion) {
		// From the position, not from the snapshot: the history between them may still be available.
		f.dropSuccessor()
		f.beginRotate(ctx)
	} else {
		l.stream.reach(l.endVersion)
		f.promoteSuccessor()
	}
	return f.readLive(ctx)
}

// relistForObjects repeats the relist at once with whole objects, because some were missed or their metadata alone
// could not be read.
func (f *follower) relistForObjects(ctx context.Context) error {
	f.successor.relist.span.repeats = true
	f.dropSuccessor()
	f.schedule.relistObjects = true
	f.schedule.relist = time.Now()
	f.armRelist()
	return f.readLive(ctx)
}

// settlePending emits the objects that were newer in the snapshot and still are. If the body of one is missing, settled
// is false and a snapshot with whole objects has to be compared.
func (f *follower) settlePending(ctx context.Context, l *relist, missed *lostHistory) (settled bool, err error) {
	settled = true
	for _, key := range l.pending.inOrder() {
		pending := l.pending.objects[key]
		known, isKnown := f.inventory.get(key)
		switch {
		case l.deletedSince(key, pending.version):
			continue
		case isKnown && f.isUnchanged(key, pending.content(), pending.version, known):
			if l.emitsSet && !pending.version.before(known) && pending.object != nil && pending.object.JSON != "" {
				if err := f.emitRelisted(ctx, l, key, *pending.object); err != nil {
					return false, err
				}
			}
			continue
		case pending.object != nil && !f.selects(pending.object.Namespace):
			continue // its namespace has left the selection
		case pending.object == nil:
			settled = false
			l.pending.missed++
			continue
		case isKnown && f.isNoopOfSnapshot(key, pending.object):
			if err := f.settleNoop(ctx, l, missed, key, pending); err != nil {
				return false, err
			}
			continue
		}
		if err := missed.note(ctx, f.Reader); err != nil {
			return false, err
		}
		if err := f.emitMissed(ctx, key, *pending.object, isKnown && f.inventory.wasEmitted(key), missed); err != nil {
			return false, err
		}
		f.rememberObject(key, pending.object, pending.version)
		f.inventory.markSeen(key)
	}
	return settled, nil
}

// settleNoop handles an object that the watch has not delivered and that has the content that was emitted last: it is not
// emitted, except as one of a set.
func (f *follower) settleNoop(ctx context.Context, l *relist, missed *lostHistory, key Key, pending pendingObject) error {
	if err := missed.note(ctx, f.Reader); err != nil {
		return err
	}
	missed.countUnchanged()
	f.inventory.markSeen(key)
	if l.emitsSet {
		if err := f.emitRelisted(ctx, l, key, *pending.object); err != nil {
			return err
		}
		f.rememberObject(key, pending.object, pending.version)
		return nil
	}
	return f.passOver(ctx, Change{Origin: Recovered, Object: *pending.object, Key: key}, snapshotEmitTimeout)
}

// emitMissed emits an object whose newest version the live stream has not delivered.
func (f *follower) emitMissed(ctx context.Context, key Key, obj redact.Object, wasEmitted bool, missed *lostHistory) error {
	c := Change{Type: Added, Origin: Recovered, Object: obj, Key: key}
	switch {
	case wasEmitted:
		c.Type = Modified
	case missed.widened && f.SkipInitial:
		return f.known(ctx, c)
	case missed.widened:
		c.Type = Snapshot
	}
	f.explain(&c)
	if err := f.emit(ctx, c, snapshotEmitTimeout); err != nil {
		return err
	}
	f.recovered(c.Type)
	missed.count(c.Type)
	f.foundByRelist(c.Type, missed)
	return nil
}

// deletedSince reports whether the live stream has delivered a deletion of the object at that version or later.
func (l *relist) deletedSince(key Key, v version) bool {
	gone, ok := l.deleted[key]
	return ok && !gone.before(v)
}

// onlyDropped reports whether all differences concern objects whose records the consumer refused, so that the watch has
// missed nothing.
func (f *follower) onlyDropped(l *relist) bool {
	dropped := func(key Key) bool {
		_, isKnown := f.inventory.get(key)
		return isKnown && !f.inventory.wasEmitted(key)
	}
	for key, pending := range l.pending.objects {
		known, isKnown := f.inventory.get(key)
		differs := !l.deletedSince(key, pending.version) && (!isKnown || !f.isUnchanged(key, pending.content(), pending.version, known))
		if differs && !dropped(key) {
			return false
		}
	}
	for _, key := range f.absentFrom(l) {
		if !dropped(key) {
			return false
		}
	}
	return true
}

// relistTimedOut handles a snapshot that has stalled, or a live stream that does not reach its version.
func (f *follower) relistTimedOut(ctx context.Context) error {
	l := f.successor.relist
	switch {
	case !l.complete:
		f.failSuccessor(errNoEndMarker)
		return nil
	case f.position.rv == l.endVersion, f.Knowledge.lacksBookmarks():
		// A quiet stream without bookmarks never passes it, and a resumed one may not: kube-apiserver sends no bookmark with
		// the version of the last event that it has sent from its history. It has had ample time to deliver everything, so
		// what is missing now was missed.
		// https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go
		return f.finishRelist(ctx)
	}
	f.failSuccessor(errSilent)
	return errSilent
}

// noteFailedRelist learns from a failed snapshot whether the next one should be a LIST, or no longer be one. Perhaps
// only the metadata is what the server cannot provide.
func (f *follower) noteFailedRelist(err error) {
	s := f.successor
	switch {
	case isOwnEnd(err):
	case s.listed && isForbidden(err):
		f.listForbidden(err)
	case s.listed:
		f.noteFailedList(err)
	case !s.relist.metadataOnly, isInvalid(err), errors.Is(err, errNoEndMarker):
		f.givesUpStreaming(ending{err: err, snapshot: true, opened: s.opened, frames: s.frames})
	}
}
