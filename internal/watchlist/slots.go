package watchlist

import (
	"context"
	"sync"
	"time"
)

const (
	// slotHold is how long a snapshot may keep its slot. A longer one continues without it: three slow snapshots must
	// not block all others.
	slotHold = time.Minute
	// slotUnanswered is the same limit while the server has not begun to answer.
	slotUnanswered = 10 * time.Second
	// slowSlot is how long a reader waits for a slot before its state becomes Waiting.
	slowSlot = 30 * time.Second
)

// Slots bounds the concurrent snapshots of one server. Each may occupy up to ten of the seats that the API server has
// for all its requests.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#seats-occupied-by-a-request
type Slots struct {
	taken chan struct{}
}

// NewSlots returns slots for n snapshots.
func NewSlots(n int) *Slots { return &Slots{taken: make(chan struct{}, n)} }

// slot is an acquired slot. It releases itself when it has been held for too long.
type slot struct {
	giveBack func()
	tooLong  *time.Timer
}

// hold returns the slot of a caller that has put a token into taken.
func (s *Slots) hold() *slot {
	giveBack := sync.OnceFunc(func() { <-s.taken })
	return &slot{giveBack: giveBack, tooLong: time.AfterFunc(slotHold, giveBack)}
}

// sent is called when the server has the request.
func (s *slot) sent() { s.tooLong.Reset(slotUnanswered) }

// answered is called when the server has begun to answer.
func (s *slot) answered() { s.tooLong.Reset(slotHold) }

// release gives the slot back unless that has already happened.
func (s *slot) release() {
	s.tooLong.Stop()
	s.giveBack()
}

// awaitSlot waits until a snapshot may be taken.
func (r *Reader) awaitSlot(ctx context.Context) (*slot, error) {
	slow := time.NewTimer(slowSlot)
	defer slow.Stop()
	for {
		select {
		case r.SnapshotSlots.taken <- struct{}{}:
			return r.SnapshotSlots.hold(), nil
		case <-slow.C:
			r.setState(Waiting, nil)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
