// Package takeover lets another replica continue where the leader stopped: the leader publishes how far its records were
// accepted, and the others follow that. docs/takeover.md has the rules, and internal/takeover/model tests them.
package takeover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	// annotation of the Lease that holds the progress.
	annotation = "k8s-watchlist.dev/progress"
	layout     = 1
	// maxBytes bounds the annotation. Kubernetes allows 256 KiB for all annotations of an object.
	// https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
	maxBytes = 128 << 10
	// maxOwed is how many owed objects a position names.
	maxOwed = 16
)

// Progress is how far the leader's records were accepted.
type Progress struct {
	Layout  int                 `json:"v"`
	Term    int                 `json:"term"`
	Holder  string              `json:"holder"` // the identity of the leader's process
	Readers map[string]Position `json:"readers"`
	// Generation grows when etcd is found to be set back. Versions of two generations cannot be compared.
	Generation int `json:"g,omitempty"`

	lease kubeclient.Lease
}

// IsSame reports whether the progress has not been written since another one was read.
func (p *Progress) IsSame(as *Progress) bool {
	return p.Term == as.Term && p.Holder == as.Holder && p.lease.Renewed.Equal(as.lease.Renewed)
}

// Renewed is when the progress was written, by the clock of the replica that wrote it.
func (p *Progress) Renewed() time.Time { return p.lease.Renewed }

// IsBehind reports whether the progress is older than one that was known before: etcd was set back, and the progress with it.
func (p *Progress) IsBehind(known *Progress) bool {
	switch {
	case !p.Exists() || !known.Exists():
		return false
	case p.Term != known.Term:
		return p.Term < known.Term
	}
	return p.Holder != known.Holder || watchlist.VersionBefore(p.lease.Version, known.lease.Version)
}

// setBack returns the progress with which a term begins after etcd was set back. Nobody but the last leader knows what was emitted
// of these readers since.
func (p *Progress) setBack(readers []string) Progress {
	q := *p
	q.Generation++
	q.Readers = maps.Clone(p.Readers)
	for _, key := range readers {
		if at := q.Readers[key]; at.Known() {
			at.SetBack, at.Until = true, ""
			q.Readers[key] = at
		}
	}
	return q
}

// Exists reports whether a leader has ever published anything.
func (p *Progress) Exists() bool { return p.Term > 0 }

// Continued reports how many of the readers that have published something would continue from a position, and how many would begin
// anew.
func (p *Progress) Continued() (continued, anew int) {
	for _, at := range p.Readers {
		if at.continues() {
			continued++
		} else {
			anew++
		}
	}
	return continued, anew
}

// Position is how far the records of one reader were accepted.
type Position struct {
	W      string          `json:"w,omitempty"` // everything before it was accepted; "": the initial state is not complete
	Closed bool            `json:"c,omitempty"` // everything at it was accepted too
	At     []watchlist.Key `json:"at,omitempty"`
	// Until: no object that was created after this version was ever offered.
	Until string `json:"u,omitempty"`
	// Ended is the version of the first initial state whose end was offered before W was known.
	Ended string `json:"e,omitempty"`
	// Anew: the initial state has to be emitted again, and hides what happened after W.
	Anew bool `json:"anew,omitempty"`
	// SetBack: etcd was set back after W, and not everything was compared since.
	SetBack bool    `json:"back,omitempty"`
	Owed    []owed  `json:"owed,omitempty"`
	Denied  *denied `json:"denied,omitempty"`
}

// owed is an object whose newest record was refused permanently.
type owed struct {
	UID       string `json:"uid"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
}

// denied is a stretch of history with refused records.
type denied struct {
	Records int       `json:"n"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Time    time.Time `json:"time"`
}

// Known reports whether the initial state was accepted.
func (p *Position) Known() bool { return p.W != "" }

// continues reports whether a reader continues from the position. Otherwise it begins anew.
func (p *Position) continues() bool { return p.Known() && !p.Anew }

// covers reports whether a change of an object was accepted.
func (p *Position) covers(rv string, key watchlist.Key) bool {
	if rv == p.W {
		return p.Closed || slices.Contains(p.At, key)
	}
	return watchlist.VersionBefore(rv, p.W)
}

