package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
)

var (
	errNoAnswer = errors.New("the storage does not answer")
	errNotOpen  = errors.New("the storage is not open")
)

const (
	firstRetry, mostRetry = time.Second, 30 * time.Second
	// tidyInterval is how often unused checkpoints are looked for.
	tidyInterval = 24 * time.Hour
)

// job is a transaction for which a caller waits: what is pending in all stores, and then introduced.
type job struct {
	introduced []*storage.Operation
	answered   chan struct{}

	mu        sync.Mutex
	abandoned bool // the caller no longer waits
	err       error
}

// do makes the keeper's goroutine write what is pending and then introduced, and waits for it until ctx ends.
func (k *Keeper) do(ctx context.Context, introduced []*storage.Operation) error {
	j := &job{introduced: introduced, answered: make(chan struct{})}
	k.mu.Lock()
	k.jobs = append(k.jobs, j)
	k.mu.Unlock()
	signal(k.asked)
	select {
	case <-j.answered:
		return j.err
	case <-k.done:
		return errNotOpen
	case <-ctx.Done():
		j.mu.Lock()
		defer j.mu.Unlock()
		j.abandoned = true
		return fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
	}
}

// run handles the storage until Shutdown: it opens it, passes readers their checkpoints, and writes accepted changes.
func (k *Keeper) run() {
	defer k.closeClient()
	retry := retry.NewBackoff(firstRetry, mostRetry)
	due := time.After(0) // time to open or write; nil: nothing to do
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for {
		open := k.client != nil
		select {
		case <-k.closing:
			k.writeLast()
			return
		case <-k.asked:
			switch {
			case k.broken != nil:
				k.refuseAll(k.broken)
			case open && k.fares.cause() == nil && k.serve() != nil:
				due = time.After(k.pause(retry))
			}
		case <-k.wake:
			if due == nil {
				due = time.After(k.Interval)
			}
		case <-k.full:
			if open && k.fares.cause() == nil {
				due = time.After(0)
			}
		case <-tidy.C:
			k.tidy()
		case <-due:
			due = nil
			if k.turn() == nil {
				retry.Reset()
			} else if k.broken == nil {
				due = time.After(k.pause(retry)) // changes accepted in the meantime are included
			}
		}
	}
}

// pause returns how long to wait before the storage is tried again, which is short while a reader waits for it.
func (k *Keeper) pause(retry *backoff.ExponentialBackOff) time.Duration {
	pause := retry.NextBackOff()
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.restores, (*restore).waits) {
		return min(pause, firstRetry)
	}
	return pause
}

// turn does all pending work.
func (k *Keeper) turn() error {
	if k.broken != nil {
		return k.broken
	}
	if k.client == nil {
		if err := k.call("open storage", k.open); err != nil {
			return err
		}
	}
	if err := k.serve(); err != nil {
		return err
	}
	err := k.call("write checkpoints", func() error { return k.write(nil) })
	if err == nil {
		k.fares.well()
		k.invite()
	}
	return err
}

// serve answers waiting readers and jobs.
func (k *Keeper) serve() error {
	k.mu.Lock()
	jobs := k.jobs
	k.jobs = nil
	k.mu.Unlock()
	var failed error
	for _, j := range jobs {
		j.mu.Lock()
		abandoned := j.abandoned
		j.mu.Unlock()
		if abandoned {
			continue
		}
		j.err = k.call("write checkpoints", func() error { return k.write(j.introduced) })
		failed = errors.Join(failed, j.err)
		close(j.answered)
	}
	if failed != nil {
		return failed
	}
	err := k.call("read checkpoints", k.restoreAll)
	if err == nil {
		k.invite()
	}
	return err
}

// call calls the storage, and notes a failure.
func (k *Keeper) call(what string, f func() error) error {
	err := k.attempt(what, f)
	if err != nil {
		k.fares.failing(err)
	}
	return err
}

// attempt calls the storage. A panic in the extension, such as bbolt's on some damaged files, ends the use of the
// storage but not the collector.
func (k *Keeper) attempt(what string, f func() error) (err error) {
	if k.broken != nil {
		return k.broken
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		k.Logger.Error("storage extension panicked", zap.String("while", "to "+what), zap.ByteString("stack", debug.Stack()))
		k.broken = fmt.Errorf("cannot %s: the storage extension panicked, so its data is probably damaged, and nothing is stored until the collector is restarted: %.400s; "+
			"remove the file, or let the extension replace it (recreate of file_storage)", what, fmt.Sprint(p))
		k.refuseAll(k.broken)
		err = k.broken
	}()
	if err := f(); err != nil {
		if k.broken != nil {
			return err
		}
		return fmt.Errorf("cannot %s: %w", what, explained(err))
	}
	return nil
}

// explained adds an explanation to an unclear error of a storage extension.
func explained(err error) error {
	if err.Error() == "timeout" { // from bbolt, which waited for the file lock
		return fmt.Errorf("its file is locked, probably by another collector that still runs: %w", err)
	}
	return err
}

