package k8swatchlistreceiver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
)

const rbacGroup = "rbac.authorization.k8s.io"

// groupResource is a plural name and its API group, "" for the core group.
type groupResource struct {
	plural, group string
}

// presets are names that stand for one or more resources whose group is known.
var presets = map[string][]groupResource{
	"nodes":             {{"nodes", ""}},
	"pods":              {{"pods", ""}},
	"namespaces":        {{"namespaces", ""}},
	"persistentvolumes": {{"persistentvolumes", ""}},
	"services":          {{"services", ""}},
	"deployments":       {{"deployments", "apps"}},
	"ingresses":         {{"ingresses", "networking.k8s.io"}},
	"endpoints":         {{"endpoints", ""}, {"endpointslices", "discovery.k8s.io"}},
	"rbac": {
		{"roles", rbacGroup}, {"rolebindings", rbacGroup},
		{"clusterroles", rbacGroup}, {"clusterrolebindings", rbacGroup},
	},
}

// presetNames lists the presets for messages.
func presetNames() string {
	return strings.Join(slices.Sorted(maps.Keys(presets)), ", ")
}

// specs are the resources that the configuration asks for, presets expanded, in the order of the
// configuration.
func (c *Config) specs() []catalog.Spec {
	var specs []catalog.Spec
	for i := range c.Resources {
		specs = append(specs, c.Resources[i].specs(i)...)
	}
	return specs
}

// specs expands the entry that stands at index in the list of resources.
func (r *ResourceConfig) specs(index int) []catalog.Spec {
	namespaces := slices.Sorted(slices.Values(r.Namespaces))
	spec := catalog.Spec{
		Version:       r.Version,
		Namespaces:    slices.Compact(namespaces),
		LabelSelector: r.LabelSelector,
		FieldSelector: r.FieldSelector,
		Key:           fmt.Sprintf("resources[%d]", index),
	}
	preset, ok := presets[r.Name]
	if !ok {
		spec.Plural, spec.Group, spec.GroupKnown = strings.Cut(r.Name, ".")
		// The bare name of a built-in resource stays that, whatever else is installed under it.
		if b, ok := builtinNamed(spec.Plural, "", false); ok && !spec.GroupKnown {
			spec.Group, spec.GroupKnown = b.group, true
		}
		return []catalog.Spec{spec}
	}
	if r.Name != preset[0].plural || len(preset) > 1 {
		spec.Key += fmt.Sprintf(" (%s)", r.Name)
	}
	specs := make([]catalog.Spec, 0, len(preset))
	for _, gr := range preset {
		spec.Plural, spec.Group, spec.GroupKnown = gr.plural, gr.group, true
		specs = append(specs, spec)
	}
	return specs
}
