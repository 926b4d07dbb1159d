package checkpoint

import (
	"strings"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// store is the checkpoint of one reader, and what of it is not written yet. It advances with what the next consumer
// accepted, and never ahead of it: progress and objects of an accepted batch are written in one transaction.
type store struct {
	entry        *entry
	entryChanged bool

	progress storedProgress
	changed  bool                               // progress differs from what is stored
	objects  map[watchlist.Key]*redact.Identity // changes that are not stored yet; nil is a deletion

	// partial: reading began before the storage could be used. Objects are kept, but until all that the reader knows
	// has come, the position would claim too much.
	partial bool
}

func newStore(e *entry) *store {
	return &store{entry: e, objects: make(map[watchlist.Key]*redact.Identity)}
}

// introduces reports whether the next consumer is given an object for the first time.
func introduces(c *watchlist.Change) bool {
	return c.Type == watchlist.Added || c.Type == watchlist.Snapshot && c.Origin != watchlist.Relist
}

// introduction stores an object that may have been emitted, in what version nobody knows.
func introduction(id string, c *watchlist.Change) *storage.Operation {
	known := c.Object.Identity
	known.ResourceVersion = ""
	return storage.SetOperation(objectKey(id, c.Key), encodeObject(known))
}

// accept notes a change that the next consumer has accepted, or that needs nobody's acceptance.
func (s *store) accept(c *watchlist.Change) {
	switch c.Type {
	case watchlist.Snapshot, watchlist.Added, watchlist.Modified, watchlist.Known:
		id := c.Object.Identity.Clone()
		s.objects[c.Key] = &id
	case watchlist.Deleted:
		s.objects[c.Key] = nil
	case watchlist.Restated:
		s.partial = false
	}
	if !s.partial {
		s.advance(c)
	}
}

// advance moves the progress, which never goes back but for the one change that says so: a snapshot that everything
// was compared with may be of a server whose history was set back.
func (s *store) advance(c *watchlist.Change) {
	p := &s.progress
	rv := c.Object.ResourceVersion
	switch {
	case c.Type == watchlist.Settled:
		*p = storedProgress{ResourceVersion: strings.Clone(rv), Closed: true}
	case c.Type == watchlist.Verified:
		p.Unconfirmed = ""
	case c.Type == watchlist.SnapshotBegin && c.Origin == watchlist.Initial:
		*p = storedProgress{Epoch: c.Snapshot.Epoch}
	case c.Type == watchlist.Snapshot && c.Origin == watchlist.Initial:
		p.Objects++
	case c.Type != watchlist.Advanced && c.Type != watchlist.Restated && !c.Advances, isBefore(rv, p.ResourceVersion):
		return
	case c.Type == watchlist.Advanced:
		*p = storedProgress{ResourceVersion: strings.Clone(rv), Closed: true, Unconfirmed: p.Unconfirmed}
	case rv == p.ResourceVersion && c.Type == watchlist.Restated:
	case rv == p.ResourceVersion:
		p.At = append(p.At, c.Key)
	default:
		*p = storedProgress{ResourceVersion: strings.Clone(rv), At: p.At[:0], Unconfirmed: p.Unconfirmed}
		if c.Advances {
			p.At = append(p.At, c.Key)
		}
	}
	p.Time = c.ReadAt
	s.changed = true
}

// isBefore reports whether a version is known to be earlier than another.
func isBefore(rv, than string) bool {
	if rv == "" {
		return than != ""
	}
	order, err := resourceversion.CompareResourceVersion(rv, than)
	return err == nil && order < 0
}

// pending is how many changes are not stored yet.
func (s *store) pending() int {
	if (s.changed || s.entryChanged) && len(s.objects) == 0 {
		return 1
	}
	return len(s.objects)
}

// transaction is what was pending in a store, while it is written.
type transaction struct {
	store        *store
	objects      map[watchlist.Key]*redact.Identity
	entryChanged bool
}

// take takes what is pending out of the store, and appends the operations that write it.
func (s *store) take(operations []*storage.Operation) (transaction, []*storage.Operation, error) {
	progress, err := s.progress.encode()
	if err != nil {
		return transaction{}, nil, err
	}
	if s.entryChanged {
		described, err := s.entry.encode()
		if err != nil {
			return transaction{}, nil, err
		}
		operations = append(operations, storage.SetOperation(scopeKey(s.entry.id), described))
	}
	t := transaction{store: s, objects: s.objects, entryChanged: s.entryChanged}
	for key, id := range s.objects {
		if id == nil {
			operations = append(operations, storage.DeleteOperation(objectKey(s.entry.id, key)))
			continue
		}
		operations = append(operations, storage.SetOperation(objectKey(s.entry.id, key), encodeObject(*id)))
	}
	operations = append(operations, storage.SetOperation(progressKey(s.entry.id), progress))
	s.objects, s.changed, s.entryChanged = make(map[watchlist.Key]*redact.Identity), false, false
	return t, operations, nil
}

// putBack returns a transaction that could not be written. What was accepted since then is newer.
func (t transaction) putBack() {
	s := t.store
	for key, id := range s.objects {
		t.objects[key] = id
	}
	s.objects, s.changed, s.entryChanged = t.objects, true, s.entryChanged || t.entryChanged
}
