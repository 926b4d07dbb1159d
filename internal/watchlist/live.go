package watchlist

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
)

// liveFrame handles one frame of the live stream. The position and the inventory move after the change has
// been handed over, so that whatever goes wrong here is read again and nothing is lost.
func (r *Reader) liveFrame(ctx context.Context, line []byte, onDeletion func(Key, version)) error {
	f, err := parseFrame(line)
	if err != nil {
		r.Observer.FrameUndecodable()
		return r.badFrame(err)
	}
	switch f.event {
	case watch.Added:
		return r.liveObject(ctx, f, Added, onDeletion)
	case watch.Modified:
		return r.liveObject(ctx, f, Modified, onDeletion)
	case watch.Deleted:
		return r.liveObject(ctx, f, Deleted, onDeletion)
	case watch.Bookmark:
		if mark, err := parseBookmark(f.object); err == nil && !mark.rv.none() {
			if err := r.advanced(ctx, mark.rv, liveEmitTimeout); err != nil {
				return err
			}
			if !mark.endsInitialList {
				r.Knowledge.bookmarkSeen()
			}
			r.position.close(mark.rv)
			r.lastKnown = r.Now()
		}
		return nil
	case watch.Error:
		return statusError(f.object)
	}
	r.Observer.FrameUndecodable()
	return r.badFrame(errUnknownType(f.event))
}

func (r *Reader) liveObject(ctx context.Context, f frame, t Type, onDeletion func(Key, version)) error {
	obj, err := r.decode(f.object, r.faults.badFrames > 0 && r.faults.badFramesAt == r.position.rv)
	if err != nil {
		return r.badFrame(err)
	}
	key, rv := keyOf(obj.Identity), parseVersion(obj.ResourceVersion)
	if !r.owns(key) {
		r.passForeign(rv, key)
		return nil
	}
	if r.isRepeated(key, rv, t) {
		r.Observer.DuplicateDropped()
		return nil
	}
	c := Change{Type: t, Origin: Live, Object: obj, Key: key, Advances: !rv.none()}
	if err := r.emit(ctx, c, liveEmitTimeout); err != nil {
		return err
	}
	if t == Deleted {
		r.forget(key)
		onDeletion(key, rv)
	} else {
		r.remember(key, obj.Identity, rv)
	}
	r.position.advance(rv, key)
	r.lastKnown = r.Now()
	if len(r.deletedAhead) > 0 {
		r.trimDeletedAhead()
	}
	return nil
}

// passForeign moves the position past an event of an object that another process emits.
func (r *Reader) passForeign(rv version, key Key) {
	r.position.advance(rv, key)
	r.lastKnown = r.Now()
}

// isRepeated says that the event went out already: from a stream before this one, from the one beside it, or
// from a snapshot that was ahead of the position.
func (r *Reader) isRepeated(key Key, rv version, t Type) bool {
	if rv.none() {
		return false
	}
	if r.position.covers(rv, key) {
		return true
	}
	if gone, ok := r.deletedAhead[key]; ok && !gone.before(rv) {
		return true
	}
	known, ok := r.inventory.get(key)
	return ok && t != Deleted && (known == rv || rv.before(known))
}

// trimDeletedAhead drops what the position has come past.
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
