// Package catalog finds out which of the configured resources the server serves, and runs a reader for each of their
// scopes.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Server is the part of the API server that the catalog needs.
type Server interface {
	watchlist.Opener
	// Discover returns what is currently served.
	Discover(ctx context.Context) (*kubeclient.Served, error)
	// Aggregated reports for every group version whether another server serves it. It returns nil if that is not visible.
	Aggregated(ctx context.Context) (map[schema.GroupVersion]bool, error)
	// ServedByAggregation reports the same for one group version, and false if that is not visible.
	ServedByAggregation(ctx context.Context, group, version string) (bool, error)
}

// Target is a scope to read, with the API in which the server serves it.
type Target struct {
	Scope     scope.Scope
	API       scope.API
	Knowledge *watchlist.Knowledge                // shared by all targets of the resource
	Served    func(context.Context) (bool, error) // see watchlist.Options
	ByPattern bool                                // not named in the configuration
	Selected  watchlist.SelectedNamespaces        // see watchlist.Options
	Rank      watchlist.Rank
}

// Reader reads one target.
type Reader interface {
	// Run reads until ctx ends or the server no longer serves the resource.
	Run(ctx context.Context)
	// SetAPI makes the reader continue with the API in which the server now serves the resource. It may be called from
	// any goroutine.
	SetAPI(api scope.API)
	// Select sets the namespaces whose labels match, if the scope selects namespaces by their labels. It may be called from
	// any goroutine.
	Select(namespaces watchlist.SelectedNamespaces)
	// Remove makes Run emit the deletion of every object and return, because the resource is gone. It may be called from
	// any goroutine.
	Remove()
}

// Options describe what a catalog runs.
type Options struct {
	Specs     []Spec
	Server    Server
	NewReader func(Target) Reader
	// Report is called when the condition of the item that key names changes: nil means healthy.
	Report func(key string, err error)
	Logger *zap.Logger
}

// Catalog runs the readers of the configured resources.
type Catalog struct {
	Options
	claims      []Spec // by precedence
	directory   *directory
	definitions *definitions
	namespaces  *namespaceSets
	access      map[scope.Scope]*access // of scopes of selected namespaces
	splits      map[scope.Scope]*split
	ended       chan struct{} // a reader has ended by itself

	// Used only by the goroutine that calls Run.
	wanted      map[scope.Scope]wanted
	order       []scope.Scope // the keys of wanted, in the order of the configuration
	running     map[scope.Scope]*running
	knowledge   map[schema.GroupResource]*watchlist.Knowledge
	failing     map[string]string // last reported error of each failing key, so that it is reported once
	aggregation aggregation
	lookAgain   int // the index of the next of lookAgainAfter
	readers     sync.WaitGroup
}

// wanted is what a spec requires in one namespace, or in all.
type wanted struct {
	spec     Spec
	api      scope.API
	listOnly bool
}

// running is a running reader and its cancel function.
type running struct {
	reader   Reader
	api      scope.API
	cancel   context.CancelFunc
	done     chan struct{}
	removals int // of the resource's definition, when the reader started
}

// New returns a catalog that has not started any reader.
func New(o Options) *Catalog {
	d := newDefinitions()
	return &Catalog{
		Options:     o,
		claims:      ByPrecedence(o.Specs),
		directory:   newDirectory(o.Server, d.isRemoved),
		definitions: d,
		namespaces:  newNamespaceSets(),
		access:      make(map[scope.Scope]*access),
		splits:      make(map[scope.Scope]*split),
		ended:       make(chan struct{}, 1),
		aggregation: aggregation{server: o.Server},
		lookAgain:   len(lookAgainAfter),
		wanted:      make(map[scope.Scope]wanted),
		running:     make(map[scope.Scope]*running),
		knowledge:   make(map[schema.GroupResource]*watchlist.Knowledge),
		failing:     make(map[string]string),
	}
}

