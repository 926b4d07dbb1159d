// Package checkpoint keeps what each reader has read, as far as the next consumer accepted it, in a storage
// extension, so that a restarted collector goes on where it was.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Options say where checkpoints are kept and how often they are written.
type Options struct {
	Extension storage.Extension
	Receiver  component.ID

	// ClusterUID returns the UID of the cluster, or "" where it is not known.
	ClusterUID func() string

	// A store is written Interval after a change, or as soon as MaxChanges wait.
	Interval   time.Duration
	MaxChanges int

	// Report is told how the storage fares, part by part; nil is well.
	Report func(part string, err error)
	Logger *zap.Logger
}

// Keeper keeps the checkpoints of all readers of a receiver.
type Keeper struct {
	Options

	writing   sync.Mutex // held from what is to be written until it is
	mu        sync.Mutex
	stores    map[scope.Scope]*store
	selectors storage.Client

	wake chan struct{}
	full chan struct{}
	stop context.CancelFunc
	done chan struct{}
}

// NewKeeper returns a keeper that writes once Start is called.
func NewKeeper(o Options) *Keeper {
	return &Keeper{
		Options: o,
		stores:  make(map[scope.Scope]*store),
		wake:    make(chan struct{}, 1),
		full:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
}

// part names the storage of a scope in reports.
func part(s scope.Scope) string { return "storage of " + s.String() }

// Restore gives a reader what was stored of it: add is called for each object, and then how far it had come
// is returned. Where that cannot be had the reader starts afresh; if nothing can be stored either, it does
// so without storage and the error says why.
func (k *Keeper) Restore(ctx context.Context, of scope.Scope, add func(redact.Identity)) (watchlist.Progress, error) {
	client, err := k.Extension.GetClient(ctx, component.KindReceiver, k.Receiver, storageName(k.ClusterUID(), of))
	if err != nil {
		err = fmt.Errorf("cannot open storage, positions of %s are not kept: %w", of, err)
		k.Report(part(of), err)
		return watchlist.Progress{}, err
	}
	s := newStore(client)
	progress, err := s.load(ctx, add)
	if err != nil {
		k.Report(part(of), err)
		err = fmt.Errorf("cannot use checkpoint, starting afresh: %w", err)
		s.progress = storedProgress{}
	} else if progress.None() {
		k.logNewSelectors(ctx, of)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stores[of] = s
	return progress, err
}

// logNewSelectors reports that a resource which has been read before starts afresh because its selectors are
// others now.
func (k *Keeper) logNewSelectors(ctx context.Context, of scope.Scope) {
	client, err := k.selectorsClient(ctx)
	if err != nil {
		return // the reader's own storage tells of it
	}
	key, own := selectorsKey(k.ClusterUID(), of), selectorsOf(of)
	stored, err := client.Get(ctx, key)
	if err != nil {
		return
	}
	var known []string
	if len(stored) > 0 {
		known = strings.Split(string(stored), "\x01")
	}
	if slices.Contains(known, own) {
		return
	}
	if len(known) > 0 {
		k.Logger.Info("no checkpoint for these selectors, starting afresh; there is one for others",
			of.LogFields()...)
	}
	if err := client.Set(ctx, key, []byte(strings.Join(append(known, own), "\x01"))); err != nil {
		k.Report(part(of), err)
	}
}

func (k *Keeper) selectorsClient(ctx context.Context) (storage.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.selectors == nil {
		client, err := k.Extension.GetClient(ctx, component.KindReceiver, k.Receiver, layout+"_selectors")
		if err != nil {
			return nil, err
		}
		k.selectors = client
	}
	return k.selectors, nil
}

// Release writes what is pending of a scope and closes its storage, so that another reader may restore it.
func (k *Keeper) Release(ctx context.Context, of scope.Scope) error {
	k.mu.Lock()
	s := k.stores[of]
	delete(k.stores, of)
	k.mu.Unlock()
	if s == nil {
		return nil
	}
	err := errors.Join(k.writeStore(ctx, s, nil), s.client.Close(ctx))
	if err != nil {
		return fmt.Errorf("cannot write last checkpoint of %s: %w", of, err)
	}
	return nil
}

// BeforeDeliver is called with changes before the next consumer is given them, and stores which objects it will hear of for
// the first time. If the process crashes before it can store that they were accepted, the next one knows that they may
// have been told of, and can tell that one of them is gone. If that cannot be stored, records flow all the same.
func (k *Keeper) BeforeDeliver(ctx context.Context, changes []watchlist.Change) {
	var introduced map[scope.Scope][]*storage.Operation
	for i := range changes {
		c := &changes[i]
		if !introduces(c) {
			continue
		}
		if introduced == nil {
			introduced = make(map[scope.Scope][]*storage.Operation)
		}
		introduced[*c.Scope] = append(introduced[*c.Scope], introduction(c))
	}
	for of, operations := range introduced {
		k.mu.Lock()
		s := k.stores[of]
		k.mu.Unlock()
		if s == nil {
			continue
		}
		err := k.writeStore(ctx, s, operations)
		if err != nil {
			err = fmt.Errorf("cannot store which %s are to be told of: %w", of, err)
		}
		k.Report(part(of), err)
	}
}

// Accepted notes changes that the next consumer has accepted, in order.
func (k *Keeper) Accepted(changes []watchlist.Change) {
	k.mu.Lock()
	pending := 0
	for i := range changes {
		if s := k.stores[*changes[i].Scope]; s != nil {
			s.accept(&changes[i])
			pending = max(pending, s.pending())
		}
	}
	k.mu.Unlock()
	if pending > 0 {
		signal(k.wake)
	}
	if pending >= k.MaxChanges {
		signal(k.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Start begins to write.
func (k *Keeper) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	go func() {
		defer close(k.done)
		k.run(ctx)
	}()
}

func (k *Keeper) run(ctx context.Context) {
	for {
		select {
		case <-k.wake:
		case <-ctx.Done():
			return
		}
		pause := k.Interval
		for {
			select {
			case <-time.After(pause):
			case <-k.full:
			case <-ctx.Done():
				return
			}
			if k.write(ctx) == nil {
				break
			}
			// What is accepted meanwhile joins the next try.
			pause = min(max(2*pause, time.Second), 30*time.Second)
		}
	}
}

// write writes every store that has something to write.
func (k *Keeper) write(ctx context.Context) error {
	k.mu.Lock()
	stores := make(map[scope.Scope]*store, len(k.stores))
	for of, s := range k.stores {
		stores[of] = s
	}
	k.mu.Unlock()
	var errs []error
	for of, s := range stores {
		err := k.writeStore(ctx, s, nil)
		if err != nil {
			err = fmt.Errorf("cannot write checkpoint of %s, trying again: %w", of, err)
			errs = append(errs, err)
		}
		k.Report(part(of), err)
	}
	return errors.Join(errs...)
}

// writeStore writes what is pending in a store, and then more, in one transaction.
func (k *Keeper) writeStore(ctx context.Context, s *store, more []*storage.Operation) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	if s.pending() == 0 && len(more) == 0 {
		k.mu.Unlock()
		return nil
	}
	t, err := s.take()
	k.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.client.Batch(ctx, append(t.operations, more...)...); err != nil {
		k.mu.Lock()
		s.putBack(t)
		k.mu.Unlock()
		return err
	}
	return nil
}

// Shutdown writes what is left and closes the storage. Nothing may be accepted any more.
func (k *Keeper) Shutdown(ctx context.Context) error {
	if k.stop != nil {
		k.stop()
		<-k.done
	}
	err := k.write(ctx)
	for _, s := range k.stores {
		err = errors.Join(err, s.client.Close(ctx))
	}
	if k.selectors != nil {
		err = errors.Join(err, k.selectors.Close(ctx))
	}
	return err
}
