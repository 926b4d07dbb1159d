package delivery

import "time"

const (
	// A refusal, such as by a full sending queue, is often over quickly.
	retryFirst = 50 * time.Millisecond
	retryMax   = 30 * time.Second

	// maxDenials is how many drops in a row, with nothing accepted between them, mean that the consumer refuses
	// everything, such as one with expired credentials. From then on larger parts are dropped together and the delivery
	// slows down, so that the number of calls stays small.
	maxDenials = 32
)

// deliver gives d.batch to the consumer until every record is accepted or dropped. It returns false when the time for
// that is over; what is left then stays in flight, for Shutdown to count.
func (d *Delivery[T]) deliver() bool {
	d.BeforeDeliver(d.ctx, d.batch)
	// A consumer that refused everything may accept again, so the first records of a new batch are tried one by one.
	d.denials = min(d.denials, maxDenials)
	d.segment = append(d.segment[:0], len(d.batch))
	for next := 0; len(d.segment) > 0; {
		last := len(d.segment) - 1
		n := d.segment[last]
		d.segment = d.segment[:last]
		segment := d.batch[next : next+n]
		called, ok, refusal := d.try(segment)
		switch {
		case !ok:
			return false
		case refusal == nil:
			ok = d.accept(segment, called)
		default:
			if half := d.half(segment); half > 0 {
				d.segment = append(d.segment, n-half, half)
				continue
			}
			ok = d.drop(segment, refusal)
		}
		if !ok {
			return false
		}
		clear(segment) // no longer counted, so it must not hold memory either
		next += n
	}
	d.batch = d.batch[:0]
	if d.BatchMaxRecords <= 0 {
		d.batch = nil // its capacity is not bounded
	}
	return true
}

// half returns the number of items in the first half of a segment, or 0 if its records are to be dropped together:
// always for a single record, and for small segments while the consumer refuses everything. The size of a small segment
// doubles with each drop, so that a batch of n records costs about log n calls instead of n.
func (d *Delivery[T]) half(segment []T) int {
	records := 0
	for _, item := range segment {
		if d.IsRecord(item) {
			records++
		}
	}
	together := 1
	if d.denials > maxDenials {
		together <<= min(d.denials-maxDenials, 30)
	}
	if records <= together {
		return 0
	}
	half := records / 2
	for i, item := range segment {
		if d.IsRecord(item) {
			if half--; half == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// try gives items to the consumer until it accepts them or refuses them permanently. ok is false if the time for that
// is over; called is false if the items have no records and the consumer was not needed.
func (d *Delivery[T]) try(items []T) (called, ok bool, refusal error) {
	defer d.refused.Reset()
	for {
		logs := d.Build(items)
		if logs.LogRecordCount() == 0 {
			return false, true, nil
		}
		d.trouble.calling(time.Now())
		err := d.Next.ConsumeLogs(d.ctx, logs)
		d.trouble.returned()
		switch {
		case err == nil:
			return true, true, nil
		case d.ctx.Err() != nil:
			// Not a verdict on these records: the context of the call was cancelled.
			return true, false, nil
		case permanent(err):
			return true, true, err
		}
		d.Retried()
		d.trouble.refused(time.Now(), err)
		if !d.pause(d.refused.NextBackOff()) {
			return true, false, nil
		}
	}
}

// pause waits before the next try and returns false if the time to deliver is over. The beginning of Shutdown ends a
// pause, since the rest of a long one may exceed the remaining time; the next pauses are short again.
func (d *Delivery[T]) pause(pause time.Duration) bool {
	closing := d.closing
	if d.hurried {
		closing = nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closing:
		d.hurried = true
		d.refused.Reset()
		d.denied.Reset()
	case <-d.ctx.Done():
	}
	return d.ctx.Err() == nil
}

// accept ends the delivery of items that the consumer has accepted, or that have no records.
func (d *Delivery[T]) accept(items []T, called bool) bool {
	if d.isOver() {
		return false
	}
	if called {
		d.denials = 0
		d.denied.Reset()
		d.trouble.accepted(time.Now())
	}
	d.Accepted(items)
	if called && d.lost {
		d.lost = false
		d.AcceptedAgain()
	}
	d.release(items)
	return true
}

// drop ends the delivery of items whose records the consumer refuses permanently.
func (d *Delivery[T]) drop(items []T, refusal error) bool {
	if d.isOver() {
		return false
	}
	var dropped, others []T
	for _, item := range items {
		if d.IsRecord(item) {
			dropped = append(dropped, item)
		} else {
			others = append(others, item)
		}
	}
	d.lost = true
	d.denials++
	d.logDrop(dropped, refusal)
	d.Dropped(dropped, refusal)
	if len(others) > 0 {
		d.Accepted(others)
	}
	d.release(items)
	return true
}

func (d *Delivery[T]) logDrop(dropped []T, refusal error) {
	var names []string
	if d.Describe != nil {
		for _, item := range dropped[:min(len(dropped), maxNames)] {
			names = append(names, d.Describe(item))
		}
	}
	now := time.Now()
	d.losses.dropped(now, len(dropped), names, refusal)
	if d.denials >= maxDenials {
		d.trouble.refusesAll(now, refusal)
	} else {
		d.trouble.accepted(now) // it has decided, so there is no retry
	}
}

// isOver reports whether Shutdown has returned and counted the items in flight as not delivered. The targets of
// Accepted and Dropped may be closed by then. At-least-once delivery allows these records to be delivered again.
func (d *Delivery[T]) isOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gaveUp
}

// release stops counting items as in flight.
func (d *Delivery[T]) release(items []T) {
	bytes, records := 0, 0
	for _, item := range items {
		bytes += d.Size(item)
		if d.IsRecord(item) {
			records++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gaveUp {
		return // Shutdown has already done it
	}
	// Before any producer can use the space: otherwise the metric would exceed MaxBytes.
	if bytes != 0 {
		d.QueueBytes(-bytes)
	}
	d.releaseLocked(bytes, records)
}
