package checkpoint

import (
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// store is the checkpoint of one reader, including what is not written yet. It advances with what the next consumer
// accepted, never ahead of it: progress and objects of an accepted batch are written in one transaction.
type store struct {
	reader *scope.Scope  // of all changes of the reader
	ended  chan struct{} // closed when the reader has ended and all that it emitted was accepted or dropped

	entry        *entry
	entryChanged bool
	gone         bool // the resource is no longer served, and nothing of it is left

	progress storedProgress
	changed  bool                                // progress differs from what is stored
	objects  map[watchlist.Key]*watchlist.Stored // changes that are not stored yet; nil is a deletion
	// denied are objects of which nobody has what they hold, since the record was dropped, until another is accepted.
	denied map[watchlist.Key]redact.Identity

	// since is when the oldest change was accepted that is not stored, and writing the same for changes that are being
	// written. Zero: there is none.
	since, writing time.Time

	compared uint64 // see Position

	sets sets

	// partial: reading began before the storage was usable. Objects are kept, but a position would claim too much until
	// the reader has sent its whole inventory.
	partial bool
}

func newStore(e *entry) *store {
	return &store{
		entry: e, objects: make(map[watchlist.Key]*watchlist.Stored), denied: make(map[watchlist.Key]redact.Identity), ended: make(chan struct{}),
	}
}

// introduces reports whether the next consumer receives an object for the first time, or its deletion although it exists: its
// namespace has left the selection, and no event reports the object if the namespace is selected again after a crash.
func introduces(c *watchlist.Change) bool {
	return c.Type == watchlist.Deleted && c.Origin == watchlist.Selection || c.Type == watchlist.Added || c.Type == watchlist.Snapshot && c.Origin != watchlist.Relist
}

// introduction returns the operation that stores an object that may have been emitted in an unknown version.
func introduction(id string, c *watchlist.Change) *storage.Operation {
	return storage.SetOperation(objectKey(id, c.Key), encodeObject(unknown(c)))
}

// known is what is known of the object of an accepted change.
func known(c *watchlist.Change) watchlist.Stored {
	return watchlist.Stored{Identity: c.Object.Identity.Clone(), Content: c.Object.Content.Sum, Ahead: c.Ahead}
}

// unknown is what is known of an object when nobody knows in what version it was emitted.
func unknown(c *watchlist.Change) watchlist.Stored {
	id := c.Object.Identity.Clone()
	id.ResourceVersion = ""
	return watchlist.Stored{Identity: id}
}

// comparisons counts what sets store.compared, in all stores.
var comparisons atomic.Uint64

// accept notes a change that the next consumer has accepted, or that needs no acceptance.
func (s *store) accept(c *watchlist.Change) {
	s.followSets(c)
	switch c.Type {
	case watchlist.Ended:
		s.entry.ReadAt, s.entryChanged = time.Now(), true
		close(s.ended)
		return
	case watchlist.Snapshot, watchlist.Added, watchlist.Modified, watchlist.Known:
		o := known(c)
		s.objects[c.Key] = &o
		delete(s.denied, c.Key)
	case watchlist.Unchanged:
		// It is as in the record before it, which was perhaps dropped when this change was under way.
		if _, denied := s.denied[c.Key]; !denied {
			o := known(c)
			s.objects[c.Key] = &o
		}
	case watchlist.Deleted, watchlist.Forgotten:
		s.objects[c.Key] = nil
		delete(s.denied, c.Key)
	case watchlist.Restated:
		s.partial = false
	case watchlist.Selecting:
		s.progress.Selected, s.changed = c.Selected, true
	}
	if c.Type == watchlist.Gap {
		s.reported(c.Gap)
	}
	if !s.partial {
		s.advance(c)
	}
	s.noteOwed()
}

// drop notes an object whose newest version, or whose deletion, was refused.
func (s *store) drop(c *watchlist.Change) {
	if c.Type.IsOfObject() {
		o := unknown(c)
		s.objects[c.Key] = &o
		s.denied[c.Key] = o.Identity
	}
	from, to := c.Span()
	s.progress.Denied = s.progress.Denied.and(&storedDenial{
		Records: 1, From: strings.Clone(from), To: strings.Clone(to), Time: c.ReadAt,
	})
	s.changed = true
	s.endRefused(c)
	s.sets.drop(c)
	s.noteOwed()
}

// reported notes an accepted gap record, and subtracts what it reports from the dropped records.
func (s *store) reported(g *watchlist.GapInfo) {
	if h := s.progress.Hidden; h != nil && h.Reason == g.Reason {
		s.progress.Hidden, s.changed = nil, true
	}
	d := s.progress.Denied
	if d == nil || g.Dropped == 0 {
		return
	}
	left := *d // a copy, since checkpoints of other scopes may share it
	if left.Records -= g.Dropped; left.Records > 0 {
		s.progress.Denied = &left
	} else {
		s.progress.Denied = nil
	}
	s.changed = true
}

// advance moves the progress with an accepted change. It never moves back, except into another history.
func (s *store) advance(c *watchlist.Change) {
	p := &s.progress
	switch {
	case c.Type == watchlist.Advanced, c.Closes:
		s.close(c)
	case c.Type == watchlist.Restated:
		s.moveTo(c)
	case c.Type == watchlist.Suspected:
		p.Lost = lossOf(watchlist.Suspicion{Doubt: c.Doubt, Gap: *c.Gap})
	case c.Type == watchlist.SnapshotBegin && c.Origin == watchlist.Initial:
		*p = p.anew()
		p.Epoch = c.Snapshot.Epoch
		clear(s.denied) // the set has every object that exists, and whatever it lacks is gone
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
		p.Lost, p.Unconfirmed, p.Filling = nil, false, nil
		if !s.sets.owed { // nobody relies on what is published before
			s.compared = comparisons.Add(1)
		}
	}
	p.Time = c.ReadAt
	s.changed = true
}

// close moves the progress to a version whose changes were all accepted.
func (s *store) close(c *watchlist.Change) {
	p := &s.progress
	rv := c.ReachedVersion()
	s.gone = rv == "" && p.Denied == nil
	switch {
	case rv == "": // the resource is gone, and its inventory
		*p, s.sets = storedProgress{Denied: p.Denied, Generation: p.Generation}, sets{}
	case c.Rewinds || !watchlist.VersionBefore(rv, p.ResourceVersion):
		p.ResourceVersion, p.Closed, p.At = strings.Clone(rv), true, nil
		p.Epoch, p.Objects = "", 0
	}
}

// moveTo moves the progress to a watch event.
func (s *store) moveTo(c *watchlist.Change) {
	p := &s.progress
	switch rv := c.Object.ResourceVersion; {
	case watchlist.VersionBefore(rv, p.ResourceVersion):
	case rv != p.ResourceVersion:
		p.ResourceVersion, p.Closed, p.At = strings.Clone(rv), false, p.At[:0]
		fallthrough
	default:
		if c.Advances {
			p.At = append(p.At, c.Key)
		}
	}
}

// hasEnded reports whether the store changes no more, since its reader has ended.
func (s *store) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// pending returns how many changes are not stored yet.
func (s *store) pending() int {
	if (s.changed || s.entryChanged) && len(s.objects) == 0 {
		return 1
	}
	return len(s.objects)
}

// touch notes that something may have to be stored.
func (s *store) touch(now time.Time) {
	if s.since.IsZero() && s.pending() > 0 {
		s.since = now
	}
}

// age returns for how long an accepted change has not been stored.
func (s *store) age(now time.Time) time.Duration {
	switch {
	case !s.writing.IsZero():
		return now.Sub(s.writing)
	case !s.since.IsZero():
		return now.Sub(s.since)
	}
	return 0
}

// transaction holds the pending changes of a store while they are written.
type transaction struct {
	store        *store
	objects      map[watchlist.Key]*watchlist.Stored
	entryChanged bool
}

// take removes the pending changes from the store, and appends the operations that write them.
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
	for key, o := range s.objects {
		if o == nil {
			operations = append(operations, storage.DeleteOperation(objectKey(s.entry.id, key)))
			continue
		}
		operations = append(operations, storage.SetOperation(objectKey(s.entry.id, key), encodeObject(*o)))
	}
	operations = append(operations, storage.SetOperation(progressKey(s.entry.id), progress))
	s.objects, s.changed, s.entryChanged = make(map[watchlist.Key]*watchlist.Stored), false, false
	s.writing, s.since = s.since, time.Time{}
	return t, operations, nil
}

// putBack returns the changes of a failed transaction to the store. Changes accepted since then are newer.
func (t transaction) putBack() {
	s := t.store
	for key, o := range s.objects {
		t.objects[key] = o
	}
	s.objects, s.changed, s.entryChanged = t.objects, true, s.entryChanged || t.entryChanged
	if !s.writing.IsZero() {
		s.since, s.writing = s.writing, time.Time{}
	}
}
