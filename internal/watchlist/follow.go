package watchlist

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// follower reads the live stream and, at times, a second one that will replace it.
type follower struct {
	*Reader
	live      *stream
	successor *successor // nil most of the time

	began     time.Time   // when the server began to answer; zero: not yet
	quietFrom time.Time   // when the server had the request, or the live stream last delivered something; zero: not yet
	silence   *time.Timer // fires when it has been silent for too long
	relist    *time.Timer
	rotate    *time.Timer
	redeliver *time.Timer
	quiet     *time.Timer // fires when a quiet stream without bookmarks is due for a comparison
	quietDue  bool        // the slot is requested for that comparison
	hopeless  error       // why the live stream has to be replaced, as a relist has shown
	slot      *turn       // for a relist; nil while none is due
}

// follow reads live events from s until it ends, closes it, and returns how it ended.
func (r *Reader) follow(ctx context.Context, s *stream) ending {
	f := &follower{
		Reader:    r,
		live:      s,
		silence:   dueTimer(time.Time{}),
		relist:    dueTimer(r.schedule.relist),
		rotate:    dueTimer(r.schedule.rotate),
		quiet:     dueTimer(time.Time{}),
		redeliver: dueTimer(r.schedule.redelivery.at),
	}
	defer func() {
		f.slot.leave()
		f.abandonRelist()
		f.dropSuccessor()
		f.live.close()
		f.silence.Stop()
		f.relist.Stop()
		f.rotate.Stop()
		f.redeliver.Stop()
		f.quiet.Stop()
	}()
	if s.opened { // continues a snapshot
		f.began = time.Now()
		f.listen()
	}
	framesBefore := s.frames
	err := f.loop(ctx)
	end := ending{err: err, opened: f.live.opened, frames: f.live.frames}
	if f.live == s {
		end.frames -= framesBefore
	}
	if !f.began.IsZero() {
		end.lived = time.Since(f.began)
	}
	f.noteAlive(end)
	if f.live.opened || !isUnanswered(err) { // an unreachable server is not a silent one
		f.sumQuiet()
	}
	return end
}

