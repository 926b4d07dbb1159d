package delivery

import "time"

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
