package harness

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// ProgressAnnotation holds the published positions, in the progress Lease of replicas. docs/takeover.md describes them. They are
// decoded here independently of the receiver's code.
const ProgressAnnotation = "k8s-watchlist.dev/progress"

const progressLayout = 1

// Publication is one version of the progress Lease.
type Publication struct {
	Revision int64            `json:"-"` // in etcd
	At       time.Time        `json:"-"` // when etcd reported it
	Layout   int              `json:"v"`
	Term     int              `json:"term"`
	Holder   string           `json:"holder"`
	Readers  map[string]Point `json:"readers"`
}

// Point is the published position of one reader.
type Point struct {
	W      string       `json:"w"`  // everything before it was accepted, or "" while the initial state is not complete
	Closed bool         `json:"c"`  // everything at it was accepted too
	At     []string     `json:"at"` // otherwise the objects of which that is known, by UID without hyphens
	Owed   []OwedObject `json:"owed"`
	Anew   bool         `json:"anew"` // the initial state is to be emitted again, since more objects are owed than fit
}

// OwedObject is an object whose newest record was refused permanently.
type OwedObject struct {
	UID string `json:"uid"`
}

// IsKnown reports whether there is a position.
func (p Point) IsKnown() bool { return p.W != "" }

// Covers reports whether a record was accepted when the position was published.
func (p Point) Covers(r fold.Record) bool {
	if slices.ContainsFunc(p.Owed, func(owed OwedObject) bool { return owed.UID == r.UID }) {
		return false
	}
	rv, err := strconv.ParseInt(r.ResourceVersion, 10, 64)
	return err == nil && (rv <= p.accepted() || r.ResourceVersion == p.W && slices.Contains(p.At, strings.ReplaceAll(r.UID, "-", "")))
}

// IsBefore reports whether a position is before another one.
func (p Point) IsBefore(other Point) bool { return p.version() < other.version() }

func (p Point) version() int64 {
	n, _ := strconv.ParseInt(p.W, 10, 64)
	return n
}

// accepted returns the version up to which everything was accepted, or 0 if that is unknown.
func (p Point) accepted() int64 {
	n := p.version()
	if n > 0 && !p.Closed {
		n--
	}
	return n
}

// Publications are all versions of a progress Lease, as reported by etcd.
type Publications struct {
	Truth *Truth // of the Lease
	etcd  *Etcd

	mu  sync.Mutex
	all []Publication
}

// WatchPublications follows a progress Lease from now on until the test ends.
func (e *Etcd) WatchPublications(t testing.TB, namespace, lease string) *Publications {
	t.Helper()
	p := &Publications{etcd: e}
	key := "/registry/leases/" + namespace + "/" + lease
	p.Truth = e.Follow(t, key, func(event Event, lease *unstructured.Unstructured) {
		if event.Key == key {
			p.take(event.Revision, lease)
		}
	})
	return p
}

func (p *Publications) take(revision int64, lease *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var published Publication
	if json.Unmarshal([]byte(lease.GetAnnotations()[ProgressAnnotation]), &published) != nil || published.Layout != progressLayout {
		published = Publication{}
	}
	published.Revision, published.At = revision, time.Now()
	p.all = append(p.all, published)
}

// All returns what was published until now. What nobody can read, because it was edited by hand or is of another layout, is a
// publication without a term and without readers.
func (p *Publications) All(t testing.TB) []Publication {
	t.Helper()
	p.Truth.Await(t, p.etcd.Revision(t))
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[:len(p.all):len(p.all)]
}

// accepted returns the version up to which everything was accepted of every reader, or 0 if that is unknown.
func (p *Publication) accepted() int64 {
	least := int64(math.MaxInt64)
	for _, point := range p.Readers {
		least = min(least, point.accepted())
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// Uncertain returns whether a change at a version may be emitted again: nobody has published that it was accepted when another
// term began, and it happened before that.
func (p *Publications) Uncertain(t testing.TB) func(revision int64) bool {
	t.Helper()
	type span struct{ after, until int64 }
	var spans []span
	var last *Publication
	for _, next := range p.All(t) {
		if next.Term == 0 {
			continue // a test may have written anything
		}
		if last != nil && next.Term != last.Term {
			spans = append(spans, span{after: last.accepted(), until: next.Revision})
		}
		last = &next
	}
	return func(revision int64) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.after < revision && revision < s.until })
	}
}
