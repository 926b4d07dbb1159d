package harness

import (
	"sync"
	"testing"
	"time"
)

// changes wakes waiters at the next change of something.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

// upcoming returns a channel that is closed at the next change. Call it before checking, so that no change is missed in
// between.
func (c *changes) upcoming() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

func (c *changes) happened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// await checks at every change until nothing is missing, and fails the test with what is still missing after the time.
func (c *changes) await(t testing.TB, within time.Duration, what string, missing func() string) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		changed := c.upcoming()
		still := missing()
		if still == "" {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited %s for %s: %s", within, what, still)
		case <-t.Context().Done():
			t.Fatalf("gave up waiting for %s: %s", what, still)
		}
	}
}

// pollInterval is the time between two checks of something that does not signal its changes.
const pollInterval = 50 * time.Millisecond

// Poll repeatedly checks something that does not signal its changes, such as another process, until nothing is missing,
// and fails the test with what is still missing after the time.
func Poll(t testing.TB, within time.Duration, what string, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		still := missing()
		if still == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %s", within, what, still)
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("gave up waiting for %s: %s", what, still)
		}
	}
}