func (k *Keeper) open() error {
	client, err := k.Extension.GetClient(k.ctx, component.KindReceiver, k.Receiver, clientName)
	if err != nil {
		return err
	}
	walker, ok := client.(storage.Walker)
	if !ok {
		k.broken = errors.New("cannot keep checkpoints: the storage extension cannot list what it holds; use one that can, such as file_storage")
		_ = client.Close(k.ctx)
		k.refuseAll(k.broken)
		return k.broken
	}
	migrated, err := k.readIndex(client, walker)
	if err == nil && !migrated {
		err = k.migrate(client)
	}
	if err != nil {
		_ = client.Close(k.ctx) // the first error is more useful
		return err
	}
	k.followShard()
	k.client = client
	k.tidy()
	return nil
}

// readIndex reads which checkpoints exist, and reports whether those of the previous layout were migrated.
func (k *Keeper) readIndex(client storage.Client, walker storage.Walker) (migrated bool, err error) {
	clear(k.index)
	damaged := 0
	err = walker.Walk(k.ctx, func(key string, value []byte) ([]*storage.Operation, error) {
		rest, ok := strings.CutPrefix(key, checkpointPrefix)
		if !ok {
			return nil, storage.SkipAll // only objects follow
		}
		if id, ok := strings.CutSuffix(rest, scopeSuffix); ok {
			if e, err := decodeEntry(id, value); err == nil {
				k.index[id] = e
			} else {
				damaged++
			}
		}
		return nil, nil
	})
	if err != nil {
		return false, err
	}
	if damaged > 0 {
		k.Logger.Warn("storage holds checkpoints that cannot be read", zap.Int("checkpoints", damaged))
	}
	// Together, since file_storage makes a transaction of each call.
	at, last, led := storage.GetOperation(migratedKey), storage.GetOperation(shardKey), storage.GetOperation(ledKey)
	err = client.Batch(k.ctx, at, last, led)
	k.lastShard = string(last.Value)
	k.mu.Lock()
	k.led = string(led.Value)
	k.mu.Unlock()
	return at.Value != nil, err
}

func (k *Keeper) closeClient() {
	if k.client == nil || k.broken != nil {
		return
	}
	if err := k.client.Close(k.ctx); err != nil {
		k.shutdownErr = errors.Join(k.shutdownErr, fmt.Errorf("cannot close storage: %w", err))
	}
}

// writeLast writes what is pending at shutdown.
func (k *Keeper) writeLast() {
	k.mu.Lock()
	waiting := 0
	for _, s := range k.stores {
		if s.pending() > 0 {
			waiting++
		}
	}
	k.mu.Unlock()
	if waiting == 0 {
		return
	}
	if err := k.attempt("write the last checkpoints", func() error { return k.write(nil) }); err != nil {
		k.shutdownErr = fmt.Errorf("%w; what was accepted of %d scopes since the last write will be emitted again", err, waiting)
	}
}

// write writes what is pending in all stores, and then introduced, in one transaction.
func (k *Keeper) write(introduced []*storage.Operation) error {
	cluster := k.Cluster()
	later := make(map[string]bool, len(introduced))
	for _, op := range introduced {
		later[op.Key] = true
	}
	var operations []*storage.Operation
	var taken []transaction
	k.mu.Lock()
	for _, s := range k.stores {
		if known := cluster.and(s.entry.Cluster); known != s.entry.Cluster {
			s.entry.Cluster, s.entryChanged = known, true
		}
		if s.pending() == 0 {
			continue
		}
		t, more, err := s.take(operations)
		if err != nil {
			k.mu.Unlock()
			return err
		}
		operations, taken = more, append(taken, t)
	}
	extra := k.extra
	k.extra = make(map[string]*storage.Operation)
	k.mu.Unlock()
	if len(operations)+len(introduced)+len(extra) == 0 {
		if k.fares.cause() == nil {
			k.releaseEnded()
			return nil
		}
		operations = append(operations, storage.SetOperation(probeKey, nil)) // does it work again?
	}
	operations = slices.DeleteFunc(operations, func(op *storage.Operation) bool { return later[op.Key] })
	operations = append(operations, introduced...)
	for _, op := range extra {
		operations = append(operations, op)
	}
	// Sorted by key: inserting many keys into a B+ tree, as in file_storage, is slow in any other order.
	slices.SortFunc(operations, func(a, b *storage.Operation) int { return strings.Compare(a.Key, b.Key) })
	began := time.Now()
	err := k.client.Batch(k.ctx, operations...)
	if k.Wrote != nil {
		k.Wrote(time.Since(began), err)
	}
	k.mu.Lock()
	if err == nil {
		for _, t := range taken {
			t.store.writing = time.Time{}
		}
		k.mu.Unlock()
		k.releaseEnded()
		return nil
	}
	defer k.mu.Unlock()
	for _, t := range taken {
		t.putBack()
	}
	for key, op := range k.extra {
		extra[key] = op
	}
	k.extra = extra
	return err
}

// condition is whether the storage works. A change of it, or of the cause, is logged and reported.
type condition struct {
	report func(part string, err error)
	logger *zap.Logger

	mu    sync.Mutex
	err   error
	since time.Time
}

// cause returns why the storage does not work, or nil if it does.
func (c *condition) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *condition) failing(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.since = time.Now()
	}
	if c.err == nil || c.err.Error() != err.Error() {
		c.logger.Warn("checkpoints are not kept, records keep flowing", zap.Error(err))
		c.report(storagePart, err)
	}
	c.err = err
}

func (c *condition) well() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return
	}
	c.logger.Info("checkpoints are kept again", zap.Duration("failed_for", time.Since(c.since)))
	c.err = nil
	c.report(storagePart, nil)
}