func (f *follower) loop(ctx context.Context) error {
	sent := f.live.sent
	for {
		if err := f.readLive(ctx); err != nil {
			return err
		}
		if err := f.readSuccessor(ctx); err != nil {
			return err
		}
		if f.hopeless != nil {
			return f.hopeless
		}
		if err := f.reportDrops(ctx); err != nil {
			return err
		}
		select {
		case <-sent:
			sent = nil
			f.quietFrom = time.Now()
		case c := <-f.live.chunks:
			if err := f.takeLive(c); err != nil {
				return err
			}
		case c := <-f.successorChunks():
			f.takeFromSuccessor(c)
		case <-f.successorPause():
			f.successor.stopPause()
		case <-f.successorDue():
			if err := f.successorTimedOut(ctx); err != nil {
				return err
			}
		case <-f.silence.C:
			if !f.successorTakesOver(errSilent) {
				return errSilent
			}
		case <-f.relist.C:
			f.slot.leave()
			f.slot, f.quietDue = f.SnapshotSlots.queue(rankRelist, f.inventory.len()), false
		case <-f.quiet.C:
			if f.slot == nil && f.successor == nil && f.Knowledge.lacksBookmarks() {
				f.slot, f.quietDue = f.SnapshotSlots.queue(rankRelist, f.inventory.len()), true
			}
		case <-f.slot.comes():
			held := f.slot.hold()
			f.slot = nil
			if err := f.beginRelist(ctx, held); err != nil {
				return err
			}
		case <-f.rotate.C:
			f.beginRotate(ctx)
		case <-f.storage.later:
			if err := f.restoreLate(ctx); err != nil {
				return err
			}
			f.armRelist()
		case <-f.drops.signal:
			f.noteDrops()
			f.armRedelivery()
		case <-f.selection.signal:
			if err := f.followSelection(ctx); err != nil {
				return err
			}
			if f.awaitsSnapshot() {
				return errRelistDue
			}
		case <-f.redeliver.C:
			if err := f.beginRedelivery(); err != nil {
				return err
			}
		case api := <-f.apis:
			if f.useAPI(api) {
				f.beginRotate(ctx)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeLive handles a chunk of the live stream. If the stream has ended, its successor takes over at once.
func (f *follower) takeLive(c chunk) error {
	if err := f.live.take(c); err != nil {
		if errors.Is(err, ErrFrameTooLarge) {
			return f.badFrame(err)
		}
		if f.successorTakesOver(err) {
			return nil
		}
		return err
	}
	if c.head != nil && !f.passesOverTooLarge(c.head) {
		return f.badFrame(&frameTooLargeError{c.head})
	}
	if c.opened {
		f.began = time.Now()
		f.listen()
	}
	f.received(c)
	f.nowReading()
	return nil
}

// abandonRelist notes that the live stream's end also ends a running relist.
func (f *follower) abandonRelist() {
	if f.successor != nil && f.successor.relist != nil {
		f.Observer.RelistEnded("failed", time.Since(f.successor.relist.began))
		if f.successor.relist.quiet {
			f.schedule.quiet = time.Now() // on the next stream
			return
		}
		f.scheduleRelist(failedRelistRetry)
		f.scheduleSet() // also if there are no other relists
		f.armRedelivery()
	}
}

// readLive handles the frames received on the live stream.
func (f *follower) readLive(ctx context.Context) error {
	before := f.live.frames
	for line, ok := f.live.next(); ok; line, ok = f.live.next() {
		if err := f.liveFrame(ctx, f.live, line, f.deletedLive); err != nil {
			return err
		}
	}
	if f.live.frames > before {
		f.Knowledge.watchDelivered()
		f.server.missedByMute = false
		f.server.quiet, f.server.quietChecks = 0, 0
		f.server.recoveries, f.server.futile = 0, 0
		f.schedule.quiet = time.Time{}
		f.server.behindSince = time.Time{}
		f.listen()
	}
	return nil
}

// listen restarts the silence timer: the live stream has just begun, or delivered something. The timer does not run
// while a request waits for its turn or its answer.
func (f *follower) listen() {
	f.quietFrom = time.Now()
	f.silence.Reset(f.silenceLimit(f.live))
	f.armQuiet()
}

// sumQuiet adds up how long streams have been silent.
func (f *follower) sumQuiet() {
	if !f.quietFrom.IsZero() {
		f.server.quiet += time.Since(f.quietFrom)
	}
	f.quietFrom = time.Time{}
}

// deletedLive remembers deletions during a relist, because its snapshot may still hold the object.
func (f *follower) deletedLive(key Key, rv version) {
	if f.successor != nil && f.successor.relist != nil {
		f.successor.relist.deleted[key] = rv
	}
}

// silenceLimit returns how long a stream may be silent before it counts as dead.
func (r *Reader) silenceLimit(s *stream) time.Duration {
	switch {
	case s.frames == 0 && r.Knowledge.doubtsWatches(), r.server.missedByMute:
		return resumeSilenceLimit
	case r.Knowledge.lacksBookmarks():
		return 2 * watchTimeout // the watch's own timeout comes first
	case s.frames == 0:
		return resumeSilenceLimit
	}
	return silenceLimit
}

func (r *Reader) scheduleRelist(in time.Duration) {
	interval := r.RelistInterval
	if r.unverified && (interval == 0 || interval > failedRelistRetry) {
		interval = failedRelistRetry
	}
	r.schedule.relist = time.Time{}
	if interval > 0 {
		r.schedule.relist = time.Now().Add(spread(min(in, interval)))
	}
}

// overdueRelistSpread bounds the random delay of a relist that is overdue after a restart.
const overdueRelistSpread = time.Minute

// scheduleRelistSince schedules the next relist after a comparison at that time, which may have been done by an earlier
// process. Otherwise restarts that are more frequent than relists would prevent them all.
func (r *Reader) scheduleRelistSince(compared time.Time) {
	left := r.RelistInterval
	if !compared.IsZero() {
		left -= max(0, r.Now().Sub(compared))
	} else {
		left = 0
	}
	if r.RelistInterval > 0 && left <= overdueRelistSpread {
		r.schedule.relist = time.Now().Add(rand.N(min(overdueRelistSpread, r.RelistInterval)))
		return
	}
	r.scheduleRelist(left)
}

func (r *Reader) scheduleRotate() {
	r.schedule.rotate = time.Time{}
	if r.RotateInterval > 0 {
		r.schedule.rotate = time.Now().Add(spread(r.RotateInterval))
	}
}

// dueTimer returns a timer that fires at the given time, or never if it is zero.
func dueTimer(at time.Time) *time.Timer {
	if at.IsZero() {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTimer(time.Until(at))
}

func (f *follower) armRelist() {
	if !f.schedule.relist.IsZero() {
		f.relist.Reset(time.Until(f.schedule.relist))
	}
}

func (f *follower) rescheduleRotate() {
	f.scheduleRotate()
	if !f.schedule.rotate.IsZero() {
		f.rotate.Reset(time.Until(f.schedule.rotate))
	}
}

// isOwnEnd reports whether we ended the stream ourselves.
func isOwnEnd(err error) bool {
	return errors.Is(err, context.Canceled)
}
