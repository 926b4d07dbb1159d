package watchlist

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const (
	// crowdWindow is how long after a log entry the same entry of other readers is only counted.
	crowdWindow = 10 * time.Second
	// crowdExamples is how many of these readers the summary names.
	crowdExamples = 5
)

// Crowd merges log entries that many readers would write at the same time: an API server that goes away is one event,
// not one for each of 700 streams. The first entry is logged at once; those of the next ten seconds become one entry
// with their number. It is safe for concurrent use.
type Crowd struct {
	logger *zap.Logger

	mu     sync.Mutex
	groups map[string]*crowdGroup
	wake   chan struct{}

	initial     []*initialProgress // the initial states being read, the oldest first
	progressDue time.Time          // when the log next says how far they are; zero: there are none
}

// crowdGroup counts the readers with the same entry.
type crowdGroup struct {
	level    zapcore.Level
	message  string
	until    time.Time
	more     int
	examples []string
}

// NewCrowd returns a crowd that logs to logger. Its Run has to be called.
func NewCrowd(logger *zap.Logger) *Crowd {
	return &Crowd{logger: logger, groups: make(map[string]*crowdGroup), wake: make(chan struct{}, 1)}
}

// log logs an entry of one reader, or counts it. Entries are the same if message and cause are.
func (c *Crowd) log(level zapcore.Level, message, cause string, of scope.Scope, fields ...zap.Field) {
	c.mu.Lock()
	key := message + "\x00" + cause
	group := c.groups[key]
	if group != nil {
		group.more++
		if len(group.examples) < crowdExamples {
			group.examples = append(group.examples, of.String())
		}
		c.mu.Unlock()
		return
	}
	c.groups[key] = &crowdGroup{level: level, message: message, until: time.Now().Add(crowdWindow)}
	c.mu.Unlock()
	c.logger.Log(level, message, fields...)
	c.notify()
}

// notify makes Run look again at what is due.
func (c *Crowd) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run logs the counted entries, and how far long initial states are, until ctx ends.
func (c *Crowd) Run(ctx context.Context) {
	for {
		wait := c.flush(time.Now())
		if ctx.Err() != nil {
			c.flush(time.Now().Add(crowdWindow))
			return
		}
		if next := c.logProgress(time.Now()); next > 0 && (wait == 0 || next < wait) {
			wait = next
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-c.wake:
		case <-ctx.Done():
		}
	}
}

// flush ends the groups whose window is over and returns the time until the next one is over, or 0 if there is none.
func (c *Crowd) flush(at time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, group := range c.groups {
		left := group.until.Sub(at)
		if left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		delete(c.groups, key)
		if group.more > 0 {
			c.logger.Log(group.level, group.message, zap.Int("more", group.more), zap.Strings("examples", group.examples))
		}
	}
	return wait
}
