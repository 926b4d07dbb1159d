// Package delivery decouples producers that must never wait from a consumer that may be slow, refuse records, or be
// unavailable for a while.
//
// Items wait in a queue bounded in bytes. One goroutine cuts the queue into batches, builds the logs of a batch and
// gives them to the next consumer until it accepts them. Order is kept throughout: while one batch is retried, nothing
// else is delivered. A batch that the consumer refuses permanently is halved until the refused records are isolated;
// only these are dropped, and the producer is informed. The bytes of an item count until the consumer has accepted it
// or it was dropped.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"
)

// Options configure a Delivery. Size, Build and Next are required. The functions are called from the goroutine that
// delivers, one at a time, unless stated otherwise; they must neither block for long nor keep the slices they are given.
type Options[T any] struct {
	// MaxBytes bounds the items that are queued and in flight.
	MaxBytes int

	// A batch is delivered as soon as it has BatchMaxRecords items or BatchMaxBytes bytes, or when its first item has
	// waited for BatchTimeout. A batch never exceeds the two limits, except that an item larger than BatchMaxBytes
	// travels alone. A limit of zero does not limit; a BatchTimeout of zero does not wait.
	BatchMaxRecords int
	BatchMaxBytes   int
	BatchTimeout    time.Duration

	// DrainTimeout bounds how long Shutdown waits for the consumer to take what is queued, since the Collector often
	// gives Shutdown a context without a deadline.
	DrainTimeout time.Duration

	// Size returns how many bytes an item counts for, the same at every call. It is called concurrently.
	Size func(T) int
	// IsRecord reports whether Build makes a record of the item. Items without a record are never dropped; they are
	// accepted as soon as everything before them was accepted or dropped. nil means that every item is a record.
	IsRecord func(T) bool
	// Describe returns the identity of an item for the log, never its content. Without it only numbers are logged.
	Describe func(T) string
	// Build creates the logs of some items. It is called again for every try, because the consumer may own and change
	// the logs it was given.
	Build func([]T) plog.Logs
	// Next is the consumer.
	Next consumer.Logs

	// BeforeDeliver is called with each batch before any of it is given to Next for the first time. Its context ends
	// when Shutdown gives up.
	BeforeDeliver func(context.Context, []T)
	// Accepted is called with the items that Next has accepted, in order.
	Accepted func([]T)
	// Dropped is called with the records that Next refused permanently with err, before anything behind them is
	// accepted. They will not be delivered again.
	Dropped func(dropped []T, err error)
	// AcceptedAgain is called when Next first accepts a record after a drop, after the call of Accepted.
	AcceptedAgain func()

	// Retried is called each time Next refuses records temporarily.
	Retried func()
	// QueueBytes is called with each change of the bytes that are queued or in flight. It is called concurrently.
	QueueBytes func(delta int)
	// Report is called with an error when trouble with Next begins, and with nil when it is over. It is called from two
	// goroutines, but never concurrently.
	Report func(error)

	Logger *zap.Logger
}

// ErrClosed is returned once Shutdown has begun.
var ErrClosed = errors.New("delivery is shut down")

// Delivery takes items from any number of goroutines and delivers them, in the order they were offered, to one
// consumer from one goroutine.
type Delivery[T any] struct {
	Options[T]
	begun time.Time

	mu       sync.Mutex
	queue    fifo[T]
	queued   int           // bytes in the queue
	inflight int           // bytes of the batch in flight that are neither accepted nor dropped
	pending  int           // records of that batch that are neither accepted nor dropped
	space    chan struct{} // closed when there is space again; nil if no producer waits for it
	started  bool
	closed   bool
	gaveUp   bool // Shutdown has stopped waiting for the consumer

	work    chan struct{} // holds a token when the loop has something to do
	closing chan struct{} // closed when Shutdown begins
	done    chan struct{} // closed when the loop has ended
	drained chan struct{} // closed when Shutdown has its result, drainErr
	ctx     context.Context
	cancel  context.CancelFunc

	drainErr error
	trouble  trouble
	losses   losses

	// Used only by the goroutine that delivers.
	batch   []T
	segment []int                       // sizes of the segments of d.batch, the next one last
	denials int                         // drops since a record was accepted
	lost    bool                        // a record was dropped, and none was accepted since
	hurried bool                        // Shutdown has ended a pause
	refused *backoff.ExponentialBackOff // pauses before the next try of the same records
	denied  *backoff.ExponentialBackOff // pauses while every record is refused permanently
}

