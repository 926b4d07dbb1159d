package watchlist

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

const (
	// slotHold is how long a snapshot may keep its slot. A longer one continues without it: three slow snapshots must
	// not block all others.
	slotHold = time.Minute
	// slotUnanswered is the same limit while the server has not begun to answer.
	slotUnanswered = 10 * time.Second
	// slowSlot is how long a reader waits for a slot before that is logged.
	slowSlot = 30 * time.Second
)

// Slots bounds the concurrent snapshots of one server. Each may occupy up to ten of the seats that the API server has
// for all its requests.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#seats-occupied-by-a-request
type Slots struct {
	mu      sync.Mutex
	free    int
	waiting []*turn // in the order of their arrival
}

// NewSlots returns slots for n snapshots.
func NewSlots(n int) *Slots { return &Slots{free: n} }

// Rank decides which resource gets a slot first. Among resources of the same rank, those known to be smaller come first, so
// that most of them are complete soon.
type Rank uint8

const (
	RankNamed   Rank = iota // named in the configuration
	RankMatched             // selected by a pattern
	RankLarge               // selected by a pattern, and large in most clusters
	rankRelist              // a comparison beside a live stream, which is never urgent
)

// turn is a place in the queue for a slot. Its owner calls hold after it came, or leave.
type turn struct {
	slots   *Slots
	rank    Rank
	objects int // known to exist
	since   time.Time
	came    chan struct{} // closed when it is the owner's turn
	given   bool          // under slots.mu
}

// slowTurn is how long a turn may be passed over.
const slowTurn = time.Minute

// queue returns a turn, which may come at once.
func (s *Slots) queue(rank Rank, objects int) *turn {
	t := &turn{slots: s, rank: rank, objects: objects, since: time.Now(), came: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, t)
	s.giveLocked()
	return t
}

// giveLocked gives the free slots to those whose turn it is.
func (s *Slots) giveLocked() {
	for s.free > 0 && len(s.waiting) > 0 {
		next := 0 // the first to arrive goes first if it has waited for too long
		if time.Since(s.waiting[0].since) < slowTurn {
			for i, t := range s.waiting {
				if t.before(s.waiting[next]) {
					next = i
				}
			}
		}
		s.free--
		s.waiting[next].given = true
		close(s.waiting[next].came)
		s.waiting = slices.Delete(s.waiting, next, next+1)
	}
}

func (t *turn) before(other *turn) bool {
	if t.rank != other.rank {
		return t.rank < other.rank
	}
	return t.objects < other.objects
}

func (s *Slots) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.giveLocked()
}

// leave gives up a turn, and its slot if it came at the same moment. nil is no turn.
func (t *turn) leave() {
	if t == nil {
		return
	}
	t.slots.mu.Lock()
	given := t.given
	t.slots.waiting = slices.DeleteFunc(t.slots.waiting, func(other *turn) bool { return other == t })
	t.slots.mu.Unlock()
	if given {
		t.slots.giveBack()
	}
}

// comes returns a channel that is closed when the turn has come; nil for none.
func (t *turn) comes() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.came
}

// slot is an acquired slot. It releases itself when it has been held for too long.
type slot struct {
	giveBack func()
	tooLong  *time.Timer
}

// hold returns the slot of a turn that came.
func (t *turn) hold() *slot {
	giveBack := sync.OnceFunc(t.slots.giveBack)
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
	turn := r.SnapshotSlots.queue(r.Rank, r.inventory.len())
	for {
		select {
		case <-turn.came:
			return turn.hold(), nil
		case <-slow.C:
			if !r.state.Condition.IsFault() {
				r.begun = false
				r.setState(Starting, nil)
			}
			r.log(zapcore.WarnLevel, "snapshot of resource waits for other snapshots of the same API server to end", "", r.fields(nil)...)
		case <-ctx.Done():
			turn.leave()
			return nil, ctx.Err()
		}
	}
}
