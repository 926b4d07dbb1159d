package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ProgressAnnotation holds the published positions, in the progress Lease of replicas.
const ProgressAnnotation = "k8s-watchlist.dev/progress"

// Publication is one version of the progress Lease.
type Publication struct {
	Revision int64            `json:"-"` // in etcd
	Layout   int              `json:"v"`
	Term     int              `json:"term"`
	Holder   string           `json:"holder"`
	Readers  map[string]Point `json:"readers"`
}

// Point is the published position of one reader.
type Point struct {
	W      string `json:"w"` // everything before it was accepted, or "" while the initial state is not complete
	Closed bool   `json:"c"` // everything at it was accepted too
}

// accepted returns the version up to which everything was accepted, or 0 if that is unknown.
func (p Point) accepted() int64 {
	n, _ := strconv.ParseInt(p.W, 10, 64)
	if n > 0 && !p.Closed {
		n--
	}
	return n
}

// Publications are all versions of a progress Lease, as reported by etcd.
type Publications struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu  sync.Mutex
	all []Publication
	err error
}

// WatchPublications follows a progress Lease from now on until the test ends.
func (e *Etcd) WatchPublications(t testing.TB, namespace, lease string) *Publications {
	t.Helper()
	key := "/registry/leases/" + namespace + "/" + lease
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publications{cancel: cancel, ended: make(chan struct{})}
	watch := e.client.Watch(ctx, key, clientv3.WithRev(e.Revision(t)+1))
	go func() {
		defer close(p.ended)
		for response := range watch {
			if ctx.Err() == nil {
				p.take(response)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-p.ended })
	return p
}

func (p *Publications) take(response clientv3.WatchResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := response.Err(); err != nil {
		p.err = err
		return
	}
	for _, change := range response.Events {
		if change.Type == clientv3.EventTypeDelete {
			continue
		}
		lease, err := decodeStored(change.Kv.Value)
		if err != nil {
			p.err = fmt.Errorf("cannot decode %s: %w", change.Kv.Key, err)
			return
		}
		text, _, _ := unstructured.NestedString(lease.Object, "metadata", "annotations", ProgressAnnotation)
		publication := Publication{Revision: change.Kv.ModRevision}
		if json.Unmarshal([]byte(text), &publication) == nil && publication.Layout == 1 { // a test may have written anything else
			p.all = append(p.all, publication)
		}
	}
}

// All returns what was published so far.
func (p *Publications) All(t testing.TB) []Publication {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		t.Fatalf("the watch of the progress Lease failed: %v", p.err)
	}
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
		if last != nil && next.Term != last.Term {
			spans = append(spans, span{after: last.accepted(), until: next.Revision})
		}
		last = &next
	}
	return func(revision int64) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.after < revision && revision < s.until })
	}
}