// New returns a delivery. It delivers once Start is called.
func New[T any](o Options[T]) *Delivery[T] {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	// A stack trace of the delivery loop explains nothing about the consumer.
	o.Logger = o.Logger.WithOptions(zap.AddStacktrace(zap.FatalLevel))
	setDefaults(&o)
	ctx, cancel := context.WithCancel(context.Background())
	return &Delivery[T]{
		Options: o,
		begun:   time.Now(),
		work:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		drained: make(chan struct{}),
		ctx:     ctx,
		cancel:  cancel,
		trouble: trouble{logger: o.Logger, report: o.Report},
		losses:  losses{logger: o.Logger},
		refused: retry.NewBackoff(retryFirst, retryMax),
		denied:  retry.NewBackoff(retryFirst, retryMax),
	}
}

// setDefaults sets missing optional functions to ones that do nothing.
func setDefaults[T any](o *Options[T]) {
	if o.IsRecord == nil {
		o.IsRecord = func(T) bool { return true }
	}
	if o.BeforeDeliver == nil {
		o.BeforeDeliver = func(context.Context, []T) {}
	}
	if o.Accepted == nil {
		o.Accepted = func([]T) {}
	}
	if o.Dropped == nil {
		o.Dropped = func([]T, error) {}
	}
	if o.AcceptedAgain == nil {
		o.AcceptedAgain = func() {}
	}
	if o.Retried == nil {
		o.Retried = func() {}
	}
	if o.QueueBytes == nil {
		o.QueueBytes = func(int) {}
	}
	if o.Report == nil {
		o.Report = func(error) {}
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
	var watcher sync.WaitGroup
	defer watcher.Wait()
	watching, stop := context.WithCancel(d.ctx)
	defer stop()
	watcher.Go(func() { d.watch(watching) })

	for d.nextBatch() {
		if !d.deliver() {
			return
		}
		if d.denials >= maxDenials && !d.pause(d.denied.NextBackOff()) {
			return
		}
	}
}

// watch logs periodic summaries, even while the consumer does not return.
func (d *Delivery[T]) watch(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			d.trouble.tick(now)
			d.losses.tick(now)
		case <-ctx.Done():
			d.losses.end()
			return
		}
	}
}

// shutdownGrace is how long a consumer may take to return once its context is canceled.
const shutdownGrace = time.Second

var (
	errDrainTimeout = errors.New("drain timeout is over")
	errIgnoresCtx   = errors.New("next consumer did not return after its context was canceled")
	errNotStarted   = errors.New("delivery was not started")
)

// Shutdown stops accepting items and delivers the queue until ctx ends or DrainTimeout is over, whichever comes first.
// It then cancels the consumer's context and waits for at most another second, even if the consumer ignores the
// cancellation. The error contains the number of records that were not delivered. Further calls wait for the result of
// the first, or for their ctx.
func (d *Delivery[T]) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	started := d.started
	d.mu.Unlock()
	if first {
		close(d.closing)
		d.drainErr = d.drain(ctx, started)
		d.cancel()
		close(d.drained)
	}
	select {
	case <-d.drained:
		return d.drainErr
	case <-ctx.Done():
	}
	select {
	case <-d.drained:
		return d.drainErr
	default:
		return ctx.Err()
	}
}

func (d *Delivery[T]) drain(ctx context.Context, started bool) error {
	if !started {
		return d.leave(errNotStarted)
	}
	timeout := time.NewTimer(d.DrainTimeout)
	defer timeout.Stop()
	var cause error
	select {
	case <-d.done:
		return nil // the loop ends by itself only when the queue is empty
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

// leave abandons what is queued or in flight and returns an error with the number of records, if there were any.
func (d *Delivery[T]) leave(cause error) error {
	d.mu.Lock()
	d.gaveUp = true
	records, bytes := d.pending, d.queued+d.inflight
	for d.queue.len() > 0 {
		if d.IsRecord(d.queue.pop().item) {
			records++
		}
	}
	d.queued = 0
	d.releaseLocked(d.inflight, d.pending)
	d.mu.Unlock()
	d.QueueBytes(-bytes)

	if records == 0 {
		return nil
	}
	return fmt.Errorf("cannot deliver %d records before shutdown: %w", records, cause)
}
