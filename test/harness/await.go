package harness

import (
	"sync"
	"testing"
	"time"
)

// changes wakes who waits for the next change of something.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

// upcoming returns a channel that is closed at the next change. It is to be called before the look at what may
// change, so that nothing falls between.
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

// await looks again at every change until nothing is missing, and fails the test with what still is after the time.
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
			t.Fatalf("waited %s in vain for %s: %s", within, what, still)
		case <-t.Context().Done():
			t.Fatalf("waited in vain for %s: %s", what, still)
		}
	}
}

// pollInterval is the time between two looks at what gives no sign of its changes.
const pollInterval = 50 * time.Millisecond

// Poll looks at what gives no sign of its changes, such as another process, until nothing is missing, and fails the
// test with what still is after the time.
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
			t.Fatalf("waited %s in vain for %s: %s", within, what, still)
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("waited in vain for %s: %s", what, still)
		}
	}
}