const (
	// searchInterval is how often the catalog looks for a resource that is not served.
	searchInterval = 15 * time.Second
	// refreshInterval is how often the catalog checks what is served if every change of it is noticed, or if only
	// versions of built-in resources may change.
	refreshInterval = 5 * time.Minute
	// pollInterval is the same if changes are not noticed. An answer that nothing has changed has no body.
	pollInterval = 30 * time.Second
	// fallbackAfter is how long discovery may fail, on a server that answers, before resources that do not need it are
	// read without it.
	fallbackAfter = 30 * time.Second

	// discoveryKey is the key of Options.Report for discovery itself.
	discoveryKey = "discovery"
)

// lookAgainAfter are the pauses before discovery is asked after the definition of a resource has changed. Discovery
// lags behind, and definitions often come in great numbers.
var lookAgainAfter = []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}

// Run finds the resources and runs their readers until ctx ends, and returns when all of them have.
func (c *Catalog) Run(ctx context.Context) {
	defer c.readers.Wait()
	retry := retry.NewBackoff(800*time.Millisecond, 30*time.Second)
	lastGood := time.Now()
	maxAge := time.Duration(0)
	for {
		c.removeEnded()
		served, err := c.directory.ask(ctx, maxAge)
		if ctx.Err() != nil {
			return
		}
		c.report(discoveryKey, "cannot discover what the API server serves, will try again", err)
		pause := retry.NextBackOff()
		switch {
		case err == nil:
			retry.Reset()
			lastGood = time.Now()
			if c.followsDefinitions() {
				c.definitions.watch(ctx, c, served)
			}
			pause = c.nextDiscovery(c.resolve(ctx, served))
		case apierrors.IsForbidden(err), kubeclient.Answered(err) && time.Since(lastGood) >= fallbackAfter:
			c.resolveWithoutDiscovery()
		}
		c.apply(ctx)
		if maxAge = c.pause(ctx, pause); ctx.Err() != nil {
			return
		}
	}
}

// followsDefinitions reports whether resources other than the built-in ones are configured.
func (c *Catalog) followsDefinitions() bool { return FollowsDefinitions(c.Specs) }

// nextDiscovery returns how long to wait before discovery is asked again. missing means that a configured resource is
// not served yet.
func (c *Catalog) nextDiscovery(missing bool) time.Duration {
	pause := refreshInterval
	if c.followsDefinitions() && !c.definitions.watching() {
		pause = pollInterval
	}
	if missing {
		pause = searchInterval
	}
	if c.lookAgain < len(lookAgainAfter) {
		pause = min(pause, lookAgainAfter[c.lookAgain])
	}
	return pause
}

// pause waits until the wanted scopes have to be found out again, or ctx ends, and returns how old the answer of
// discovery may be.
func (c *Catalog) pause(ctx context.Context, d time.Duration) (maxAge time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			c.lookAgain = min(c.lookAgain+1, len(lookAgainAfter))
		case <-c.ended: // perhaps one of many
			return shareDiscovery
		case <-c.namespaces.changed:
			c.apply(ctx)
			continue
		case <-c.definitions.changed:
			c.lookAgain = 1
			select {
			case <-time.After(lookAgainAfter[0]):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		return 0
	}
}

// resolve updates the wanted scopes, and reports whether the server lacks a resource of the specs, or cannot tell. A
// resource that was found stays wanted until its reader ends, because no single answer proves that it is gone.
func (c *Catalog) resolve(ctx context.Context, served *kubeclient.Served) (missing bool) {
	c.aggregation.refresh()
	for _, spec := range c.Specs {
		if spec.Pattern != nil {
			continue
		}
		found, err := find(served, spec)
		c.report(spec.Key+" "+spec.Name(), "cannot start to read resource, will look for it", err)
		if err != nil {
			missing = true
			continue
		}
		resource := schema.GroupResource{Group: found.Group, Resource: found.Plural}
		api := apiOf(found)
		c.want(spec, resource, api, func() bool { return c.servedElsewhere(ctx, resource.Group, api.Version) })
	}
	return c.resolvePatterns(ctx, served) || missing
}

