package watchlist

import (
	"context"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"
)

// successor is a second stream, opened beside the live one to take its place. Until it does, whatever
// becomes of it leaves the live stream alone.
type successor struct {
	*stream
	due    *time.Timer // nil: not waited for
	pause  *time.Timer // nil: what comes may be read at once
	parked bool        // not read, until the live stream has caught up
	relist *relist     // nil: a rotation
}

// failedRelistRetry is when a relist that failed is tried again, if the interval is not shorter.
const failedRelistRetry = 5 * time.Minute

func (f *follower) successorChunks() chan chunk {
	if f.successor == nil || f.successor.parked || f.successor.pause != nil {
		return nil
	}
	return f.successor.chunks
}

func (f *follower) successorPause() <-chan time.Time {
	if f.successor == nil || f.successor.pause == nil {
		return nil
	}
	return f.successor.pause.C
}

func (f *follower) successorDue() <-chan time.Time {
	if f.successor == nil || f.successor.due == nil {
		return nil
	}
	return f.successor.due.C
}

func (s *successor) setDue(d time.Duration) {
	s.stopDue()
	s.due = time.NewTimer(d)
}

// resetDue starts the wait anew, if there is one.
func (s *successor) resetDue(d time.Duration) {
	if s.due != nil {
		s.due.Reset(d)
	}
}

func (s *successor) stopDue() {
	if s.due != nil {
		s.due.Stop()
		s.due = nil
	}
}

// rest leaves a relist alone for a while, after so many of its objects have been read.
func (s *successor) throttle(objects int) {
	if objects > 0 {
		s.pause = time.NewTimer(time.Duration(objects) * time.Second / relistObjectsPerSecond)
	}
}

func (s *successor) stopPause() {
	if s.pause != nil {
		s.pause.Stop()
		s.pause = nil
	}
}

// dropSuccessor closes the second stream and goes on with the first.
func (f *follower) dropSuccessor() {
	if f.successor == nil {
		return
	}
	f.successor.stopDue()
	f.successor.stopPause()
	f.successor.close()
	if l := f.successor.relist; l != nil {
		l.slot.release()
	}
	f.successor = nil
}

// promoteSuccessor closes the live stream and goes on with the second. What both have delivered is dropped
// by the position.
func (f *follower) promoteSuccessor() {
	f.live.close()
	f.successor.stopDue()
	f.live, f.successor = f.successor.stream, nil
	f.listen()
	f.rescheduleRotate()
}

// successorTakesOver goes on with a rotation's stream that the server has begun to answer, where the live one has come to
// its end. Until then the live one is kept, since a watch that has nothing to say proves nothing by its silence.
func (f *follower) successorTakesOver(end error) bool {
	s := f.successor
	if s == nil || s.relist != nil || !s.opened || isOwnEnd(end) {
		return false
	}
	f.Observer.StreamEnded(endReason(end))
	f.promoteSuccessor()
	return true
}

func (f *follower) takeFromSuccessor(c chunk) {
	s := f.successor
	if err := s.take(c); err != nil {
		if s.relist != nil && s.opened && isCleanEnd(err) {
			err = errIncomplete
		}
		f.failSuccessor(err)
		return
	}
	if c.head != nil && s.relist != nil {
		f.tooLargeInRelist(s.relist, c.head)
	}
	switch {
	case s.relist == nil:
		if c.opened && !f.Knowledge.lacksBookmarks() {
			s.setDue(resumeSilenceLimit)
		}
	case s.listed: // each page has a limit of its own
	default:
		s.setDue(endMarkerTimeout)
	}
	if c.opened && s.relist != nil {
		s.relist.slot.answered()
	}
}

// readSuccessor handles what has come on the second stream, and lets it take over when it may.
func (f *follower) readSuccessor(ctx context.Context) error {
	s := f.successor
	switch {
	case s == nil:
		return nil
	case s.relist != nil:
		return f.readRelist(ctx)
	case s.drained():
		return nil
	}
	// The first frame of a rotation: that it came proves the watch good, unless it is an error.
	line := s.peek()
	if len(line) == 0 {
		s.next() // blank lines, which it drops
		return nil
	}
	first, err := parseFrame(line)
	if err == nil && first.event == watch.Error {
		err = statusError(first.object)
	}
	if err != nil {
		f.failSuccessor(err)
		return nil
	}
	f.promoteSuccessor()
	return f.readLive(ctx)
}

func (f *follower) successorTimedOut(ctx context.Context) error {
	f.successor.due = nil
	if f.successor.relist != nil {
		return f.relistTimedOut(ctx)
	}
	f.failSuccessor(errSilent)
	return nil
}

// beginRotate opens a plain watch from the position on a fresh connection, so that a bad API server or
// connection is left before it does harm. Compared with a relist it costs the server nothing.
func (f *follower) beginRotate(ctx context.Context) {
	if f.successor != nil || f.position.none() {
		f.rescheduleRotate()
		return
	}
	req := f.resumeRequest()
	req.FreshConnection = true
	f.Observer.StreamOpened("rotate")
	f.successor = &successor{stream: openStream(ctx, f.Opener, req)}
}

func (f *follower) failSuccessor(err error) {
	kind := "rotate"
	if f.successor.relist != nil {
		kind = "relist"
		if !isOwnEnd(err) {
			f.faults.failedRelists++
		}
		f.noteFailedRelist(err)
		f.abandonRelist()
		if isVersionTooLarge(err) {
			if f.behindFor() >= lagTimeout {
				f.hopeless = err
			}
			f.scheduleRelist(lagTimeout)
		}
		f.armRelist()
		if f.successor.relist.quiet {
			f.schedule.quiet = time.Now().Add(spread(failedRelistRetry))
			f.armQuiet()
		}
	} else {
		f.rescheduleRotate()
	}
	if !isOwnEnd(err) {
		f.Logger.Info("cannot replace stream, keeping the old one", append(f.fields(err),
			zap.String("kind", kind))...)
	}
	f.dropSuccessor()
}
