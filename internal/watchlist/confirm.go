package watchlist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// Some servers send the end marker without the objects, so that everything looks deleted. Before a streamed snapshot
// makes more than half of the known objects disappear, or ends a first set empty, a LIST therefore has to agree, or a
// second stream on another connection if there is no right to list.
// https://github.com/openshift/openshift-apiserver/issues/672

const (
	// confirmAnswerTimeout bounds the wait for an answer once the server has the LIST request; confirmTimeout bounds
	// the whole LIST.
	confirmAnswerTimeout = 10 * time.Second
	confirmTimeout       = time.Minute
	// maxDoubts is how many streams in a row may be doubted if each of them lacks different objects.
	maxDoubts = 5
)

// doubted holds the objects that streamed snapshots lacked and whose absence could not be confirmed.
type doubted struct {
	absent  map[Key]struct{}
	empty   bool
	streams int
}

// lacksTooMuch reports whether so many of the known objects are absent that it has to be confirmed.
func lacksTooMuch(absent, known int) bool { return 2*absent > known }

// isDoubtful reports whether the absences of the snapshot have to be confirmed. Objects that two streams lack are gone.
func (r *Reader) isDoubtful(pass *snapshotPass, absent []Key) bool {
	switch {
	case pass.listed, r.doubted.streams >= maxDoubts:
		return false
	case r.position.none() && pass.received == 0 && r.inventory.len() == 0:
		return !r.doubted.empty
	}
	unconfirmed := 0
	for _, key := range absent {
		if _, ok := r.doubted.absent[key]; !ok {
			unconfirmed++
		}
	}
	return lacksTooMuch(unconfirmed, pass.known)
}

// doubt remembers which objects a streamed snapshot lacks, to compare with the next one on another connection.
func (r *Reader) doubt(absent []Key) {
	if r.doubted.absent == nil {
		r.doubted.absent = make(map[Key]struct{}, len(absent))
	}
	for _, key := range absent {
		r.doubted.absent[key] = struct{}{}
	}
	r.doubted.empty = true
	r.doubted.streams++
	r.server.freshNext = true
}

// confirm checks by a LIST whether the objects that a streamed snapshot at rv lacks are gone. It returns the version at
// which the snapshot is complete: rv, or that of the LIST if the objects came from the LIST.
func (r *Reader) confirm(ctx context.Context, pass *snapshotPass, absent []Key, rv version) (version, error) {
	if r.Knowledge.listsForbidden() {
		r.doubt(absent)
		return version{}, errUnconfirmed
	}
	listed := &snapshotPass{listed: true, known: pass.known}
	check := &listCheck{Reader: r, marker: rv, streamed: pass.received > 0, pass: listed}
	listRV, err := check.run(ctx)
	switch {
	case ctx.Err() != nil:
		return version{}, ctx.Err()
	case errors.Is(err, errQueueFull):
		return version{}, err
	case check.missing > 0:
		r.streamsLackObjects(check)
		if err != nil || check.passedOver {
			return version{}, errLackedObjects
		}
		pass.listed, pass.unidentified = true, listed.unidentified
		return listRV, nil
	case err != nil:
		r.log(zapcore.InfoLevel, "cannot confirm by LIST that the objects missing from a snapshot are gone, asking for another snapshot", "",
			append(r.fields(err), zap.Int("objects", len(absent)))...)
		if isForbidden(err) {
			r.Knowledge.noList()
		}
		r.doubt(absent)
		return version{}, fmt.Errorf("%w: %w", errUnconfirmed, err)
	case len(absent) > 0:
		r.log(zapcore.InfoLevel, "a LIST confirms that objects are gone that were missing from a snapshot", "", append(r.fields(nil), zap.Int("objects", len(absent)))...)
	default:
		r.log(zapcore.DebugLevel, "a LIST confirms that there are no objects", "", r.fields(nil)...)
	}
	return rv, nil
}

// streamsLackObjects notes that the resource has to be listed, because streams lack objects.
func (r *Reader) streamsLackObjects(check *listCheck) {
	r.Knowledge.noWatchList()
	r.server.listNext = true
	r.log(zapcore.WarnLevel, "server streamed an initial state that lacks objects of a LIST, listing resource instead", "",
		append(r.fields(nil), zap.Stringer("resource_version", check.marker))...)
}

// listCheck compares a LIST with the current snapshot, which has reached its end.
type listCheck struct {
	*Reader
	marker   version // of the snapshot
	streamed bool    // it contained objects

	// pass is the snapshot that the LIST replaces from the first missing object on. nil: the check ends there.
	pass       *snapshotPass
	missing    int  // objects that the snapshot should have held
	passedOver bool // an object was skipped because it is newer than the snapshot
}

// run reads the LIST and returns its version.
func (c *listCheck) run(parent context.Context) (version, error) {
	return c.readList(parent, Request{Scope: c.Scope, API: c.API, FreshConnection: true}, c.frame)
}

// readList reads a LIST while the live stream waits, and returns its version. each is called with every object, and at the
// end with the bookmark of the version; it may end the reading.
func (r *Reader) readList(parent context.Context, req Request, each func(ctx context.Context, line []byte) (rv version, ended bool, err error)) (version, error) {
	ctx, cancel := context.WithTimeoutCause(parent, confirmTimeout, errUnconfirmed)
	defer cancel()
	r.Observer.StreamOpened("list")
	s := openStream(ctx, snapshotLister{pages: r.Opener}, req)
	defer s.close()
	unanswered := time.NewTimer(confirmTimeout)
	defer unanswered.Stop()
	sent := s.sent
	for {
		for line, ok := s.next(); ok; line, ok = s.next() {
			if rv, ended, err := each(parent, line); ended || err != nil {
				return rv, err
			}
		}
		select {
		case <-sent:
			sent = nil
			unanswered.Reset(confirmAnswerTimeout)
		case chunk := <-s.chunks:
			if err := s.take(chunk); err != nil {
				return version{}, err
			}
			unanswered.Stop()
			sent = nil
		case <-unanswered.C:
			return version{}, errSlowAnswer
		case <-ctx.Done():
			return version{}, context.Cause(ctx)
		}
	}
}

func (c *listCheck) frame(ctx context.Context, line []byte) (rv version, ended bool, err error) {
	f, err := parseFrame(line)
	if err != nil {
		return version{}, false, err
	}
	if f.event == watch.Bookmark {
		mark, err := parseBookmark(f.object)
		return mark.rv, true, err
	}
	id, err := c.Plan.Identify(f.object)
	if err != nil {
		return version{}, false, err
	}
	key, at := keyOf(id), parseVersion(id.ResourceVersion)
	if c.missing == 0 {
		switch {
		case c.marker.before(at):
			c.passedOver = true
			return version{}, false, nil
		case c.isAccountedFor(id, key, at):
			return version{}, false, nil
		}
		c.missing++
		if c.pass == nil {
			return version{}, true, nil
		}
	}
	return version{}, false, c.snapshotObject(ctx, c.pass, f)
}

// isAccountedFor reports whether the snapshot held the object, or did not have to.
func (c *listCheck) isAccountedFor(id redact.Identity, key Key, at version) bool {
	switch {
	case !c.Scope.Shard.Owns(id.UID, id.Namespace):
		return true // the API servers of the stream and of the LIST may differ in whether they leave it out
	case !c.selects(id.Namespace):
		return c.streamed
	}
	gone, ok := c.deletedAhead[key]
	return c.inventory.wasSeen(key) || ok && !gone.before(at)
}
