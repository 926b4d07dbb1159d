package catalog

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Pattern selects resources by name; * matches any text. It is matched with the plural name and the API group separately.
// Create it with [ParsePattern].
type Pattern struct {
	text     string
	plural   string
	group    string
	anyGroup bool

	exclude []Pattern
	// includeAggregated allows resources that other API servers serve. They are often views of objects that are read
	// elsewhere, or cannot be streamed.
	includeAggregated bool
}

// ParsePattern returns the pattern that a name in the configuration means: without a dot it matches in every API group,
// with a dot only in groups that have a name. A name without * matches only itself; the bare name of a built-in
// resource always means that resource.
func ParsePattern(name string) Pattern {
	plural, group, hasGroup := strings.Cut(name, ".")
	p := Pattern{text: name, plural: plural, group: group, anyGroup: !hasGroup}
	if b, ok := BuiltinNamed(plural, "", false); ok && !hasGroup {
		p.group, p.anyGroup = b.group, false
	}
	return p
}

// Excluding returns the pattern without the resources that the names, presets and patterns match, and with or without
// those that other API servers serve.
func (p Pattern) Excluding(names []string, includeAggregated bool) *Pattern {
	p.includeAggregated = includeAggregated
	for _, name := range names {
		for _, resource := range presets[name] {
			p.exclude = append(p.exclude, Pattern{text: name, plural: resource.Resource, group: resource.Group})
		}
		if presets[name] == nil {
			p.exclude = append(p.exclude, ParsePattern(name))
		}
	}
	return &p
}

func (p *Pattern) String() string { return p.text }

// matches reports whether the pattern, without its exclusions, matches a resource.
func (p *Pattern) matches(r schema.GroupResource) bool {
	switch {
	case !glob.Match(p.plural, r.Resource):
		return false
	case p.anyGroup:
		return true
	case glob.Has(p.group):
		return r.Group != "" && glob.Match(p.group, r.Group)
	}
	return p.group == r.Group
}

// selects reports whether the pattern may select a resource of this name.
func (p *Pattern) selects(r schema.GroupResource) bool {
	return p.matches(r) && !neverByPattern(r) && !slices.ContainsFunc(p.exclude, func(e Pattern) bool { return e.matches(r) })
}

// literal returns how many characters of the pattern are not *.
func (p *Pattern) literal() int { return len(p.text) - strings.Count(p.text, "*") }

// neverByPattern reports whether a resource is read only if its name is configured: Secrets, because of their content;
// Leases and Events, because there are very many changes; and extensions, whose objects other groups serve too.
func neverByPattern(r schema.GroupResource) bool {
	switch r {
	case schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return true
	}
	return scope.IsEvents(r) || r.Group == "extensions"
}

// ByPrecedence returns the specs in the order in which they claim a resource: names first, then patterns, those with
// more literal characters first. A resource is read only as the first of them requires.
func ByPrecedence(specs []Spec) []Spec {
	return slices.SortedStableFunc(slices.Values(specs), func(a, b Spec) int {
		switch {
		case a.Pattern == nil && b.Pattern == nil:
			return 0
		case a.Pattern == nil:
			return -1
		case b.Pattern == nil:
			return 1
		}
		return cmp.Compare(b.Pattern.literal(), a.Pattern.literal())
	})
}

// claims reports whether the spec names the resource, or its pattern selects it. A bare name that is not built in may
// be in any group.
func (s Spec) claims(r schema.GroupResource) bool {
	if s.Pattern != nil {
		return s.Pattern.selects(r)
	}
	return s.Resource == r.Resource && (!s.GroupKnown || s.Group == r.Group)
}
