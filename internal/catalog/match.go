package catalog

import (
	"context"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

var (
	endpoints      = schema.GroupResource{Resource: "endpoints"}
	endpointSlices = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
)

// matched is a served resource that a pattern selects.
type matched struct {
	spec Spec // of the pattern, with the resource's name
	api  scope.API
}

// resolvePatterns updates the scopes that patterns require, and reports whether it has to be tried again soon. What
// cannot be discovered at the moment neither appears nor disappears.
func (c *Catalog) resolvePatterns(ctx context.Context, served *kubeclient.Served) (again bool) {
	var found []matched
	reads := make(map[schema.GroupResource]bool)
	for key := range c.wanted {
		reads[key.GroupResource] = true
	}
	for versions := range served.All() {
		resource := schema.GroupResource{Group: versions[0].Group, Resource: versions[0].Plural}
		spec, ok := claimant(c.claims, resource)
		if !ok || spec.Pattern == nil {
			continue
		}
		read, ok := bestVersion(versions)
		version := schema.GroupVersion{Group: read.Group, Version: read.Version}
		switch {
		case !ok, spec.inNamespaces() && !read.Namespaced:
			continue
		case reads[resource]: // its API may have changed
		case served.Failed[version] != nil:
			continue
		case !spec.Pattern.includeAggregated:
			elsewhere, err := c.aggregation.has(ctx, version)
			again = again || err != nil
			if err != nil || elsewhere || isMetrics(read.Group) {
				continue
			}
		}
		spec.GroupResource, spec.GroupKnown = resource, true
		found = append(found, matched{spec, apiOf(read)})
		if resource != endpoints {
			reads[resource] = true
		}
	}
	c.wantMatched(ctx, found, reads[endpointSlices])
	return again
}

// wantMatched adds what patterns select to the wanted scopes. Endpoints hold the same as EndpointSlices.
func (c *Catalog) wantMatched(ctx context.Context, found []matched, slicesAreRead bool) {
	news := make(map[string][]string) // by pattern
	for _, m := range found {
		known := c.wants(m.spec.GroupResource)
		if m.spec.GroupResource == endpoints && slicesAreRead && !known {
			continue
		}
		if !known {
			pattern := m.spec.Pattern.String()
			news[pattern] = append(news[pattern], m.spec.Name())
		}
		c.want(m.spec, m.spec.GroupResource, m.api, func() bool {
			return c.servedElsewhere(ctx, m.spec.Group, m.api.Version)
		})
	}
	const most = 10
	for pattern, names := range news {
		c.Logger.Info("reading resources that match a pattern", zap.String("pattern", pattern),
			zap.Int("number", len(names)), zap.Strings("resources", names[:min(most, len(names))]))
	}
}

// claimant returns the first spec that claims a resource.
func claimant(byPrecedence []Spec, resource schema.GroupResource) (Spec, bool) {
	for _, spec := range byPrecedence {
		if spec.claims(resource) {
			return spec, true
		}
	}
	return Spec{}, false
}

// bestVersion returns the server's most preferred version of a resource that can be both listed and watched.
func bestVersion(versions []kubeclient.Resource) (kubeclient.Resource, bool) {
	for _, r := range versions {
		if r.Can("list") && r.Can("watch") {
			return r, true
		}
	}
	return kubeclient.Resource{}, false
}

// rank returns how soon a resource is read among others.
func rank(spec Spec) watchlist.Rank {
	switch b, ok := BuiltinNamed(spec.Resource, spec.Group, spec.GroupKnown); {
	case spec.Pattern == nil:
		return watchlist.RankNamed
	case ok && b.large:
		return watchlist.RankLarge
	}
	return watchlist.RankMatched
}
