package replay

import (
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
)

// change is a change of an object.
type change struct {
	version uint64
	number  int
	at      time.Duration // clock.Now
}

// historyLength is how many changes of a resource are kept for watches, with their times.
const historyLength = 1 << 17

// history holds the last changes of a resource.
type history struct {
	mu      sync.Mutex
	changes []change // a ring
	count   uint64   // total number of changes
	current map[int]uint64
	next    chan struct{} // closed at the next change
}

func newHistory() *history {
	return &history{current: make(map[int]uint64), next: make(chan struct{})}
}

// add is called with increasing versions.
func (h *history) add(number int, version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := change{version: version, number: number, at: clock.Now()}
	if len(h.changes) < historyLength {
		h.changes = append(h.changes, c)
	} else {
		h.changes[h.count%historyLength] = c
	}
	h.count++
	h.current[number] = version
	close(h.next)
	h.next = make(chan struct{})
}

// from returns the index of the first change after a version, and false if it is no longer known.
func (h *history) from(version uint64) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.count - uint64(len(h.changes))
	for at := h.count; at > first; at-- {
		if h.changes[(at-1)%historyLength].version <= version {
			return at, true
		}
	}
	return first, first == 0
}

// read copies the changes from an index on, as many as fit, and returns the channel that is closed at the next change.
func (h *history) read(index uint64, into []change) (int, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for ; n < len(into) && index < h.count; n++ {
		into[n] = h.changes[index%historyLength]
		index++
	}
	return n, h.next
}

// snapshot returns the changed objects, and the index of the next change.
func (h *history) snapshot() (map[int]uint64, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	current := make(map[int]uint64, len(h.current))
	for number, version := range h.current {
		current[number] = version
	}
	return current, h.count
}

// times returns the known changes, oldest first.
func (h *history) times() []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]change, 0, len(h.changes))
	for at := h.count - uint64(len(h.changes)); at < h.count; at++ {
		all = append(all, h.changes[at%historyLength])
	}
	return all
}
