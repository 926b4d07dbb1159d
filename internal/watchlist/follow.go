package watchlist

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// follower reads the live stream, and beside it at times the one that is to take its place.
type follower struct {
	*Reader
	live      *stream
	successor *successor // nil most of the time

	silence *time.Timer
	relist  *time.Timer
	rotate  *time.Timer
	slot    chan struct{} // the snapshot slots, while one is wanted
}

// follow reads live events from s until it ends, closes it, and says how it ended.
func (r *Reader) follow(ctx context.Context, s *stream) ending {
	began := time.Now()
	f := &follower{
		Reader:  r,
		live:    s,
		silence: time.NewTimer(r.silenceLimit(s)),
		relist:  dueTimer(r.schedule.relist),
		rotate:  dueTimer(r.schedule.rotate),
	}
	defer func() {
		f.abandonRelist()
		f.dropSuccessor()
		f.live.close()
		f.silence.Stop()
		f.relist.Stop()
		f.rotate.Stop()
	}()
	framesBefore := s.frames
	err := f.loop(ctx)
	end := ending{err: err, opened: f.live.opened, frames: f.live.frames, lived: time.Since(began)}
	if f.live == s {
		end.frames -= framesBefore
	}
	return end
}

func (f *follower) loop(ctx context.Context) error {
	for {
		if err := f.readLive(ctx); err != nil {
			return err
		}
		if err := f.readSuccessor(ctx); err != nil {
			return err
		}
		select {
		case c := <-f.live.chunks:
			if err := f.live.take(c); err != nil {
				return err
			}
			f.setState(Reading, nil)
		case c := <-f.successorChunks():
			f.takeFromSuccessor(c)
		case <-f.successorPause():
			f.successor.stopPause()
		case <-f.successorDue():
			if err := f.successorTimedOut(ctx); err != nil {
				return err
			}
		case <-f.silence.C:
			return errSilent
		case <-f.relist.C:
			f.slot = f.SnapshotSlots
		case f.slot <- struct{}{}:
			f.slot = nil
			if err := f.beginRelist(ctx); err != nil {
				return err
			}
		case <-f.rotate.C:
			f.beginRotate(ctx)
		case api := <-f.apis:
			if f.useAPI(api) {
				f.beginRotate(ctx)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// abandonRelist notes that a relist, if one is under way, ends with the live stream.
func (f *follower) abandonRelist() {
	if f.successor != nil && f.successor.relist != nil {
		f.Observer.RelistEnded("failed")
		f.scheduleRelist(failedRelistRetry)
	}
}

// readLive handles what has come on the live stream.
func (f *follower) readLive(ctx context.Context) error {
	before := f.live.frames
	for line, ok := f.live.next(); ok; line, ok = f.live.next() {
		if err := f.liveFrame(ctx, f.live, line, f.deletedLive); err != nil {
			return err
		}
	}
	if f.live.frames > before {
		if f.lost != nil {
			return errRelistDue // what an earlier process has begun to make up for is still to be compared
		}
		f.silence.Reset(f.silenceLimit(f.live))
	}
	return nil
}

// deletedLive remembers deletions while a relist is under way, whose snapshot may still hold the object.
func (f *follower) deletedLive(key Key, rv version) {
	if f.successor != nil && f.successor.relist != nil {
		f.successor.relist.deleted[key] = rv
	}
}

// silenceLimit is how long a stream may say nothing before it is taken to be dead.
func (r *Reader) silenceLimit(s *stream) time.Duration {
	switch {
	case r.Knowledge.lacksBookmarks():
		return 2 * watchTimeout // the watch's own timeout comes first
	case s.frames == 0:
		return resumeSilenceLimit
	}
	return silenceLimit
}

func (r *Reader) scheduleRelist(in time.Duration) {
	r.schedule.relist = time.Time{}
	if r.RelistInterval > 0 {
		r.schedule.relist = time.Now().Add(spread(min(in, r.RelistInterval)))
	}
}

// overdueRelistSpread bounds how long a relist that is overdue after a restart may wait.
const overdueRelistSpread = time.Minute

// scheduleRelistSince schedules the relist that follows a comparison at that time, which may have been one of an earlier
// process: else restarts that are more frequent than relists would leave none.
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

// dueTimer fires at the time, or never if it is zero.
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

// isOwnEnd says that the stream was ended from this side.
func isOwnEnd(err error) bool {
	return errors.Is(err, context.Canceled)
}
