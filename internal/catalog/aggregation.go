package catalog

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// aggregation is what is known of the versions of API groups that the API server forwards to other servers.
type aggregation struct {
	server    Server
	known     map[schema.GroupVersion]bool
	invisible bool // APIServices cannot be listed
}

// refresh makes the next questions about unknown versions ask the server again.
func (a *aggregation) refresh() { a.invisible = false }

// has reports whether another server is known to serve a version of a group. If that is not visible it is false. Only an
// error that may pass leaves it open.
func (a *aggregation) has(ctx context.Context, version schema.GroupVersion) (bool, error) {
	if isBuiltinGroup(version.Group) {
		return false, nil
	}
	if elsewhere, ok := a.known[version]; ok {
		return elsewhere, nil
	}
	if !a.invisible {
		all, err := a.server.Aggregated(ctx)
		if err != nil {
			return false, err
		}
		if a.invisible = all == nil; !a.invisible {
			a.known = all
		}
		if elsewhere, ok := all[version]; ok {
			return elsewhere, nil
		}
	}
	elsewhere, err := a.server.ServedByAggregation(ctx, version.Group, version.Version)
	if err != nil {
		return false, err
	}
	if a.known == nil {
		a.known = make(map[schema.GroupVersion]bool)
	}
	a.known[version] = elsewhere
	return elsewhere, nil
}

// forget is called when a resource of a version is gone: what comes in its place may be served elsewhere.
func (a *aggregation) forget(version schema.GroupVersion) { delete(a.known, version) }
