package catalog

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

var namespacesResource = schema.GroupResource{Resource: "namespaces"}

// namespaceSets watches the metadata of namespaces, one set for each label selector of the specs. The API server applies the
// selector, so that a namespace whose labels no longer match is one that is gone.
type namespaceSets struct {
	changed chan struct{}
	sets    map[string]*namespaceSet // by label selector; used by the catalog only
}

func newNamespaceSets() *namespaceSets {
	return &namespaceSets{changed: make(chan struct{}, 1), sets: make(map[string]*namespaceSet)}
}

// namespaceSet is the set of namespaces whose labels match a selector.
type namespaceSet struct {
	changed chan struct{}

	mu      sync.Mutex
	members watchlist.SelectedNamespaces // a copy of it is passed on
	deleted map[string]*time.Timer       // members that were deleted, which leave a little later
	listed  bool                         // all of them are known
	err     error                        // why they cannot be watched at the moment
}

func newNamespaceSet(changed chan struct{}) *namespaceSet {
	return &namespaceSet{changed: changed, members: make(watchlist.SelectedNamespaces), deleted: make(map[string]*time.Timer)}
}

// leaveAfter is how long a deleted namespace remains a member. Its objects were deleted before it, and their deletions are
// about to arrive.
const leaveAfter = 30 * time.Second

// of returns the set of a selector, which is watched until ctx ends.
func (n *namespaceSets) of(ctx context.Context, c *Catalog, labels string) *namespaceSet {
	if set := n.sets[labels]; set != nil {
		return set
	}
	set := newNamespaceSet(n.changed)
	n.sets[labels] = set
	reader := watchlist.NewReader(watchlist.Options{
		Scope:    scope.New(namespacesResource, "", labels, ""),
		API:      scope.API{Version: "v1", Kind: "Namespace"},
		Plan:     redact.NewPlan("", namespacesResource.Resource),
		Opener:   watchlist.MetadataOpener{Opener: c.Server},
		Emitter:  set,
		Served:   func(context.Context) (bool, error) { return true, nil }, // there is no cluster without
		Now:      time.Now,
		Optional: true, // asked again rarely without the right
		Rank:     watchlist.RankNamed,
		Observer: namespacesObserver{namespaceSet: set},
		Logger:   zap.NewNop(), // the catalog reports it
	})
	c.readers.Go(func() {
		defer set.stop()
		reader.Run(ctx)
	})
	return set
}

// current returns the members, and whether all of them are known. err is why they cannot be watched at the moment.
func (s *namespaceSet) current() (members watchlist.SelectedNamespaces, listed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.members), s.listed, s.err
}

// Offer implements watchlist.Emitter.
func (s *namespaceSet) Offer(c watchlist.Change) bool {
	if !c.IsRecord() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.Clone(c.Object.Name)
	switch c.Type {
	case watchlist.Snapshot, watchlist.Added, watchlist.Modified:
		if leaves := s.deleted[name]; leaves != nil {
			leaves.Stop()
			delete(s.deleted, name)
		}
		if _, ok := s.members[name]; ok {
			return true
		}
		s.members[name] = strings.Clone(c.Object.ResourceVersion)
	case watchlist.Deleted:
		if !c.Object.Times.Deleted.IsZero() { // else its labels no longer match
			s.leaveLater(name)
			return true
		}
		delete(s.members, name)
	case watchlist.SnapshotEnd:
		s.listed = true
	default:
		return true
	}
	if s.listed {
		s.notice()
	}
	return true
}

// leaveLater is called with the lock held.
func (s *namespaceSet) leaveLater(name string) {
	if s.deleted[name] != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(leaveAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.deleted[name] != timer {
			return
		}
		delete(s.deleted, name)
		delete(s.members, name)
		s.notice()
	})
	s.deleted[name] = timer
}

func (s *namespaceSet) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, timer := range s.deleted {
		timer.Stop()
		delete(s.deleted, name)
	}
}

func (s *namespaceSet) notice() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// WaitForRoom implements watchlist.Emitter.
func (s *namespaceSet) WaitForRoom(ctx context.Context) error { return ctx.Err() }

// namespacesObserver notes whether namespaces can be watched.
type namespacesObserver struct {
	watchlist.NopObserver
	*namespaceSet
}

// StateChanged implements watchlist.Observer.
func (o namespacesObserver) StateChanged(s watchlist.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = nil
	if s.Condition.IsFault() {
		o.err = s.Err
	}
	o.notice()
}

// followNamespaces passes the selected namespaces to the readers that select them by labels, and reports what keeps them from
// being known.
func (c *Catalog) followNamespaces(ctx context.Context) {
	for _, key := range c.order {
		labels := key.Namespaces().Labels
		if labels == "" {
			continue
		}
		members, listed, err := c.namespaces.of(ctx, c, labels).current()
		if r := c.running[key]; r != nil && listed {
			r.reader.Select(members)
		}
		c.reportNamespaces(c.wanted[key].spec, listed, err)
	}
}

// reportNamespaces reports why the namespaces of a spec cannot be watched, and what would be right.
func (c *Catalog) reportNamespaces(spec Spec, listed bool, err error) {
	if err != nil {
		consequence := "the resource is not read"
		if listed {
			consequence = "namespaces that have changed since are not noticed"
		}
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%s.namespace_label_selector: %s: grant list and watch on namespaces (API group \"\") in all namespaces by a ClusterRole: %w",
				spec.key(), consequence, err)
		} else {
			err = fmt.Errorf("%s.namespace_label_selector: %s: %w", spec.key(), consequence, err)
		}
	}
	c.report(spec.key()+" namespaces", "cannot watch which namespaces are selected, will try again", err)
}
