package watchlist

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// progressInterval is how long an initial state is read before the log says how far it is, and then between two such
// entries.
const progressInterval = 10 * time.Second

// initialProgress is how far one try at an initial state is. Its reader updates it with each chunk, not with each frame.
// A nil one is not logged.
type initialProgress struct {
	of      scope.Scope
	began   time.Time
	objects atomic.Int64
	bytes   atomic.Int64

	// What the last entry said, and when. Guarded by the Crowd.
	logged        time.Time
	loggedObjects int64
	loggedBytes   int64
}

// note notes the number of objects that have been read, and how many bytes more.
func (p *initialProgress) note(objects, moreBytes int) {
	if p != nil {
		p.objects.Store(int64(objects))
		p.bytes.Add(int64(moreBytes))
	}
}

// beginInitial makes the log say how far the initial state of a scope is until endInitial. A nil Crowd says nothing.
func (c *Crowd) beginInitial(of scope.Scope) *initialProgress {
	if c == nil {
		return nil
	}
	now := time.Now()
	p := &initialProgress{of: of, began: now, logged: now}
	c.mu.Lock()
	c.initial = append(c.initial, p)
	if c.progressDue.IsZero() {
		c.progressDue = now.Add(progressInterval)
	}
	c.mu.Unlock()
	c.notify()
	return p
}

// endInitial ends what beginInitial began. p may be nil.
func (c *Crowd) endInitial(p *initialProgress) {
	if p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initial = slices.DeleteFunc(c.initial, func(other *initialProgress) bool { return other == p })
	if len(c.initial) == 0 {
		c.progressDue = time.Time{}
	}
}

// logProgress writes the entry about the initial states that have been read for long, if it is due. It returns the time
// until the next one, or 0 if none is being read.
func (c *Crowd) logProgress(at time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progressDue.IsZero() {
		return 0
	}
	if left := c.progressDue.Sub(at); left > 0 {
		return left
	}
	c.progressDue = at.Add(progressInterval)
	var long []*initialProgress
	for _, p := range c.initial {
		if at.Sub(p.began) >= progressInterval {
			long = append(long, p)
		}
	}
	if len(long) > 0 {
		c.logger.Info("still reading initial state", progressFields(long, at)...)
	}
	return progressInterval
}

// progressFields returns what is logged of initial states, the oldest first: the sums, and rates since the last entry.
func progressFields(all []*initialProgress, at time.Time) []zap.Field {
	var objects, bytes int64
	var objectRate, byteRate float64
	var examples []string
	for _, p := range all {
		o, b, seconds := p.objects.Load(), p.bytes.Load(), at.Sub(p.logged).Seconds()
		objects, bytes = objects+o, bytes+b
		objectRate += float64(o-p.loggedObjects) / seconds
		byteRate += float64(b-p.loggedBytes) / seconds
		p.logged, p.loggedObjects, p.loggedBytes = at, o, b
		if len(examples) < crowdExamples {
			examples = append(examples, p.of.String())
		}
	}
	fields := all[0].of.LogFields()
	if len(all) > 1 {
		fields = []zap.Field{zap.Int("resources", len(all)), zap.Strings("examples", examples)}
	}
	return append(fields, zap.Duration("for", at.Sub(all[0].began).Round(time.Second)),
		zap.Int64("objects", objects), zap.Int64("bytes", bytes),
		zap.Int64("objects_per_second", int64(math.Round(objectRate))), zap.Int64("bytes_per_second", int64(math.Round(byteRate))))
}
