package delivery

import "time"

// nextBatch waits until a batch is due and moves it from the queue to d.batch. It returns false when
// there will be none any more.
func (d *Delivery[T]) nextBatch() bool {
	for {
		cut, wait := d.tryCut()
		if cut {
			return true
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-d.work:
		case <-d.closing:
			// From now on tryCut is never in want of anything but items, and no more come.
			cut, _ = d.tryCut()
			return cut
		}
	}
}

// tryCut cuts a batch if one is due, and otherwise says how long until one is; 0: not before an Offer.
func (d *Delivery[T]) tryCut() (cut bool, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.len() == 0 || d.ctx.Err() != nil {
		return false, 0
	}
	if !d.closed && !d.fullLocked() {
		wait = d.queue.front().at + d.cfg.BatchTimeout - time.Since(d.begun)
		if wait > 0 {
			return false, wait
		}
	}
	d.cutLocked()
	return true, 0
}

// fullLocked says whether what is queued fills a batch.
func (d *Delivery[T]) fullLocked() bool {
	return d.cfg.BatchMaxRecords > 0 && d.queue.len() >= d.cfg.BatchMaxRecords ||
		d.cfg.BatchMaxBytes > 0 && d.queued >= d.cfg.BatchMaxBytes
}

func (d *Delivery[T]) cutLocked() {
	for d.queue.len() > 0 {
		if d.cfg.BatchMaxRecords > 0 && len(d.batch) >= d.cfg.BatchMaxRecords {
			break
		}
		size := d.queue.front().size
		if d.cfg.BatchMaxBytes > 0 && len(d.batch) > 0 && d.inflight+size > d.cfg.BatchMaxBytes {
			break
		}
		d.batch = append(d.batch, d.queue.pop().item)
		d.queued -= size
		d.inflight += size
	}
	d.pending = len(d.batch)
}
