package watchlist

import (
	"cmp"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Type is what happened to the object, or what the record reports about the stream.
type Type uint8

const (
	Snapshot      Type = iota + 1 // the object exists, seen in a snapshot; no change is claimed
	Added                         // the object was created
	Modified                      // the object changed
	Deleted                       // the object is gone
	Gap                           // the server could not deliver some history
	SnapshotBegin                 // a set of Snapshot changes follows
	SnapshotEnd                   // that set is complete
	Known                         // the object exists and is not emitted; no record
	Advanced                      // everything up to Object.ResourceVersion has been emitted; no record
	Verified                      // a snapshot at Object.ResourceVersion was compared; no record
	Suspected                     // history may have been lost, see Gap and Doubt; no record
	Restated                      // the whole inventory was sent again as Known, and everything before Object.ResourceVersion was emitted; no record
	Unchanged                     // the object is at Object.ResourceVersion, with the content that was emitted last; no record
	Forgotten                     // the object is gone, which is not emitted; no record
	Selecting                     // the objects of the namespaces in Selected, and no others, have been emitted; no record
	Ended                         // the reader has ended, and nothing of it follows; no record
)

// IsOfObject reports whether a record of this type is about an object, not about the stream.
func (t Type) IsOfObject() bool {
	return t == Snapshot || t == Added || t == Modified || t == Deleted
}

// Origin is how the reader learned of a change.
type Origin uint8

const (
	Initial   Origin = iota + 1 // from the first snapshot of the resource
	Live                        // from a watch event
	Relist                      // from a periodic relist
	Recovered                   // from comparing a snapshot with the inventory
	Selection                   // the namespace of the object entered or left the selection
)

// Change is one item for the next consumer or for the checkpoint; see [Change.IsRecord]. Its object is already
// redacted.
type Change struct {
	Scope  *scope.Scope // of the reader; each reader has its own pointer, which identifies it
	Type   Type
	Origin Origin
	// Inferred marks a deletion that no watch event reported: the object was missing from a snapshot.
	// Only the identity of such an object is known, and with diffs its last state. Its ResourceVersion is that of the
	// snapshot.
	Inferred bool
	Object   redact.Object
	Key      Key // of the object
	// Sections are the parts of a modified object that changed, and Manager is who changed or added the object. Both are
	// empty if that is not known.
	Sections redact.SectionSet
	Manager  redact.Manager
	// Undated is set if the object does not say when it was modified: the times of its managedFields are those of an earlier
	// change.
	Undated bool
	// Diff is what changed in a modified object. nil: it was not compared with its last state.
	Diff *diff.Diff
	// Ahead is set for a change that is no record.
	Ahead Ahead
	// Suppressed is the number of states of the object that were not emitted since the last one that was.
	Suppressed int
	ReadAt     time.Time
	// seen is a version up to and including which everything had already been read; none in the initial state.
	seen version
	// Advances marks a watch event: everything before it, and it, has been emitted.
	Advances bool
	// Closes marks the last change of a snapshot that moves the position: like Advanced, it means that everything up to
	// the snapshot's version has been emitted.
	Closes bool
	// Verifies marks the last change of a comparison with a whole snapshot: the inventory matches what the server held
	// at the snapshot's version, and no loss is suspected any longer.
	Verifies bool
	// Rewinds marks a version that belongs to another history and may be lower than earlier ones.
	Rewinds bool
	// Selected are the namespaces, for Selecting only.
	Selected SelectedNamespaces
	// Stay identifies, for origin Selection, the time for which the namespace is selected: it is the resourceVersion of the
	// namespace with which it entered the selection.
	Stay     string
	Doubt    Doubt         // for Suspected only
	Gap      *GapInfo      // for Gap only
	Snapshot *SnapshotInfo // for SnapshotBegin, SnapshotEnd and the Snapshot changes between them

	Excluded bool     // its type is one that does not become a record
	Cut      []string // paths of what was cut out of the object because it was too large
}

// IsRecord reports whether the change becomes a record for the next consumer. The others only update the checkpoint.
func (c *Change) IsRecord() bool { return c.Type < Known && !c.Excluded }

// IsOfSetBack reports whether the change tells that etcd was set back.
func (c *Change) IsOfSetBack() bool {
	return c.Rewinds || c.Gap != nil && c.Gap.Reason == ReasonHistoryReset
}

// Bytes returns how much memory the texts of a change take that may be large.
func (c *Change) Bytes() int {
	bytes := len(c.Object.JSON) + c.Diff.Bytes()
	if c.Object.Event != nil {
		bytes += len(c.Object.Event.Note)
	}
	return bytes
}

// ReachedVersion returns the version that an Advanced, Verified, Gap or SnapshotEnd change has reached.
func (c *Change) ReachedVersion() string {
	switch {
	case c.Gap != nil:
		return c.Gap.ToRV
	case c.Snapshot != nil:
		return c.Snapshot.ResourceVersion
	}
	return c.Object.ResourceVersion
}

// Span returns the stretch of history that is missing without the change's record: after from, up to and including to.
// An empty from is the beginning.
func (c *Change) Span() (from, to string) {
	to = cmp.Or(c.Object.ResourceVersion, c.ReachedVersion())
	if c.Gap != nil {
		return c.Gap.FromRV, to
	}
	return c.seen.String(), to
}

// Progress is how far a reader has come, in a form that outlives the process.
type Progress struct {
	ResourceVersion string // everything before it was emitted; "" if the initial state was not
	Closed          bool   // everything at it was emitted too
	At              []Key  // if not, these objects at it were
	Time            time.Time

	VerifiedRV string    // version of the last complete comparison; "" if unknown
	VerifiedAt time.Time // its time
	Lost       *Suspicion
	Denied     *GapInfo // dropped records that no gap has reported yet
	// Hidden is the beginning of the history that a first snapshot hides, and why it does. A gap record at its end reports that.
	// nil: it hides none.
	Hidden *GapInfo

	// The unfinished set of Snapshot changes of an initial state that was cut short.
	Epoch   string
	Objects int // emitted in that set so far

	// Selected are the namespaces whose objects were emitted, if they are selected by their labels; nil: not known.
	Selected SelectedNamespaces

	// Unconfirmed is set if the server probably, but not certainly, belongs to the same cluster as before. The
	// inventory then has to be compared with the server once.
	Unconfirmed bool
	// Takeover is set if the reader continues the work of a reader in another process.
	Takeover *Takeover
	// Later may accompany an error. It is closed when calling Restore again may succeed.
	Later <-chan struct{}
}

// None reports whether nothing has been emitted.
func (p Progress) None() bool { return p.ResourceVersion == "" && p.Epoch == "" }

// Stored is what a checkpoint holds of an object.
type Stored struct {
	redact.Identity
	Content uint64 // the sum of the content that was emitted last; 0: not known
	Ahead   Ahead
}

// Suspicion is a stretch of history that may have been lost, but for which no gap has been emitted yet.
type Suspicion struct {
	Gap   GapInfo // without ToRV and To
	Doubt Doubt
	Begun bool // an earlier process has begun to recover it
}

// GapInfo describes history that could not be read: of the changes after FromRV up to ToRV, only the net differences
// were emitted.
type GapInfo struct {
	Reason   string // why: expired, undecodable, history_reset, …
	FromRV   string
	ToRV     string
	From, To time.Time // when the reader was last up to date, and when it was again
	Added    int
	Modified int
	Deleted  int
	// Unchanged counts objects that were found at other versions, with the content that was emitted last.
	Unchanged int
	Dropped   int             // records that the next consumer refused
	Object    redact.Identity // for undecodable: what is known of the object that could not be read
}

// SnapshotInfo frames a set of Snapshot changes, so that a backend can prove it complete.
type SnapshotInfo struct {
	Epoch           string // unique to the set
	ResourceVersion string // of the snapshot; known at SnapshotEnd only
	Objects         int    // Snapshot changes emitted in the set; known at SnapshotEnd only
	Incomplete      bool   // objects that could not be decoded are missing from the set; known at SnapshotEnd only
}
