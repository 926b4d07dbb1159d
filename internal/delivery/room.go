package delivery

import "context"

// lowWater is what may still be used when waiting producers are let go on. Half of the queue, and not
// just enough for one item, so that a stream that was closed for want of room is not opened again only
// to be closed at its first event.
func (d *Delivery[T]) lowWater() int { return d.cfg.MaxBytes / 2 }

// fitsLocked says whether an item may join. One that is larger than the half that WaitForRoom promises
// counts as that half: else its producer would be told that there is room, be refused, and so on for
// ever. It follows that an item larger than MaxBytes is taken too, when at most half is used, and that
// the bound is MaxBytes, or half of it and one item where that is more.
func (d *Delivery[T]) fitsLocked(size int) bool {
	return d.queued+d.inflight+min(size, d.cfg.MaxBytes-d.lowWater()) <= d.cfg.MaxBytes
}

// WaitForRoom waits until at most half of MaxBytes is used. It fails with ErrClosed once Shutdown has
// begun, and with ctx's error.
func (d *Delivery[T]) WaitForRoom(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	if d.queued+d.inflight <= d.lowWater() {
		d.mu.Unlock()
		return nil
	}
	if d.room == nil {
		d.room = make(chan struct{})
	}
	room := d.room
	d.mu.Unlock()

	select {
	case <-room:
		return nil
	case <-d.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// releaseLocked lets go of the batch in flight and wakes who waited for that. It returns the bytes.
func (d *Delivery[T]) releaseLocked() int {
	bytes := d.inflight
	d.inflight, d.pending = 0, 0
	if d.room != nil && d.queued <= d.lowWater() {
		close(d.room)
		d.room = nil
	}
	return bytes
}
