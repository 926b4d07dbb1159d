package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
)

// ErrClosed says that Shutdown has begun.
var ErrClosed = errors.New("delivery is shut down")

// Delivery takes items from any number of goroutines and delivers them, in the order they were offered,
// to one consumer from one goroutine.
type Delivery[T any] struct {
	cfg      Config
	size     func(T) int
	build    func([]T) plog.Logs
	next     consumer.Logs
	offering func(context.Context, []T)
	accepted func([]T)
	observer Observer
	logger   *zap.Logger
	begun    time.Time

	mu       sync.Mutex
	queue    fifo[T]
	queued   int           // bytes in the queue
	inflight int           // bytes of the batch that the consumer has, or is offered again and again
	pending  int           // items of that batch
	room     chan struct{} // closed when there is room again; nil when nobody waits for it
	started  bool
	closed   bool
	gaveUp   bool // Shutdown returned without waiting for the consumer any longer

	work    chan struct{} // holds a token when the loop has something to look at
	closing chan struct{} // closed when Shutdown begins
	done    chan struct{} // closed when the loop has ended
	ctx     context.Context
	cancel  context.CancelFunc

	shutdown    sync.Once
	shutdownErr error

	// The loop's own.
	batch   []T
	trouble trouble
}

// New returns a delivery of items to next; Start makes it deliver.
//
//   - size is how many bytes an item counts for. It must give the same answer every time.
//   - build makes the logs of a batch. It is called anew for every try, because the consumer may own, and
//     change, what it was given.
//   - offering, unless nil, is called with each batch before it is given to next for the first time. It must
//     not keep the slice.
//   - accepted, unless nil, is told of each batch that next has accepted, in order. It must not keep the
//     slice.
//   - An observer's funcs may be nil, and so may logger.
func New[T any](
	cfg Config,
	size func(T) int,
	build func([]T) plog.Logs,
	next consumer.Logs,
	offering func(context.Context, []T),
	accepted func([]T),
	observer Observer,
	logger *zap.Logger,
) *Delivery[T] {
	if logger == nil {
		logger = zap.NewNop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Delivery[T]{
		cfg:      cfg,
		size:     size,
		build:    build,
		next:     next,
		offering: offering,
		accepted: accepted,
		observer: observer,
		logger:   logger,
		begun:    time.Now(),
		work:     make(chan struct{}, 1),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
		ctx:      ctx,
		cancel:   cancel,
	}
}

// Start begins to deliver. It is called at most once.
func (d *Delivery[T]) Start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.started = true
	go d.run()
}

func (d *Delivery[T]) run() {
	defer close(d.done)
	for d.nextBatch() {
		if !d.deliver() {
			return
		}
	}
}

// Offer queues an item. It never blocks: false says that there is no room, or that Shutdown has begun,
// and that the item was not taken.
func (d *Delivery[T]) Offer(item T) bool {
	e := entry[T]{item: item, size: d.size(item)}

	d.mu.Lock()
	if d.closed || !d.fitsLocked(e.size) {
		d.mu.Unlock()
		return false
	}
	// Taken under the lock, so that the oldest item is the one that has waited longest.
	e.at = time.Since(d.begun)
	full := d.fullLocked()
	d.queue.push(e)
	d.queued += e.size
	// The loop sleeps until a batch is full or its first item has waited long enough. Only what changes
	// either needs to wake it.
	wake := d.queue.len() == 1 || !full && d.fullLocked()
	d.mu.Unlock()

	d.observer.queueBytes(e.size)
	if wake {
		d.wake()
	}
	return true
}

func (d *Delivery[T]) wake() {
	select {
	case d.work <- struct{}{}:
	default:
	}
}
