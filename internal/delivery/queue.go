package delivery

import (
	"context"
	"time"
)

// Offer queues an item. It never blocks. It returns false, without queueing the item, if there is no space or Shutdown
// has begun.
func (d *Delivery[T]) Offer(item T) bool { return d.offer(item, false) }

// Append queues an item even if there is no space. It is for few and small items that must not be refused, such as one
// that marks the end of a producer. After Shutdown has begun it does nothing.
func (d *Delivery[T]) Append(item T) { d.offer(item, true) }

func (d *Delivery[T]) offer(item T, always bool) bool {
	e := entry[T]{item: item, size: d.Size(item)}

	d.mu.Lock()
	if d.closed || !always && !d.fitsLocked(e.size) {
		d.mu.Unlock()
		return false
	}
	// Read under the lock, so that the oldest item is the one that has waited longest.
	e.at = time.Since(d.begun)
	full := d.fullLocked()
	d.queue.push(e)
	d.queued += e.size
	// The loop sleeps until a batch is full or its first item has waited long enough. Only a change of either has to
	// wake it.
	wake := d.queue.len() == 1 || !full && d.fullLocked()
	d.mu.Unlock()

	d.QueueBytes(e.size)
	if wake {
		select {
		case d.work <- struct{}{}:
		default:
		}
	}
	return true
}

// Records returns how many items are queued or in flight. Nearly all of them are records.
func (d *Delivery[T]) Records() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queue.len() + d.pending
}

// lowWater is how full the queue may still be when waiting producers are released. It is half of the queue rather than
// just one item, so that a stream that was closed because the queue was full is not reopened only to be closed at its
// first event.
func (d *Delivery[T]) lowWater() int { return d.MaxBytes / 2 }

// fitsLocked reports whether an item may be queued. An item larger than the half that WaitForRoom promises counts as
// that half: otherwise its producer would wait and be refused in turn, forever. It follows that even an item larger
// than MaxBytes is accepted if at most half is used, and that the bound is MaxBytes, or half of it plus one item if
// that is more.
func (d *Delivery[T]) fitsLocked(size int) bool {
	return d.queued+d.inflight+min(size, d.MaxBytes-d.lowWater()) <= d.MaxBytes
}

// WaitForRoom waits until at most half of MaxBytes is used. It fails with ErrClosed once Shutdown has begun, and with
// the error of ctx.
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
	if d.space == nil {
		d.space = make(chan struct{})
	}
	space := d.space
	d.mu.Unlock()

	select {
	case <-space:
		return nil
	case <-d.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// releaseLocked stops counting bytes and records as in flight, and wakes the producers that wait for space.
func (d *Delivery[T]) releaseLocked(bytes, records int) {
	d.inflight -= bytes
	d.pending -= records
	if d.space != nil && d.queued+d.inflight <= d.lowWater() {
		close(d.space)
		d.space = nil
	}
}

// nextBatch waits until a batch is due and moves it from the queue to d.batch. It returns false if no more will come.
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
			// From now on no items are added, and a batch is due as long as there are any.
			cut, _ = d.tryCut()
			return cut
		}
	}
}

// tryCut cuts a batch if one is due. Otherwise it returns the time until one is due, or 0 if that needs another Offer.
func (d *Delivery[T]) tryCut() (cut bool, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.len() == 0 || d.ctx.Err() != nil {
		return false, 0
	}
	if !d.closed && !d.fullLocked() {
		wait = d.queue.front().at + d.BatchTimeout - time.Since(d.begun)
		if wait > 0 {
			return false, wait
		}
	}
	d.cutLocked()
	return true, 0
}

// fullLocked reports whether the queue fills a batch.
func (d *Delivery[T]) fullLocked() bool {
	return d.BatchMaxRecords > 0 && d.queue.len() >= d.BatchMaxRecords ||
		d.BatchMaxBytes > 0 && d.queued >= d.BatchMaxBytes
}

func (d *Delivery[T]) cutLocked() {
	for d.queue.len() > 0 {
		if d.BatchMaxRecords > 0 && len(d.batch) >= d.BatchMaxRecords {
			break
		}
		size := d.queue.front().size
		if d.BatchMaxBytes > 0 && len(d.batch) > 0 && d.inflight+size > d.BatchMaxBytes {
			break
		}
		item := d.queue.pop().item
		if d.IsRecord(item) {
			d.pending++
		}
		d.batch = append(d.batch, item)
		d.queued -= size
		d.inflight += size
	}
}

// entry is one queued item, with the values that decide about its batch.
type entry[T any] struct {
	item T
	size int
	at   time.Duration // when it was offered, relative to the start of the delivery
}

const (
	blockLen  = 64
	maxSpares = 16 // enough for a batch of the usual size, so that a steady stream does not allocate
)

type block[T any] struct {
	next    *block[T]
	entries [blockLen]entry[T]
}

// fifo is a list of blocks. Unlike a ring it grows without copying the queue, which would make every producer wait, and
// it frees the memory of a burst as soon as the burst is over. It holds no reference to popped entries.
type fifo[T any] struct {
	head, tail *block[T]
	first      int // index in head of the oldest entry
	last       int // index in tail after the newest entry
	n          int

	spare  *block[T]
	spares int
}

func (f *fifo[T]) len() int { return f.n }

// front returns the oldest entry. The fifo must not be empty.
func (f *fifo[T]) front() *entry[T] { return &f.head.entries[f.first] }

func (f *fifo[T]) push(e entry[T]) {
	if f.tail == nil || f.last == blockLen {
		f.extend()
	}
	f.tail.entries[f.last] = e
	f.last++
	f.n++
}

func (f *fifo[T]) pop() entry[T] {
	e := f.head.entries[f.first]
	f.head.entries[f.first] = entry[T]{}
	f.first++
	f.n--
	if f.first == blockLen || f.n == 0 {
		f.dropHead()
	}
	return e
}

func (f *fifo[T]) extend() {
	b := f.spare
	if b == nil {
		b = new(block[T])
	} else {
		f.spare, b.next = b.next, nil
		f.spares--
	}
	if f.tail == nil {
		f.head = b
	} else {
		f.tail.next = b
	}
	f.tail, f.last = b, 0
}

// dropHead removes a block whose entries are all popped, and keeps a few such blocks for later pushes.
func (f *fifo[T]) dropHead() {
	b := f.head
	f.head, f.first = b.next, 0
	if f.head == nil {
		f.tail = nil
	}
	b.next = nil
	if f.spares < maxSpares {
		b.next, f.spare = f.spare, b
		f.spares++
	}
}
