package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// shutdownGrace is how long a consumer may take to return once its context is cancelled.
const shutdownGrace = time.Second

var (
	errDrainTimeout = errors.New("drain timeout is over")
	errIgnoresCtx   = errors.New("next consumer did not return after its context was cancelled")
	errNotStarted   = errors.New("delivery was not started")
)

// Shutdown takes no more items and delivers what is queued, until ctx ends or DrainTimeout is over,
// whichever is first. It then cancels the consumer's context, and returns soon after even where the
// consumer ignores that. The error says how many records were not delivered.
func (d *Delivery[T]) Shutdown(ctx context.Context) error {
	d.shutdown.Do(func() { d.shutdownErr = d.drain(ctx) })
	return d.shutdownErr
}

func (d *Delivery[T]) drain(ctx context.Context) error {
	defer d.cancel()
	d.mu.Lock()
	d.closed = true
	started := d.started
	d.mu.Unlock()
	close(d.closing)
	if !started {
		return d.leave(errNotStarted)
	}

	timeout := time.NewTimer(d.cfg.DrainTimeout)
	defer timeout.Stop()
	var cause error
	select {
	case <-d.done:
		return nil // only an ended ctx of its own makes the loop end before the queue is empty
	case <-ctx.Done():
		cause = ctx.Err()
	case <-timeout.C:
		cause = errDrainTimeout
	}

	d.cancel()
	grace := time.NewTimer(shutdownGrace)
	defer grace.Stop()
	select {
	case <-d.done:
		return d.leave(cause)
	case <-grace.C:
		return d.leave(fmt.Errorf("%w, and %w", cause, errIgnoresCtx))
	}
}

// leave lets go of what is queued or in flight and returns the error that says so, if there was any.
func (d *Delivery[T]) leave(cause error) error {
	d.mu.Lock()
	d.gaveUp = true
	records := d.queue.len() + d.pending
	bytes := d.queued + d.inflight
	d.queue, d.queued = fifo[T]{}, 0
	d.releaseLocked()
	d.mu.Unlock()
	d.observer.queueBytes(-bytes)

	if records == 0 {
		return nil
	}
	return fmt.Errorf("cannot deliver %d records before shutdown: %w", records, cause)
}