// wants reports whether a resource is wanted in any scope.
func (c *Catalog) wants(resource schema.GroupResource) bool {
	return slices.ContainsFunc(c.order, func(s scope.Scope) bool { return s.GroupResource == resource })
}

// want adds the scopes of a spec to the wanted ones. listOnly is called only for new scopes.
func (c *Catalog) want(spec Spec, resource schema.GroupResource, api scope.API, listOnly func() bool) {
	for _, key := range spec.scopes(resource, api.Namespaced) {
		if s := c.splits[key]; s != nil {
			s.api = api
			continue
		}
		w, known := c.wanted[key]
		if !known {
			w = wanted{spec: spec, listOnly: listOnly()}
			c.order = append(c.order, key)
		}
		w.api = api
		c.wanted[key] = w
	}
}

// resolveWithoutDiscovery adds the resources that can be read without discovery: those that come with Kubernetes, and
// those whose group and version are configured.
func (c *Catalog) resolveWithoutDiscovery() {
	for _, spec := range c.Specs {
		resource, api, ok := spec.withoutDiscovery()
		if !ok {
			continue
		}
		if _, known := c.wanted[spec.scopes(resource, api.Namespaced)[0]]; known {
			continue
		}
		c.want(spec, resource, api, func() bool { return false })
	}
}

// apply starts and stops readers so that exactly the wanted scopes are read.
func (c *Catalog) apply(ctx context.Context) {
	for key, r := range c.running {
		if _, ok := c.wanted[key]; !ok {
			r.cancel()
			<-r.done
			delete(c.running, key)
		}
	}
	c.splitRefused(ctx)
	c.followSplits(ctx)
	c.followNamespaces(ctx)
	for _, key := range c.order {
		w := c.wanted[key]
		r, ok := c.running[key]
		switch {
		case !ok:
			c.startSelecting(ctx, key, w)
		case c.definitions.removalsOf(key.GroupResource) > r.removals:
			r.reader.Remove()
		case r.api != w.api:
			r.api = w.api
			r.reader.SetAPI(w.api)
		}
	}
}

// startSelecting starts a reader as soon as it is known which namespaces it has to read.
func (c *Catalog) startSelecting(ctx context.Context, key scope.Scope, w wanted) {
	if key.Among != "" {
		if known, refused := c.mayReadAll(ctx, key, w.api); !known || refused != nil {
			return // apply is called again with the answer
		}
	}
	labels := key.Namespaces().Labels
	if labels == "" {
		c.start(ctx, key, w, nil)
		return
	}
	if members, listed, _ := c.namespaces.of(ctx, c, labels).current(); listed {
		c.start(ctx, key, w, members)
	}
}

func (c *Catalog) start(ctx context.Context, key scope.Scope, w wanted, selected watchlist.SelectedNamespaces) {
	knowledge := c.knowledge[key.GroupResource]
	if knowledge == nil {
		knowledge = watchlist.NewKnowledge(key.GroupResource, w.listOnly)
		c.knowledge[key.GroupResource] = knowledge
	}
	r := &running{api: w.api, done: make(chan struct{}), removals: c.definitions.removalsOf(key.GroupResource)}
	r.reader = c.NewReader(Target{
		Scope: key, API: w.api, Knowledge: knowledge, ByPattern: w.spec.Pattern != nil, Rank: rank(w.spec),
		Selected: selected,
		Served:   func(ctx context.Context) (bool, error) { return c.stillServed(ctx, key, w.spec, r.reader) },
	})
	ctx, r.cancel = context.WithCancel(ctx)
	c.running[key] = r
	c.readers.Go(func() {
		defer func() {
			close(r.done)
			select {
			case c.ended <- struct{}{}:
			default:
			}
		}()
		defer r.cancel()
		r.reader.Run(ctx)
	})
}

// removeEnded forgets the readers that have ended by themselves, because the server no longer serves their resource.
func (c *Catalog) removeEnded() {
	for key, r := range c.running {
		select {
		case <-r.done:
		default:
			continue
		}
		delete(c.running, key)
		delete(c.wanted, key)
		c.order = slices.DeleteFunc(c.order, func(s scope.Scope) bool { return s == key })
		c.endSplits(key)
		if !c.wants(key.GroupResource) { // its successor is another resource, though it has the same name
			delete(c.knowledge, key.GroupResource)
			c.aggregation.forget(schema.GroupVersion{Group: key.Group, Version: r.api.Version})
		}
	}
}

