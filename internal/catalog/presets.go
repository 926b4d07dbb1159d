package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// Spec is one configured resource, after presets are expanded. Whether the server serves it, and in which version, is
// found out at runtime.
type Spec struct {
	// GroupResource is the plural name and the API group, "" for the core group. The group is valid only if GroupKnown
	// is set.
	schema.GroupResource
	// GroupKnown is false for a bare plural ("pods"), which leaves the group to discovery.
	GroupKnown bool

	// Pattern selects resources instead of naming one; nil for a name. While a resource that it selects is read,
	// GroupResource names that resource.
	Pattern *Pattern

	Version string // "" takes the version that the server prefers

	Namespaces        []string // names and patterns, sorted; none reads all namespaces
	ExcludeNamespaces []string // names and patterns, sorted
	NamespaceLabels   string   // a label selector of namespaces; "" is any
	LabelSelector     string
	FieldSelector     string
	Shard             shard.Shard // whose objects are read

	// Key names the place in the configuration, for messages: "resources[2]", or "resources[2] (rbac)" for a preset.
	Key string
}

// Name returns the resource as the configuration names it, or the pattern.
func (s Spec) Name() string {
	if s.Pattern != nil && s.Resource == "" {
		return s.Pattern.String()
	}
	return s.GroupResource.String()
}

// inNamespaces reports whether only namespaced resources can be meant, since only some namespaces are included.
func (s Spec) inNamespaces() bool { return len(s.Namespaces) > 0 || s.NamespaceLabels != "" }

// among returns the namespaces that are selected of all.
func (s Spec) among() scope.Namespaces {
	return scope.Namespaces{Include: s.Namespaces, Exclude: s.ExcludeNamespaces, Labels: scope.CanonicalLabels(s.NamespaceLabels)}
}

// EachNamespace returns the names of the namespaces that are read one by one, in a stream each; none if all of them are
// read in one stream, even if only some are selected.
func (s Spec) EachNamespace() []string {
	if len(s.ExcludeNamespaces) > 0 || s.NamespaceLabels != "" || slices.ContainsFunc(s.Namespaces, glob.Has) {
		return nil
	}
	return s.Namespaces
}

// scopes returns what is read of a resource.
func (s Spec) scopes(resource schema.GroupResource, namespaced bool) []scope.Scope {
	all := scope.New(resource, "", s.LabelSelector, s.FieldSelector).Of(s.Shard)
	each := s.EachNamespace()
	switch {
	case !namespaced:
		return []scope.Scope{all}
	case len(each) == 0:
		return []scope.Scope{all.In(s.among())}
	}
	scopes := make([]scope.Scope, len(each))
	for i, namespace := range each {
		scopes[i] = all
		scopes[i].Namespace = namespace
	}
	return scopes
}

// key returns the place in the configuration without the preset's name.
func (s Spec) key() string {
	key, _, _ := strings.Cut(s.Key, " ")
	return key
}

// withoutDiscovery returns the resource and its API if both are certain without discovery.
func (s Spec) withoutDiscovery() (schema.GroupResource, scope.API, bool) {
	b, ok := BuiltinNamed(s.Resource, s.Group, s.GroupKnown)
	switch {
	case s.Pattern != nil:
	case ok:
		version := cmp.Or(s.Version, b.bestVersion())
		return b.resource(), scope.API{Version: version, Kind: b.kind, Namespaced: !b.clusterScoped}, true
	case s.GroupKnown && s.Version != "":
		// Objects carry their kind. Whether they are namespaced matters only to requests for one namespace.
		return s.GroupResource, scope.API{Version: s.Version, Namespaced: s.inNamespaces() || len(s.ExcludeNamespaces) > 0}, true
	}
	return schema.GroupResource{}, scope.API{}, false
}

const rbacGroup = "rbac.authorization.k8s.io"

// presets maps names to one or more resources whose group is known.
var presets = map[string][]schema.GroupResource{
	"nodes":             {{Resource: "nodes"}},
	"pods":              {{Resource: "pods"}},
	"namespaces":        {{Resource: "namespaces"}},
	"persistentvolumes": {{Resource: "persistentvolumes"}},
	"services":          {{Resource: "services"}},
	"deployments":       {{Group: "apps", Resource: "deployments"}},
	"ingresses":         {{Group: "networking.k8s.io", Resource: "ingresses"}},
	"endpoints":         {{Resource: "endpoints"}, {Group: "discovery.k8s.io", Resource: "endpointslices"}},
	"rbac": {
		{Group: rbacGroup, Resource: "roles"}, {Group: rbacGroup, Resource: "rolebindings"},
		{Group: rbacGroup, Resource: "clusterroles"}, {Group: rbacGroup, Resource: "clusterrolebindings"},
	},
}

// PresetNames returns the names of all presets.
func PresetNames() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the resources of a preset, or nil if there is none of that name.
func Preset(name string) []schema.GroupResource { return presets[name] }

// Expand returns the specs of the entry at index of the configuration's list of resources. The entry's name is a
// preset, a plural name, a plural name and an API group, or a pattern; s holds the rest of the entry.
func Expand(index int, name string, s Spec) []Spec {
	s.Namespaces = slices.Compact(slices.Sorted(slices.Values(s.Namespaces)))
	s.ExcludeNamespaces = slices.Compact(slices.Sorted(slices.Values(s.ExcludeNamespaces)))
	s.Key = fmt.Sprintf("resources[%d]", index)
	preset := presets[name]
	switch {
	case s.Pattern != nil:
		return []Spec{s}
	case preset == nil:
		s.Resource, s.Group, s.GroupKnown = strings.Cut(name, ".")
		// The bare name of a built-in resource always means that resource, whatever else is installed under the name.
		if b, ok := BuiltinNamed(s.Resource, "", false); ok && !s.GroupKnown {
			s.Group, s.GroupKnown = b.group, true
		}
		return []Spec{s}
	}
	if name != preset[0].Resource || len(preset) > 1 {
		s.Key += fmt.Sprintf(" (%s)", name)
	}
	specs := make([]Spec, 0, len(preset))
	for _, resource := range preset {
		s.GroupResource, s.GroupKnown = resource, true
		specs = append(specs, s)
	}
	return specs
}