// passed reports whether everything up to a version was accepted.
func (p *Position) passed(rv string) bool {
	return rv == p.W && p.Closed || watchlist.VersionBefore(rv, p.W)
}

// until is the version up to which objects may have been offered that were created.
func (p *Position) until() string { return later(p.W, p.Until) }

// later returns the later of two versions, either of which may be missing.
func later(a, b string) string {
	if a == "" || watchlist.VersionBefore(a, b) {
		return b
	}
	return a
}

// Key names a reader in the progress.
func Key(of scope.Scope) string {
	sum := sha256.Sum256([]byte(of.Key()))
	return of.GroupResource.String() + "/" + hex.EncodeToString(sum[:6])
}

// positionOf is what is published of a reader's checkpoint.
func positionOf(p checkpoint.Position) Position {
	published := Position{W: p.ResourceVersion, Closed: p.Closed, At: p.At}
	if len(p.Owed) > maxOwed {
		published.Anew = true
	} else {
		for _, id := range p.Owed {
			published.Owed = append(published.Owed, owed{id.UID, id.Namespace, id.Name, id.Cluster})
		}
		slices.SortFunc(published.Owed, func(a, b owed) int { return strings.Compare(a.UID, b.UID) })
	}
	if d := p.Denied; d != nil {
		published.Denied = &denied{d.Dropped, d.FromRV, d.ToRV, d.From}
	}
	return published
}

// handover is the position as a reader continues from it.
func (p *Position) handover() checkpoint.Handover {
	h := checkpoint.Handover{Position: checkpoint.Position{ResourceVersion: p.W, Closed: p.Closed, At: p.At}}
	for _, o := range p.Owed {
		h.Owed = append(h.Owed, redact.Identity{UID: o.UID, Namespace: o.Namespace, Name: o.Name, Cluster: o.Cluster})
	}
	if d := p.Denied; d != nil {
		h.Denied = &watchlist.GapInfo{FromRV: d.From, ToRV: d.To, From: d.Time, Dropped: d.Records}
	}
	return h
}

// Leases reads and writes the Lease that holds the progress; see [kubeclient.Leases].
type Leases interface {
	Get(context.Context) (kubeclient.Lease, error)
	Put(context.Context, kubeclient.Lease) (kubeclient.Lease, error)
}

var (
	errTooLarge = fmt.Errorf("the progress of all readers is larger than %d bytes; read fewer resources in one receiver", maxBytes)
	errNewer    = errors.New("the progress was written by a newer version of the receiver")
)

// Read returns the progress as last published. One that nobody has published yet, or that was damaged by hand, is empty.
func Read(ctx context.Context, l Leases) (Progress, error) {
	lease, err := l.Get(ctx)
	if apierrors.IsNotFound(err) {
		return Progress{}, nil
	}
	if err != nil {
		return Progress{}, err
	}
	p, err := decode(lease.Annotations[annotation])
	p.lease = lease
	return p, err
}

func decode(text string) (Progress, error) {
	var p Progress
	if text == "" {
		return p, nil
	}
	var head struct {
		Layout int `json:"v"`
	}
	if json.Unmarshal([]byte(text), &head) == nil && head.Layout > layout {
		return Progress{}, errNewer
	}
	if json.Unmarshal([]byte(text), &p) != nil || p.Layout != layout {
		return Progress{}, nil // it is written again
	}
	return p, nil
}

// write writes the progress on top of what was read, and returns what is there now.
func (p Progress) write(ctx context.Context, l Leases) (Progress, error) {
	p.Layout = layout
	text, err := json.Marshal(p)
	if err != nil {
		return Progress{}, err
	}
	if len(text) > maxBytes {
		return Progress{}, errTooLarge
	}
	lease := p.lease
	lease.Holder, lease.Transitions, lease.Renewed, lease.Duration = p.Holder, p.Term, time.Now(), time.Second
	if lease.Acquired.IsZero() {
		lease.Acquired = lease.Renewed
	}
	lease.Annotations = map[string]string{annotation: string(text)}
	written, err := l.Put(ctx, lease)
	p.lease = written
	return p, err
}