// stillServed reports whether the resource of a reader is still served, after a 404. A resource that is served in
// another version keeps its objects, and is read in that version.
func (c *Catalog) stillServed(ctx context.Context, key scope.Scope, spec Spec, reader Reader) (bool, error) {
	served, err := c.directory.ask(ctx, shareDiscovery)
	if err != nil {
		return false, err
	}
	versions, err := served.Lookup(key.Group, true, key.Resource, "")
	switch {
	case errors.Is(err, kubeclient.ErrNotServed):
		return false, c.directory.proveAbsence(key.GroupResource)
	case err == nil && key.Namespace+key.Among != "" && !versions[0].Namespaced:
		return false, nil // another resource has the name now
	}
	spec.GroupResource, spec.GroupKnown = key.GroupResource, true
	found, err := find(served, spec)
	switch {
	case err == nil:
		reader.SetAPI(apiOf(found))
		return true, nil
	case spec.Version != "":
		return false, fmt.Errorf("%w: remove %s.version or set it to one that is served, and restart the collector", err, spec.key())
	}
	return false, err
}

// find returns the resource of the spec, in the server's most preferred version that can be read.
func find(served *kubeclient.Served, spec Spec) (kubeclient.Resource, error) {
	versions, err := served.Lookup(spec.Group, spec.GroupKnown, spec.Resource, spec.Version)
	if err != nil {
		return kubeclient.Resource{}, err
	}
	for _, r := range versions {
		switch {
		case !r.Can("watch") && !r.Can("list"):
		case spec.inNamespaces() && !r.Namespaced:
			option := "namespaces"
			if len(spec.Namespaces) == 0 {
				option = "namespace_label_selector"
			}
			return r, fmt.Errorf("%s is not namespaced: remove %s.%s", r.Plural, spec.key(), option)
		case spec.Pattern == nil && len(spec.ExcludeNamespaces) > 0 && !r.Namespaced:
			return r, fmt.Errorf("%s is not namespaced: remove %s.exclude_namespaces", r.Plural, spec.key())
		default:
			return r, nil
		}
	}
	return kubeclient.Resource{}, fmt.Errorf("%s can be neither watched nor listed", spec.Name())
}

func apiOf(r kubeclient.Resource) scope.API {
	return scope.API{Version: r.Version, Kind: r.Kind, Namespaced: r.Namespaced}
}

// servedElsewhere reports whether another server is known to serve the resource. Many such servers accept the
// parameters of WatchList but never send its end marker.
// https://github.com/antrea-io/antrea/issues/8123
func (c *Catalog) servedElsewhere(ctx context.Context, group, version string) bool {
	elsewhere, err := c.aggregation.has(ctx, schema.GroupVersion{Group: group, Version: version})
	return elsewhere && err == nil
}

// report reports each failure, and its end, once.
func (c *Catalog) report(key, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
		if !kubeclient.Answered(err) {
			text = "no answer" // such errors vary in their text
		}
	}
	if c.failing[key] == text {
		return
	}
	c.failing[key] = text
	if err != nil {
		c.Logger.Warn(message, zap.String("key", key), zap.Stringer("state", StateOf(err)), zap.Error(err))
	}
	c.Report(key, err)
}

// StateOf returns the state of a resource that cannot have a reader yet, for an error that Options.Report received.
func StateOf(err error) watchlist.Condition {
	switch {
	case errors.Is(err, kubeclient.ErrNotServed):
		return watchlist.NotServed
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return watchlist.Forbidden
	case errors.Is(err, kubeclient.ErrAmbiguous), kubeclient.Answered(err) && !errors.Is(err, kubeclient.ErrUnknown):
		return watchlist.Refused
	}
	return watchlist.Unreachable
}
