package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// store keeps one reader's progress and inventory in a storage client. What it holds advances with what the
// next consumer accepted, and never ahead of it: progress and objects of an accepted batch are written in
// one transaction.
type store struct {
	client storage.Client

	progress storedProgress
	changed  bool                        // progress differs from what is stored
	objects  map[string]*redact.Identity // changes that are not stored yet, by key; nil is a deletion
}

func newStore(client storage.Client) *store {
	return &store{client: client, objects: make(map[string]*redact.Identity)}
}

// load gives back what is stored, object by object. Without progress nothing that is stored means anything,
// and it is removed.
func (s *store) load(ctx context.Context, add func(redact.Identity)) (watchlist.Progress, error) {
	walker, ok := s.client.(storage.Walker)
	if !ok {
		return watchlist.Progress{}, errors.New("the storage extension cannot list what it holds; use one that can, such as file_storage")
	}
	data, err := s.client.Get(ctx, progressKey)
	if err != nil {
		return watchlist.Progress{}, fmt.Errorf("cannot read stored progress: %w", err)
	}
	if data == nil {
		return watchlist.Progress{}, s.clear(ctx, walker)
	}
	if s.progress, err = decodeProgress(data); err != nil {
		return watchlist.Progress{}, errors.Join(fmt.Errorf("cannot decode stored progress: %w", err), s.clear(ctx, walker))
	}
	err = walker.Walk(ctx, func(key string, value []byte) ([]*storage.Operation, error) {
		if !strings.HasPrefix(key, objectPrefix) {
			return nil, nil
		}
		id, err := decodeObject(value)
		if err == nil {
			add(id)
		}
		return nil, err
	})
	if err != nil {
		s.progress = storedProgress{}
		return watchlist.Progress{}, errors.Join(fmt.Errorf("cannot read stored inventory: %w", err), s.clear(ctx, walker))
	}
	return s.progress.restored(), nil
}

// clear removes everything that is stored.
func (s *store) clear(ctx context.Context, walker storage.Walker) error {
	err := walker.Walk(ctx, func(key string, _ []byte) ([]*storage.Operation, error) {
		return []*storage.Operation{storage.DeleteOperation(key)}, nil
	})
	if err != nil {
		return fmt.Errorf("cannot clear storage: %w", err)
	}
	return nil
}

// introduces says that the next consumer hears of an object for the first time.
func introduces(c *watchlist.Change) bool {
	return c.Type == watchlist.Added || c.Type == watchlist.Snapshot && c.Origin == watchlist.Initial
}

// introduction stores an object that may have been told of, in what version nobody knows.
func introduction(c *watchlist.Change) *storage.Operation {
	id := c.Object.Identity
	id.ResourceVersion = ""
	return storage.SetOperation(objectPrefix+c.Key.String(), encodeObject(id))
}

// accept notes a change that the next consumer has accepted, or that needs nobody's acceptance.
func (s *store) accept(c *watchlist.Change) {
	key := objectPrefix + c.Key.String()
	switch c.Type {
	case watchlist.Snapshot, watchlist.Added, watchlist.Modified, watchlist.Known:
		id := c.Object.Identity.Clone()
		s.objects[key] = &id
	case watchlist.Deleted:
		s.objects[key] = nil
	}
	s.advance(c)
}

// advance moves the progress with an accepted change. It never moves back, but into another history.
func (s *store) advance(c *watchlist.Change) {
	p := &s.progress
	switch {
	case c.Type == watchlist.Advanced, c.Closes:
		s.close(c)
	case c.Type == watchlist.Suspected:
		p.Lost = &storedLoss{
			Reason: c.Gap.Reason, Doubt: c.Doubt, ResourceVersion: c.Gap.FromRV, Time: c.Gap.From,
			Added: c.Gap.Added, Modified: c.Gap.Modified, Deleted: c.Gap.Deleted,
		}
	case c.Type == watchlist.SnapshotBegin && c.Origin == watchlist.Initial:
		*p = storedProgress{Epoch: c.Snapshot.Epoch}
	case c.Type == watchlist.Snapshot && c.Origin == watchlist.Initial:
		p.Objects++
	case c.Origin == watchlist.Recovered && p.Lost != nil:
		p.Lost.count(c.Type)
	case c.Advances:
		s.moveTo(c)
	case !c.Verifies:
		return
	}
	if c.Verifies {
		p.Verified = &storedVerification{ResourceVersion: c.ReachedVersion(), Time: c.ReadAt}
		p.Lost = nil
	}
	p.Time = c.ReadAt
	s.changed = true
}

// close moves the progress to a version of which everything was accepted.
func (s *store) close(c *watchlist.Change) {
	p := &s.progress
	rv := c.ReachedVersion()
	switch {
	case rv == "": // the resource is gone, and what was known of it
		*p = storedProgress{}
	case c.Rewinds || !watchlist.VersionBefore(rv, p.ResourceVersion):
		*p = storedProgress{ResourceVersion: rv, Closed: true, Verified: p.Verified, Lost: p.Lost}
	}
}

// moveTo moves the progress to a watch event.
func (s *store) moveTo(c *watchlist.Change) {
	p := &s.progress
	switch rv := c.Object.ResourceVersion; {
	case watchlist.VersionBefore(rv, p.ResourceVersion):
	case rv == p.ResourceVersion:
		p.At = append(p.At, c.Key)
	default:
		p.ResourceVersion, p.Closed, p.At = strings.Clone(rv), false, append(p.At[:0], c.Key)
	}
}

// pending is how many changes are not stored yet.
func (s *store) pending() int {
	if s.changed && len(s.objects) == 0 {
		return 1
	}
	return len(s.objects)
}

// transaction takes what is pending out of the store, as one transaction.
type transaction struct {
	operations []*storage.Operation
	objects    map[string]*redact.Identity
}

func (s *store) take() (transaction, error) {
	progress, err := s.progress.encode()
	if err != nil {
		return transaction{}, err
	}
	t := transaction{objects: s.objects, operations: make([]*storage.Operation, 0, len(s.objects)+1)}
	// In order of their keys: a B+ tree, as file_storage has it, takes many keys in any other order only slowly.
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		id := s.objects[key]
		if id == nil {
			t.operations = append(t.operations, storage.DeleteOperation(key))
			continue
		}
		t.operations = append(t.operations, storage.SetOperation(key, encodeObject(*id)))
	}
	t.operations = append(t.operations, storage.SetOperation(progressKey, progress))
	s.objects, s.changed = make(map[string]*redact.Identity), false
	return t, nil
}

// putBack returns a transaction that could not be written. What was accepted since then is newer.
func (s *store) putBack(t transaction) {
	for key, id := range s.objects {
		t.objects[key] = id
	}
	s.objects, s.changed = t.objects, true
}
