package harness

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
)

// Consumer is the next consumer of a receiver. It records what it accepts, and can be made to refuse or block.
type Consumer struct {
	Records Records
	Each    func(plog.LogRecord) // called with every record that is accepted; may be nil

	documented *documented // nil: the records are not compared with the reference

	changes
	mu       sync.Mutex
	refusal  error
	blocking chan struct{} // if not nil, calls wait until it is closed
	pause    time.Duration // duration of each call
	calls    int
}

var _ consumer.Logs = (*Consumer)(nil)

// Capabilities implements consumer.Logs.
func (*Consumer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeLogs implements consumer.Logs.
func (c *Consumer) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	if err := c.admit(ctx); err != nil {
		return err
	}
	if c.Each != nil {
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					c.Each(record)
				}
			}
		}
	}
	if c.documented != nil {
		c.documented.add(logs)
	}
	c.Records.Add(logs)
	return nil
}

func (c *Consumer) admit(ctx context.Context) error {
	c.mu.Lock()
	c.calls++
	refusal, blocking, pause := c.refusal, c.blocking, c.pause
	c.mu.Unlock()
	c.happened()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if blocking == nil {
		return refusal
	}
	select {
	case <-blocking:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Refuse makes every call from now on fail with err, which is transient unless marked as permanent.
func (c *Consumer) Refuse(err error) { c.set(err, nil) }

// Block makes every call from now on wait until Accept.
func (c *Consumer) Block() { c.set(nil, make(chan struct{})) }

// Slow makes every call from now on take that long.
func (c *Consumer) Slow(pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = pause
}

// Accept lets every call through, including those that wait.
func (c *Consumer) Accept() { c.set(nil, nil) }

func (c *Consumer) set(refusal error, blocking chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocking != nil {
		close(c.blocking)
	}
	c.refusal, c.blocking = refusal, blocking
}

// AwaitCalls waits until n more calls have been made.
func (c *Consumer) AwaitCalls(t testing.TB, n int, within time.Duration) {
	t.Helper()
	want := c.Calls() + n
	c.await(t, within, "the consumer to be called", func() string {
		if c.Calls() < want {
			return "too few calls"
		}
		return ""
	})
}

// Calls returns how often the consumer was called.
func (c *Consumer) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}
