package delivery

import (
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/consumer/consumererror"
)

const (
	retryFirst = 500 * time.Millisecond
	retryMax   = 30 * time.Second
)

// deliver gives d.batch to the consumer until it accepts it or refuses it for good. It returns false when
// the time for that is over; the batch then stays in flight, for Shutdown to count.
func (d *Delivery[T]) deliver() bool {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = retryFirst, retryMax
	closing := d.closing
	if d.offering != nil {
		d.offering(d.ctx, d.batch)
	}
	for {
		err := d.consume()
		switch {
		case err == nil:
			return d.settle(nil)
		case d.ctx.Err() != nil:
			// Not the consumer's word on these records: we told it to stop.
			return false
		case permanent(err):
			return d.settle(err)
		}
		d.observer.retried(err)
		d.trouble.refused(d.logger, len(d.batch), err)

		retry := time.NewTimer(pause.NextBackOff())
		select {
		case <-retry.C:
		case <-closing:
			// What is left of a long pause may be all the time there is: try at once, then as at first.
			closing = nil
			pause.Reset()
		case <-d.ctx.Done():
		}
		retry.Stop()
		if d.ctx.Err() != nil {
			return false
		}
	}
}

// consume gives the consumer what the batch makes. Items that make no records need nobody's acceptance.
func (d *Delivery[T]) consume() error {
	logs := d.build(d.batch)
	if logs.LogRecordCount() == 0 {
		return nil
	}
	return d.next.ConsumeLogs(d.ctx, logs)
}

// settle ends the batch in flight: accepted, or refused for good with err.
func (d *Delivery[T]) settle(err error) bool {
	n := len(d.batch)
	d.mu.Lock()
	gaveUp := d.gaveUp
	d.mu.Unlock()
	if gaveUp {
		// Shutdown has returned and counted these as not delivered, and what accepted would tell may be
		// closed. To deliver them again is what at-least-once allows.
		return false
	}

	if err == nil {
		d.trouble.over(d.logger)
		if d.accepted != nil {
			d.accepted(d.batch)
		}
		d.observer.delivered(n)
	} else {
		d.trouble.dropped(d.logger, n, err)
		d.observer.dropped(n, err)
	}

	clear(d.batch)
	d.batch = d.batch[:0]
	if d.cfg.BatchMaxRecords <= 0 {
		d.batch = nil // nothing bounds what it has grown to
	}
	d.mu.Lock()
	// Told before anybody can take the room: else more than MaxBytes would seem to wait.
	d.observer.queueBytes(-d.releaseLocked())
	d.mu.Unlock()
	return true
}

// permanent says whether err will be returned again whatever the time. Where several consumers were given
// the logs, their errors come joined, and the batch is tried again as long as one of them may take it
// later: the others may see it twice, which its ids tell, but none loses it.
func permanent(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !permanent(e) {
				return false
			}
		}
		return true
	}
	return consumererror.IsPermanent(err)
}
