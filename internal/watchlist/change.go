package watchlist

import (
	"cmp"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Type is what happened to the object, or what the record reports about the stream.
type Type uint8

const (
	Snapshot      Type = iota + 1 // the object exists, seen in a snapshot; no change is claimed
	Added                         // the object came to be
	Modified                      // the object changed
	Deleted                       // the object is gone
	Gap                           // the server could not deliver some history
	SnapshotBegin                 // a set of Snapshot changes follows
	SnapshotEnd                   // that set is complete
	Known                         // the object exists and is not emitted; no record
	Advanced                      // everything up to Object.ResourceVersion has been emitted; no record
	Verified                      // a snapshot at Object.ResourceVersion was compared; no record
	Suspected                     // history may have been lost, see Gap and Doubt; no record
	Restated                      // all that is known was emitted anew as Known, and everything before Object.ResourceVersion; no record
)

// Origin says how a change was learned.
type Origin uint8

const (
	Initial   Origin = iota + 1 // from the first snapshot of the resource
	Live                        // from a watch event
	Relist                      // from a periodic relist
	Recovered                   // from comparing a snapshot with the inventory
)

// Change is one thing to tell the next consumer. Its object is redacted already.
type Change struct {
	Scope  *scope.Scope // of the reader
	Type   Type
	Origin Origin
	// Inferred marks a deletion that no watch event reported: the object was missing from a snapshot.
	// Only the identity of such an object is known, and its ResourceVersion is that of the snapshot.
	Inferred bool
	Object   redact.Object
	Key      Key // of the object
	ReadAt   time.Time
	// seen is a version up to and including which everything had been read before; none in the initial state.
	seen version
	// Advances marks a watch event: everything before it, and it, has been emitted.
	Advances bool
	// Closes marks the last change of a snapshot that moves the position: everything up to the snapshot's version has
	// been emitted, as Advanced says of itself.
	Closes bool
	// Verifies marks the last change of a comparison with a whole snapshot: what the inventory holds is what the server
	// held at the snapshot's version, and no loss is suspected any more.
	Verifies bool
	// Rewinds marks a version of another history, which may be lower than those before.
	Rewinds  bool
	Doubt    Doubt         // of Suspected
	Gap      *GapInfo      // of Gap only
	Snapshot *SnapshotInfo // of SnapshotBegin, SnapshotEnd and of Snapshot changes between them
}

// IsRecord reports whether the change is for the next consumer, and not only for checkpoints.
func (c *Change) IsRecord() bool { return c.Type < Known }

// ReachedVersion is the version that an Advanced, Verified, Gap or SnapshotEnd change is about.
func (c *Change) ReachedVersion() string {
	switch {
	case c.Gap != nil:
		return c.Gap.ToRV
	case c.Snapshot != nil:
		return c.Snapshot.ResourceVersion
	}
	return c.Object.ResourceVersion
}

// Span is the stretch of history that is missing without the record of the change: what lies after from, and up to and
// including to. An empty from is the beginning.
func (c *Change) Span() (from, to string) {
	to = cmp.Or(c.Object.ResourceVersion, c.ReachedVersion())
	if c.Gap != nil {
		return c.Gap.FromRV, to
	}
	return c.seen.String(), to
}

// Progress is how far a reader has come, in a form that outlives the process.
type Progress struct {
	ResourceVersion string // everything before it has been told; "" where the initial state has not
	Closed          bool   // and everything at it
	At              []Key  // or these objects at it
	Time            time.Time

	VerifiedRV string    // of the last snapshot that everything was compared with; "" where that is not known
	VerifiedAt time.Time // when
	Lost       *Suspicion
	Denied     *GapInfo // records that were dropped and that no gap reports yet

	// Of an initial state that was cut short: its set of Snapshot changes, which goes on.
	Epoch   string
	Objects int // told in that set

	// Unconfirmed: that the server is of the same cluster as before is likely, but not certain. What is known has to be
	// compared once with what it holds.
	Unconfirmed bool
	// Later, unless nil, is closed when it is worth asking again for what could not be had, with an error.
	Later <-chan struct{}
}

// None reports whether nothing has been told.
func (p Progress) None() bool { return p.ResourceVersion == "" && p.Epoch == "" }

// Suspicion is a stretch of history that may have been lost, and for which no gap has been emitted yet.
type Suspicion struct {
	Gap   GapInfo // without ToRV and To
	Doubt Doubt
}

// GapInfo describes history that could not be read: changes after From and up to To came out only as net
// differences.
type GapInfo struct {
	Reason   string // why: expired, undecodable, history_reset, …
	FromRV   string
	ToRV     string
	From, To time.Time // when the reader last knew everything, and when it did again
	Added    int
	Modified int
	Deleted  int
	Dropped  int             // records, by the next consumer
	Object   redact.Identity // of undecodable: the object that could not be read, as far as it can be named
}

// SnapshotInfo frames a set of Snapshot changes, so that a backend can prove it complete.
type SnapshotInfo struct {
	Epoch           string // unique to the set
	ResourceVersion string // of the snapshot; known at SnapshotEnd only
	Objects         int    // Snapshot changes emitted in the set; known at SnapshotEnd only
	Incomplete      bool   // objects are missing from the set, since they could not be decoded; known at SnapshotEnd only
}
