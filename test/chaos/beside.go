package chaos

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// beside is a fault that continues during others.
type beside struct {
	kind  Kind
	until time.Time
	end   func()
}

// endBeside ends the concurrent faults that are due.
func (r *run) endBeside(due func(beside) bool) {
	for i := 0; i < len(r.beside); {
		b := r.beside[i]
		if !due(b) {
			i++
			continue
		}
		r.beside = slices.Delete(r.beside, i, i+1)
		b.end()
		r.say("over: %s", b.kind)
	}
}

// untilBeside returns the time until one of them ends.
func (r *run) untilBeside() time.Duration {
	soonest := progressEvery
	for _, b := range r.beside {
		soonest = min(soonest, max(0, time.Until(b.until)))
	}
	return soonest
}

// causes records the beginning of a cause, and returns a function that records its end.
func (r *run) causes(k Kind) (over func()) {
	i := len(r.caused)
	r.caused = append(r.caused, Cause{Kind: k, From: time.Now(), To: time.Now().Add(24 * time.Hour)})
	return func() {
		r.caused[i].To, r.caused[i].Revision = time.Now(), r.etcd.Revision(r.t)
	}
}

// spoilers chooses the front's faults of streams at random. Streams are concurrent.
type spoilers struct {
	mu     sync.Mutex
	random *rand.Rand
}

func newSpoilers(seed uint64) *spoilers {
	return &spoilers{random: rand.New(rand.NewPCG(seed, 0x59011))}
}

// chance returns true once in n times on average.
func (s *spoilers) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n) == 0
}

func (s *spoilers) below(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(d)))
}

// size returns a number up to most, with an even distribution of orders of magnitude.
func (s *spoilers) size(most int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Int64N(1 + most>>s.random.IntN(12))
}
