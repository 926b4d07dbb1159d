package watchlist

import (
	"context"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"
)

// successor is a second stream, opened beside the live one to replace it. Until then, whatever happens to it does not
// affect the live stream.
type successor struct {
	*stream
	due    *time.Timer // nil: no time limit
	pause  *time.Timer // nil: it may be read at once
	parked bool        // not read until the live stream has caught up
	relist *relist     // nil: a rotation
}

// failedRelistRetry is the delay before a failed relist is retried, unless the interval is shorter.
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

// resetDue restarts the time limit, if there is one.
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

// throttle pauses a relist after that many of its objects have been read.
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

// dropSuccessor closes the second stream and keeps the live one.
func (f *follower) dropSuccessor() {
	if f.successor == nil {
		return
	}
	f.successor.stopDue()
	f.successor.stopPause()
	f.successor.close()
	if l := f.successor.relist; l != nil {
		l.slot.release()
		l.span.finish()
	}
	f.successor, f.sendsSet = nil, false
}

// promoteSuccessor closes the live stream and continues with the second. Events that both deliver are recognised by the
// position.
func (f *follower) promoteSuccessor() {
	f.live.close()
	f.divider.begin()
	f.successor.stopDue()
	if l := f.successor.relist; l != nil {
		l.span.finish()
	}
	f.live, f.successor, f.sendsSet = f.successor.stream, nil, false
	f.listen()
	f.rescheduleRotate()
}

// successorTakesOver continues with a rotation's stream, once the server has begun to answer it, when the live stream
// has ended. Before that the live stream is kept, because the silence of a watch without events proves nothing.
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
	f.received(c)
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

// readSuccessor handles the frames of the second stream, and lets it take over when it can.
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
	// The first frame of a rotation proves that the watch works, unless it is an error.
	line := s.peek()
	if len(line) == 0 {
		s.next() // drops blank lines
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

// beginRotate opens a plain watch from the position on a fresh connection, to get away from a bad API server or
// connection before it does harm. Compared with a relist it costs the server almost nothing.
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
		f.successor.relist.span.ends(err)
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
		f.Logger.Info("cannot rotate stream, keeping the old one", append(f.fields(err),
			zap.String("kind", kind))...)
	}
	f.dropSuccessor()
}
