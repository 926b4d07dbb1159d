// Package catalog finds out which of the resources that the configuration asks for the server serves, and
// runs a reader for each of them.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Server is what the catalog asks the API server.
type Server interface {
	// Discover asks what is served now.
	Discover(ctx context.Context) (*kubeclient.Served, error)
	// ServedByAggregation says whether another server stands behind the group version.
	ServedByAggregation(ctx context.Context, group, version string) (bool, error)
}

// Options say what a catalog runs.
type Options struct {
	Specs  []Spec
	Server Server
	// NewReader makes the reader of a resource.
	NewReader func(r watchlist.Resource, listOnly bool, served func(context.Context) (bool, error)) *watchlist.Reader
	// Report is told of each change in how the resource that key names fares: nil is well.
	Report func(key string, err error)
	Logger *zap.Logger
}

// Catalog runs the readers of the resources that are configured.
type Catalog struct {
	Options
	readers sync.WaitGroup
	// failing holds what was said last of what cannot be started yet, so that it is said once.
	failing map[string]string
}

// New returns a catalog that has started nothing.
func New(o Options) *Catalog {
	return &Catalog{Options: o, failing: make(map[string]string)}
}

const (
	// discoveryInterval is how often a resource that is not served is looked for.
	discoveryInterval = 15 * time.Second
	discoveryKey      = "discovery"
)

// Run finds the resources and runs their readers until ctx ends, and returns when all of them have.
func (c *Catalog) Run(ctx context.Context) {
	defer c.readers.Wait()
	waiting := slices.Clone(c.Specs)
	retry := watchlist.NewBackoff(800*time.Millisecond, 30*time.Second)
	for {
		directory, err := c.Server.Discover(ctx)
		if ctx.Err() != nil {
			return
		}
		c.report(discoveryKey, "cannot discover what the API server serves, will try again", err)
		pause := retry.NextBackOff()
		if err == nil {
			waiting = c.startServed(ctx, directory, waiting)
			if len(waiting) == 0 {
				return
			}
			retry.Reset()
			pause = discoveryInterval
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// startServed starts a reader for each spec that can be met and returns the others.
func (c *Catalog) startServed(ctx context.Context, directory *kubeclient.Served, specs []Spec) (waiting []Spec) {
	for _, spec := range specs {
		served, err := find(directory, spec)
		listOnly := false
		if err == nil {
			listOnly, err = c.servedElsewhere(ctx, served)
		}
		c.report(spec.Key+" "+spec.name(), "cannot start to read resource, will look for it", err)
		if err != nil {
			waiting = append(waiting, spec)
			continue
		}
		c.start(ctx, spec, served, listOnly)
	}
	return waiting
}

// find returns the resource that the spec means, in the version that the server prefers of those that can
// be read.
func find(directory *kubeclient.Served, spec Spec) (kubeclient.Resource, error) {
	versions, err := directory.Lookup(spec.Group, spec.GroupKnown, spec.Plural, spec.Version)
	if err != nil {
		return kubeclient.Resource{}, err
	}
	for _, r := range versions {
		switch {
		case !r.Can("watch") && !r.Can("list"):
		case len(spec.Namespaces) > 0 && !r.Namespaced:
			return r, fmt.Errorf("%s is not namespaced: remove %s.namespaces", r.Plural, spec.key())
		default:
			return r, nil
		}
	}
	return kubeclient.Resource{}, fmt.Errorf("%s can be neither watched nor listed", spec.name())
}

// servedElsewhere says that another server stands behind the resource. Many of these take the parameters
// of WatchList and never send its end marker. https://github.com/antrea-io/antrea/issues/8123
func (c *Catalog) servedElsewhere(ctx context.Context, s kubeclient.Resource) (bool, error) {
	if isBuiltin(s.Group) {
		return false, nil
	}
	return c.Server.ServedByAggregation(ctx, s.Group, s.Version)
}

// isBuiltin says that kube-apiserver serves the group itself: those without a dot, and those of the
// project that are not add-ons.
func isBuiltin(group string) bool {
	return !strings.Contains(group, ".") ||
		strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, "metrics.k8s.io")
}

func (c *Catalog) start(ctx context.Context, spec Spec, s kubeclient.Resource, listOnly bool) {
	namespaces := spec.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		reader := c.NewReader(watchlist.Resource{
			Group: s.Group, Version: s.Version, Plural: s.Plural, Kind: s.Kind, Namespaced: s.Namespaced,
			Namespace: namespace, LabelSelector: spec.LabelSelector, FieldSelector: spec.FieldSelector,
		}, listOnly, c.stillServed(spec, s))
		c.readers.Go(func() { reader.Run(ctx) })
	}
}

// stillServed lets a reader ask, when it is told 404, whether its resource is still served. One that is no
// longer served in the reader's version, but in another, still has its objects: that is an error, which a
// person has to mend, and no deletion.
func (c *Catalog) stillServed(spec Spec, s kubeclient.Resource) func(context.Context) (bool, error) {
	spec.Group, spec.GroupKnown, spec.Version = s.Group, true, s.Version
	return func(ctx context.Context) (bool, error) {
		directory, err := c.Server.Discover(ctx)
		if err != nil {
			return false, err
		}
		if _, err := directory.Lookup(s.Group, true, s.Plural, ""); errors.Is(err, kubeclient.ErrNotServed) {
			return false, nil
		}
		if _, err := find(directory, spec); err != nil {
			return false, fmt.Errorf("%w: remove %s.version or set it to one that is served, and restart the collector", err, spec.key())
		}
		return true, nil
	}
}

// report tells of what fails, and of its end, once.
func (c *Catalog) report(key, message string, err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if c.failing[key] == said {
		return
	}
	c.failing[key] = said
	if err != nil {
		c.Logger.Warn(message, zap.String("key", key), zap.Error(err))
	}
	c.Report(key, err)
}
