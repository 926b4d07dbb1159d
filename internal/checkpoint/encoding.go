package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// storedProgress is how far a reader's records have been accepted.
type storedProgress struct {
	ResourceVersion string          `json:"resourceVersion,omitempty"`
	Closed          bool            `json:"closed,omitempty"`
	At              []watchlist.Key `json:"at,omitempty"` // the objects accepted at that version, if it is not closed
	Time            time.Time       `json:"time"`

	Verified *storedVerification `json:"verified,omitempty"` // the last comparison with a whole snapshot
	Lost     *storedLoss         `json:"lost,omitempty"`     // a suspicion for which no gap was emitted yet
	Denied   *storedDenial       `json:"denied,omitempty"`   // dropped records that no accepted gap has reported yet

	// The unfinished set of an initial state that was cut short.
	Epoch   string `json:"epoch,omitempty"`
	Objects int    `json:"objects,omitempty"`

	// SetOwed: the begin or the end of the set of an initial state was refused, and none was accepted whole since. The
	// position is then not one from which anybody continues, but up to where records were accepted.
	SetOwed bool `json:"setOwed,omitempty"`

	// Hidden is where the history begins that an initial state hides, until a gap record was accepted that begins there.
	Hidden *storedHidden `json:"hidden,omitempty"`

	// The selected namespaces whose objects were emitted, if they are selected by their labels.
	Selected watchlist.SelectedNamespaces `json:"selected,omitempty"`

	// Set if the cluster was not certainly the same as before, and nothing was compared since.
	Unconfirmed bool `json:"unconfirmed,omitempty"`

	// Filling is where this process continued the work of another one without knowing everything that it had emitted. It is set
	// until a comparison is complete.
	Filling *storedVerification `json:"filling,omitempty"`

	// Generation is that of the history of these versions, among replicas; see takeover.Progress.
	Generation int `json:"generation,omitempty"`
}

// storedHidden is where history begins that an initial state hides, and why it does; see watchlist.Progress.
type storedHidden struct {
	Reason string `json:"reason"`
	storedVerification
}

// none reports whether nothing has been emitted.
func (p storedProgress) none() bool { return p.ResourceVersion == "" && p.Epoch == "" }

type storedVerification struct {
	ResourceVersion string    `json:"resourceVersion"`
	Time            time.Time `json:"time"`
}

// storedDenial are records that the next consumer refused permanently.
type storedDenial struct {
	Records int       `json:"records"`
	From    string    `json:"from,omitempty"` // resourceVersion up to which nothing was dropped; "" is the beginning
	To      string    `json:"to,omitempty"`   // resourceVersion of the last
	Time    time.Time `json:"time"`           // of the first
}

// denialOf is the inverse of gap.
func denialOf(g *watchlist.GapInfo) *storedDenial {
	if g == nil {
		return nil
	}
	return &storedDenial{Records: g.Dropped, From: g.FromRV, To: g.ToRV, Time: g.From}
}

// gap returns the dropped records as a reader and other replicas know them; nil stays nil.
func (d *storedDenial) gap() *watchlist.GapInfo {
	if d == nil {
		return nil
	}
	return &watchlist.GapInfo{FromRV: d.From, ToRV: d.To, From: d.Time, Dropped: d.Records}
}

// and returns what was dropped in all; either may be nil.
func (d *storedDenial) and(other *storedDenial) *storedDenial {
	switch {
	case d == nil:
		return other
	case other == nil:
		return d
	}
	all := *d
	all.Records += other.Records
	if other.From == "" || watchlist.VersionBefore(other.From, d.From) {
		all.From = other.From
	}
	if d.To == "" || watchlist.VersionBefore(d.To, other.To) {
		all.To = other.To
	}
	if other.Time.Before(d.Time) {
		all.Time = other.Time
	}
	return &all
}

type storedLoss struct {
	Reason          string          `json:"reason"`
	Doubt           watchlist.Doubt `json:"doubt,omitempty"`
	ResourceVersion string          `json:"resourceVersion,omitempty"` // everything up to it was read
	Time            time.Time       `json:"time"`                      // when that was so
	Added           int             `json:"added,omitempty"`           // recovered changes accepted since
	Modified        int             `json:"modified,omitempty"`
	Deleted         int             `json:"deleted,omitempty"`
	Unchanged       int             `json:"unchanged,omitempty"`
	Name            string          `json:"name,omitempty"` // of the object that caused the loss
	Namespace       string          `json:"namespace,omitempty"`

	isNew bool // it is a suspicion of this process
}

