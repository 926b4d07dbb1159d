package watchlist

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// liveFrame handles one frame of the live stream. Position and inventory move only after the change was accepted by the
// queue, so that after any failure here it is read again and nothing is lost.
func (r *Reader) liveFrame(ctx context.Context, s *stream, line []byte, onDeletion func(Key, version)) error {
	f, err := parseFrame(line)
	if err != nil {
		r.Observer.FrameUndecodable()
		return r.badFrame(err)
	}
	r.Observer.EventRead(f.event, Live)
	switch f.event {
	case watch.Added:
		return r.liveObject(ctx, s, f, Added, onDeletion)
	case watch.Modified:
		return r.liveObject(ctx, s, f, Modified, onDeletion)
	case watch.Deleted:
		return r.liveObject(ctx, s, f, Deleted, onDeletion)
	case watch.Bookmark:
		return r.liveBookmark(ctx, s, f)
	case watch.Error:
		return statusError(f.object)
	}
	r.Observer.FrameUndecodable()
	return r.badFrame(errUnknownType(f.event))
}

// liveBookmark moves the position. A bookmark older than the position, as sent by a replica that lags behind, is
// ignored.
func (r *Reader) liveBookmark(ctx context.Context, s *stream, f frame) error {
	mark, err := parseBookmark(f.object)
	if err != nil || mark.rv.none() {
		return nil
	}
	s.reach(mark.rv)
	if !mark.endsInitialList {
		r.Knowledge.bookmarkSeen()
	}
	if mark.rv.before(r.position.rv) {
		return nil
	}
	if err := r.advanced(ctx, mark.rv, liveEmitTimeout); err != nil {
		return err
	}
	r.position.close(mark.rv)
	r.lastKnown = r.Now()
	r.progressed()
	return nil
}

func (r *Reader) liveObject(ctx context.Context, s *stream, f frame, t Type, onDeletion func(Key, version)) error {
	if id, foreign := r.foreign(f.object); foreign {
		r.passForeign(s, id)
		return nil
	}
	obj, err := r.decode(f.object, r.faults.badFrames > 0 && r.faults.badFramesAt == r.position.rv)
	if err != nil {
		return r.badFrame(err)
	}
	key, rv := keyOf(obj.Identity), parseVersion(obj.ResourceVersion)
	defer s.reach(rv)
	repeated := r.isRepeated(key, rv)
	if t == Deleted {
		repeated = r.isRepeatedDeletion(s, key, rv)
	}
	if repeated {
		r.Observer.DuplicateDropped()
		return nil
	}
	c := Change{Type: t, Origin: Live, Object: obj, Key: key}
	c.Advances = !rv.none() && !r.position.covers(rv, key)
	switch {
	// While a set is sent, every object needs a record: one without is considered gone.
	case t == Modified && !r.sendsSet && r.isNoop(key, &obj):
		err = r.passOver(ctx, c, liveEmitTimeout)
	case t == Deleted:
		if err = r.emitDeletion(ctx, c, liveEmitTimeout); err == nil {
			r.forget(key)
			onDeletion(key, s.laterOf(rv))
		}
	default:
		r.explain(&c)
		if err = r.emit(ctx, c, liveEmitTimeout); err == nil {
			r.rememberObject(key, &obj, rv)
		}
	}
	if err != nil {
		return err
	}
	r.position.advance(rv, key)
	r.lastKnown = r.Now()
	r.progressed()
	if len(r.deletedAhead) > 0 {
		r.trimDeletedAhead()
	}
	return nil
}

// foreign returns the identity of an object that the reader does not emit, and true. It reads nothing else: where few of
// a stream's objects are the reader's, the others have to cost little. An object whose identity cannot be read is not
// foreign.
func (r *Reader) foreign(object []byte) (redact.Identity, bool) {
	if !r.Scope.Shard.Divided() && r.namespaces == nil {
		return redact.Identity{}, false
	}
	b, err := r.Plan.IdentifyBytes(object)
	switch {
	case err != nil:
		return redact.Identity{}, false
	case r.namespaces != nil && !r.namespaces.selects(b.Namespace):
		return b.Identity(), true
	case !r.Scope.Shard.Divided():
		return redact.Identity{}, false
	case r.Scope.Shard.OwnsBytes(b.UID, b.Namespace):
		r.noteShard(b, true)
		return redact.Identity{}, false
	}
	r.noteShard(b, false)
	return b.Identity(), true
}

// passForeign moves the position past an event of an object that the reader does not emit.
func (r *Reader) passForeign(s *stream, id redact.Identity) {
	rv := parseVersion(id.ResourceVersion)
	s.reach(rv)
	r.position.advance(rv, keyOf(id))
	r.lastKnown = r.Now()
	r.progressed()
}

// isRepeated reports whether the event of an existing object was already emitted: from an earlier stream, from the
// parallel one, or from a snapshot that was ahead of the position.
func (r *Reader) isRepeated(key Key, rv version) bool {
	if rv.none() {
		return false
	}
	if r.isPast(key, rv) {
		return true
	}
	known, ok := r.inventory.get(key)
	return ok && (known == rv || rv.before(known))
}

// isRepeatedDeletion reports whether the deletion was already emitted. For an object in the inventory it was not, even
// if the version is not new: some servers send a deletion with the last version of the object, or with an earlier one
// (https://github.com/kubernetes/kubernetes/issues/63356). The exception is a stream that has not yet reached the
// object's version in the inventory: there the object left the selection and has since re-entered it.
func (r *Reader) isRepeatedDeletion(s *stream, key Key, rv version) bool {
	if rv.none() {
		return false
	}
	if known, ok := r.inventory.get(key); ok {
		return rv.before(known) && !s.reached.atLeast(known)
	}
	return r.isPast(key, rv)
}

// isPast reports whether the position, or a snapshot ahead of it, has passed the event.
func (r *Reader) isPast(key Key, rv version) bool {
	if r.position.covers(rv, key) {
		return true
	}
	gone, ok := r.deletedAhead[key]
	return ok && !gone.before(rv)
}

// trimDeletedAhead drops the deletions that the position has passed.
func (r *Reader) trimDeletedAhead() {
	for key, rv := range r.deletedAhead {
		if rv.before(r.position.rv) {
			delete(r.deletedAhead, key)
		}
	}
}

// badFrame notes that the event after the position cannot be decoded.
func (r *Reader) badFrame(cause error) error {
	if r.faults.badFramesAt != r.position.rv {
		r.faults.badFrames = 0
	}
	r.faults.badFrames++
	r.faults.badFramesAt = r.position.rv
	return fmt.Errorf("%w: %w", errUndecodable, cause)
}
