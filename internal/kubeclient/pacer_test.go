package kubeclient

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd makes requests wait for a pacer, and records when each gets its turn.
type crowd struct {
	pacer *Pacer
	began time.Time
	all   sync.WaitGroup

	mu    sync.Mutex
	turns []turn
}

type turn struct {
	name  string
	after time.Duration
}

func (c *crowd) add(t *testing.T, n int, name string, resume bool) {
	for range n {
		c.all.Go(func() {
			assert.NoError(t, c.pacer.Wait(t.Context(), resume))
			c.mu.Lock()
			defer c.mu.Unlock()
			c.turns = append(c.turns, turn{name, time.Since(c.began)})
		})
		synctest.Wait() // so that they arrive in order
	}
}

func (c *crowd) names() (names []string) {
	for _, t := range c.turns {
		names = append(names, t.name)
	}
	return names
}

func TestResumesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{pacer: NewPacer(10, 2), began: time.Now()}
		c.add(t, 20, "snapshot", false)
		c.add(t, 20, "resume", true)
		c.all.Wait()
		want := slices.Concat(
			slices.Repeat([]string{"snapshot"}, 2), // before the first resume
			slices.Repeat([]string{"resume"}, 20),
			slices.Repeat([]string{"snapshot"}, 18),
		)
		assert.Equal(t, want, c.names())
		assert.InDelta(t, 3.8, c.turns[39].after.Seconds(), 0.01, "38 at 10 a second")
	})
}

// Streams that end all the time must not block snapshots forever.
func TestResumesDoNotStarveTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{pacer: NewPacer(10, 1), began: time.Now()}
		c.add(t, 1, "first", true)
		c.add(t, 5, "snapshot", false)
		c.add(t, 900, "resume", true)
		c.all.Wait()
		first := slices.Index(c.names(), "snapshot")
		assert.InDelta(t, 60, c.turns[first].after.Seconds(), 1)
		assert.Equal(t, []string{"snapshot", "resume", "snapshot", "resume"}, c.names()[first:first+4])
	})
}

func TestOpeningsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{pacer: NewOpeningPacer(), began: time.Now()}
		c.add(t, 700, "resume", true)
		c.all.Wait()
		assert.InDelta(t, 35, c.turns[699].after.Seconds(), 3, "700 streams at 20 a second")
		pauses := map[time.Duration]bool{}
		for i, turn := range c.turns[:680] {
			assert.Less(t, c.turns[i+20].after-turn.after, 2*time.Second)
			pauses[c.turns[i+1].after-turn.after] = true
		}
		assert.Greater(t, len(pauses), 100, "the intervals are jittered")
	})
}

// A waiter that gives up does not use a turn and leaves no timer behind, since a pacer outlives its users.
func TestPacerForgetsAbandonedWaits(t *testing.T) {
	pacer := NewPacer(1, 1)
	for range 2 { // in two synctest bubbles
		synctest.Test(t, func(t *testing.T) {
			pacer.mu.Lock()
			pacer.tokens = 1
			pacer.mu.Unlock()
			require.NoError(t, pacer.Wait(t.Context(), false))
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, pacer.Wait(ctx, true), context.DeadlineExceeded)
			assert.Empty(t, pacer.resumes)
			assert.Nil(t, pacer.timer)
			require.ErrorIs(t, pacer.Wait(ctx, true), context.DeadlineExceeded, "without a turn of its own")

			began := time.Now()
			require.NoError(t, pacer.Wait(t.Context(), false))
			assert.InDelta(t, 0.7, time.Since(began).Seconds(), 0.01)
		})
	}
}
