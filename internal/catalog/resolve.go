package catalog

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Resolved is a scope that is read, and the spec that requires it.
type Resolved struct {
	Scope scope.Scope
	API   scope.API
	Spec  Spec
	// ListOnly: another server is known to serve the resource, so that its initial state is listed.
	ListOnly bool
}

// Failure is an error about a single spec. It may wrap [kubeclient.ErrNotServed].
type Failure struct {
	error
	Spec Spec
}

// Unwrap returns the error alone.
func (f Failure) Unwrap() error { return f.error }

// Resolve asks the server once, and returns what a catalog would read. Failures are about single specs, such as one whose
// resource is not served, in the order of the specs.
func Resolve(ctx context.Context, specs []Spec, server Server) (resolved []Resolved, failures []Failure, err error) {
	c := New(Options{
		Specs:  specs,
		Server: server,
		Report: func(key string, err error) {
			if i := slices.IndexFunc(specs, func(s Spec) bool { return s.Key+" "+s.Name() == key }); err != nil && i >= 0 {
				failures = append(failures, Failure{err, specs[i]})
			}
		},
		Logger: zap.NewNop(),
	})
	served, err := server.Discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.resolve(ctx, served)
	for _, key := range c.order {
		w := c.wanted[key]
		resolved = append(resolved, Resolved{Scope: key, API: w.api, Spec: w.spec, ListOnly: w.listOnly})
	}
	return resolved, failures, nil
}

// FollowsDefinitions reports whether a catalog of the specs watches CRDs and APIServices.
func FollowsDefinitions(specs []Spec) bool {
	return slices.ContainsFunc(specs, func(s Spec) bool {
		_, isBuiltin := BuiltinNamed(s.Resource, s.Group, s.GroupKnown)
		return s.Pattern != nil || !isBuiltin
	})
}

// WholeGroup returns the API group of a pattern that selects everything in it ("*.cert-manager.io"), whatever the server
// serves.
func (p *Pattern) WholeGroup() (group string, ok bool) {
	ok = p.plural == "*" && !p.anyGroup && p.group != "" && len(p.exclude) == 0 && !isBuiltinGroup(p.group) && !glob.Has(p.group)
	return p.group, ok
}
