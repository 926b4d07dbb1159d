package catalog

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// definitions watches the definitions of resources, so that discovery is asked as soon as one has changed. Of a CRD,
// whose schema may be a megabyte, only the metadata are requested: its name is that of the resource.
type definitions struct {
	changed chan struct{}                 // a definition may have changed
	started map[schema.GroupResource]bool // used by the catalog only

	mu       sync.Mutex
	states   map[schema.GroupResource]watchlist.Condition
	defined  map[schema.GroupResource]string // UIDs of the CRDs seen so far
	removed  map[schema.GroupResource]bool   // resources whose CRD was deleted
	removals map[schema.GroupResource]int    // how often that happened
	reported bool                            // that they cannot be watched
}

func newDefinitions() *definitions {
	return &definitions{
		changed:  make(chan struct{}, 1),
		started:  make(map[schema.GroupResource]bool),
		states:   make(map[schema.GroupResource]watchlist.Condition),
		defined:  make(map[schema.GroupResource]string),
		removed:  make(map[schema.GroupResource]bool),
		removals: make(map[schema.GroupResource]int),
	}
}

// DefinitionResources are the resources that decide which resources are served: CRDs, and APIServices.
var DefinitionResources = []schema.GroupResource{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
}

// watch begins to watch the definitions that the server serves, until ctx ends.
func (d *definitions) watch(ctx context.Context, c *Catalog, served *kubeclient.Served) {
	for _, resource := range DefinitionResources {
		if d.started[resource] || !served.Has(resource) {
			continue
		}
		d.started[resource] = true
		reader := c.definitionsReader(resource)
		c.readers.Go(func() { reader.Run(ctx) })
	}
}

func (c *Catalog) definitionsReader(resource schema.GroupResource) *watchlist.Reader {
	b, _ := BuiltinNamed(resource.Resource, resource.Group, true)
	return watchlist.NewReader(watchlist.Options{
		Scope:   scope.New(resource, "", "", ""),
		API:     scope.API{Version: b.bestVersion(), Kind: b.kind},
		Plan:    redact.NewPlan(resource.Group, resource.Resource),
		Opener:  watchlist.MetadataOpener{Opener: c.Server},
		Emitter: definitionsSink{c.definitions, resource},
		Served: func(ctx context.Context) (bool, error) {
			served, err := c.directory.ask(ctx, shareDiscovery)
			if err != nil {
				return false, err
			}
			return served.Has(resource), nil
		},
		Now:         time.Now,
		SkipInitial: true,
		Optional:    true,
		Observer:    definitionsObserver{definitions: c.definitions, resource: resource, logger: c.Logger},
		Logger:      zap.NewNop(), // discovery is asked at intervals as well
	})
}

// watching reports whether every change of a definition will be noticed.
func (d *definitions) watching() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for resource := range d.started {
		if state := d.states[resource]; state != watchlist.Reading && state != watchlist.NotServed {
			return false
		}
	}
	return len(d.started) > 0
}

// isRemoved reports whether the CRD of a resource was deleted, and with it all its objects.
func (d *definitions) isRemoved(resource schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.removed[resource]
}

// removalsOf returns how often the CRD of a resource was deleted. If it increases, the resource is another one, even if
// it has been defined again.
func (d *definitions) removalsOf(resource schema.GroupResource) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.removals[resource]
}

// note notes a change of a CRD. One that was deleted and created again while no stream was open is seen in either order.
func (d *definitions) note(resource schema.GroupResource, uid string, deleted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !deleted {
		d.defined[resource] = uid
		delete(d.removed, resource)
		return
	}
	d.removals[resource]++
	if known, ok := d.defined[resource]; !ok || known == uid {
		delete(d.defined, resource)
		d.removed[resource] = true
	}
}

func (d *definitions) notice() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// definitionsSink receives the changes of one kind of definitions.
type definitionsSink struct {
	*definitions
	of schema.GroupResource
}

// Offer implements watchlist.Emitter.
func (s definitionsSink) Offer(c watchlist.Change) bool {
	if !c.IsRecord() {
		return true
	}
	if plural, group, ok := strings.Cut(c.Object.Name, "."); ok && s.of == DefinitionResources[0] {
		resource := schema.GroupResource{Group: strings.Clone(group), Resource: strings.Clone(plural)}
		s.note(resource, strings.Clone(c.Object.UID), c.Type == watchlist.Deleted)
	}
	s.notice()
	return true
}

// WaitForRoom implements watchlist.Emitter.
func (s definitionsSink) WaitForRoom(ctx context.Context) error { return ctx.Err() }

// definitionsObserver notes whether definitions can be watched.
type definitionsObserver struct {
	watchlist.NopObserver
	*definitions
	resource schema.GroupResource
	logger   *zap.Logger
}

// StateChanged implements watchlist.Observer.
func (o definitionsObserver) StateChanged(s watchlist.State) {
	o.mu.Lock()
	report := s.Condition == watchlist.Forbidden && !o.reported
	o.reported = o.reported || report
	o.states[o.resource] = s.Condition
	o.mu.Unlock()
	if report {
		o.logger.Info("new resources are noticed within half a minute: grant list and watch on "+
			DefinitionResources[0].String()+" and "+DefinitionResources[1].String()+" to notice them at once", zap.Error(s.Err))
	}
	if s.Condition == watchlist.Reading {
		o.notice() // something may have changed before
	}
}

var _ Server = (*kubeclient.Client)(nil)
