package checkpoint

import "github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"

// sets follows the sets of snapshots of a reader. A consumer can tell that a set is whole only if it has its begin and its end.
// As long as it has no whole one of the initial state, there is no position: whoever continued from one would not send a set
// again, and nobody would learn of what is gone. See rules 30 and 31 in docs/takeover.md.
type sets struct {
	begun string // the epoch of the last one whose begin was accepted
	owed  bool   // the initial state's is not whole, and no later one is
}

func isInitial(c *watchlist.Change) bool { return c.Origin == watchlist.Initial }

// accept notes an accepted change.
func (s *sets) accept(c *watchlist.Change) {
	switch c.Type {
	case watchlist.SnapshotBegin:
		s.begun = c.Snapshot.Epoch
		s.owed = s.owed && !isInitial(c) // that set is another one of the initial state
	case watchlist.SnapshotEnd:
		isWhole := c.Snapshot.Epoch == s.begun
		s.owed = !isWhole && (s.owed || isInitial(c))
	}
}

// drop notes a refused record.
func (s *sets) drop(c *watchlist.Change) {
	if c.Type == watchlist.SnapshotBegin || c.Type == watchlist.SnapshotEnd {
		s.owed = s.owed || isInitial(c)
	}
}

// followSets notes an accepted change.
func (s *store) followSets(c *watchlist.Change) {
	wasOwed := s.sets.owed
	if s.sets.accept(c); c.Type == watchlist.SnapshotEnd && wasOwed && !s.sets.owed {
		s.compared = comparisons.Add(1) // what was compared before counts from now on
	}
}

// noteOwed makes the progress say whether a set is owed. While the storage does not know the whole inventory, its position is that
// of an earlier reader.
func (s *store) noteOwed() {
	if owed := s.sets.owed && !s.partial; owed != s.progress.SetOwed {
		s.progress.SetOwed, s.changed = owed, true
	}
}

// endRefused notes that the end of an initial state was refused. What it covers was accepted all the same.
func (s *store) endRefused(c *watchlist.Change) {
	if c.Type == watchlist.SnapshotEnd && isInitial(c) && !s.partial {
		s.close(c)
		s.progress.Time = c.ReadAt
	}
}

// anew is the progress with which an initial state begins that is sent again.
func (p *storedProgress) anew() storedProgress {
	return storedProgress{Denied: p.Denied, Hidden: p.hidden(), Generation: p.Generation}
}

// hidden is the history that an initial state hides which begins now: it is emitted again if the inventory was to be filled, or if
// its set is owed.
func (p *storedProgress) hidden() *storedHidden {
	switch {
	case p.Hidden != nil:
		return p.Hidden
	case p.Filling != nil:
		return &storedHidden{watchlist.ReasonTakeover, *p.Filling}
	case p.SetOwed && p.ResourceVersion != "":
		return &storedHidden{watchlist.ReasonSetRefused, storedVerification{p.ResourceVersion, p.Time}}
	}
	return nil
}