func (l *storedLoss) count(t watchlist.Type) {
	switch t {
	case watchlist.Added:
		l.Added++
	case watchlist.Modified:
		l.Modified++
	case watchlist.Deleted:
		l.Deleted++
	case watchlist.Unchanged:
		l.Unchanged++
	}
}

func lossOf(s watchlist.Suspicion) *storedLoss {
	return &storedLoss{
		Reason: s.Gap.Reason, Doubt: s.Doubt, ResourceVersion: s.Gap.FromRV, Time: s.Gap.From,
		Added: s.Gap.Added, Modified: s.Gap.Modified, Deleted: s.Gap.Deleted, Unchanged: s.Gap.Unchanged,
		Name: s.Gap.Object.Name, Namespace: s.Gap.Object.Namespace,
	}
}

// isOfSetBack reports whether etcd was set back.
func (l *storedLoss) isOfSetBack() bool { return l != nil && l.Reason == watchlist.ReasonHistoryReset }

func (l *storedLoss) restored() *watchlist.Suspicion {
	return &watchlist.Suspicion{Doubt: l.Doubt, Begun: !l.isNew, Gap: watchlist.GapInfo{
		Reason: l.Reason, FromRV: l.ResourceVersion, From: l.Time,
		Added: l.Added, Modified: l.Modified, Deleted: l.Deleted, Unchanged: l.Unchanged,
		Object: redact.Identity{Name: l.Name, Namespace: l.Namespace},
	}}
}

func (p storedProgress) encode() ([]byte, error) { return json.Marshal(p) }

// decodeProgress returns the progress from which a reader continues.
func decodeProgress(data []byte) (p storedProgress, err error) {
	if err = json.Unmarshal(data, &p); p.SetOwed {
		p = p.anew()
	}
	return p, err
}

func (p storedProgress) restored() watchlist.Progress {
	restored := watchlist.Progress{
		ResourceVersion: p.ResourceVersion, Closed: p.Closed, At: slices.Clone(p.At), Time: p.Time,
		Epoch: p.Epoch, Objects: p.Objects, Unconfirmed: p.Unconfirmed, Selected: p.Selected,
		Denied: p.Denied.gap(),
	}
	if p.Verified != nil {
		restored.VerifiedRV, restored.VerifiedAt = p.Verified.ResourceVersion, p.Verified.Time
	}
	if p.Lost != nil {
		restored.Lost = p.Lost.restored()
	}
	if h := p.Hidden; h != nil {
		restored.Hidden = &watchlist.GapInfo{Reason: h.Reason, FromRV: h.ResourceVersion, From: h.Time}
	}
	if p.Filling != nil {
		restored.Takeover = &watchlist.Takeover{AcceptedRV: p.ResourceVersion, Filling: true}
	}
	return restored
}

var errBadEntry = errors.New("stored object is damaged")

// encodeObject encodes what is known of an object: its identity, the hash of its content as emitted last (which
// reveals nothing without the key), and how far its version is ahead of that of its last record.
func encodeObject(o watchlist.Stored) []byte {
	b := make([]byte, 0, len(o.UID)+len(o.ResourceVersion)+len(o.Namespace)+len(o.Name)+len(o.Cluster)+20)
	for _, s := range [...]string{o.UID, o.ResourceVersion, o.Namespace, o.Name} {
		b = appendString(b, s)
	}
	if o.Cluster != "" || o.Content != 0 {
		b = appendString(b, o.Cluster)
	}
	if o.Content != 0 {
		b = binary.BigEndian.AppendUint64(b, o.Content)
		if o.Ahead != 0 {
			b = binary.BigEndian.AppendUint32(b, uint32(o.Ahead))
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func decodeObject(b []byte) (o watchlist.Stored, err error) {
	for i, into := range [...]*string{&o.UID, &o.ResourceVersion, &o.Namespace, &o.Name, &o.Cluster} {
		if i == 4 && len(b) == 0 {
			return o, nil // neither logical cluster nor hash
		}
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return o, errBadEntry
		}
		*into = string(b[n : n+int(size)])
		b = b[n+int(size):]
	}
	if len(b) == 0 {
		return o, nil
	}
	if len(b) != 8 && len(b) != 8+4 {
		return o, errBadEntry
	}
	if o.Content = binary.BigEndian.Uint64(b); o.Content == 0 { // a hash of zero is not written
		return o, errBadEntry
	}
	if b = b[8:]; len(b) > 0 {
		o.Ahead = watchlist.Ahead(binary.BigEndian.Uint32(b))
	}
	return o, nil
}
