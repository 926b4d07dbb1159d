package catalog

import (
	"slices"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Reading returns the index of the spec that includes a scope, or -1. A pattern does not include what a name claims.
// Without discovery, a bare plural may be in any group.
func Reading(specs []Spec, of scope.Scope) int {
	first := -1 // of the patterns
	for i, s := range specs {
		switch {
		case !s.claims(of.GroupResource):
		case s.Pattern == nil:
			if named := slices.IndexFunc(specs[i:], func(s Spec) bool { return s.Pattern == nil && s.reads(of) }); named >= 0 {
				return i + named
			}
			return -1
		case first < 0 || s.Pattern.literal() > specs[first].Pattern.literal():
			first = i
		}
	}
	if first >= 0 && specs[first].reads(of) {
		return first
	}
	return -1
}

// reads reports whether the spec may include the scope.
func (s Spec) reads(of scope.Scope) bool {
	if !s.claims(of.GroupResource) {
		return false
	}
	if of != scope.New(of.GroupResource, of.Namespace, s.LabelSelector, s.FieldSelector) {
		return false
	}
	if len(s.Namespaces) == 0 {
		return of.Namespace == ""
	}
	return slices.Contains(s.Namespaces, of.Namespace)
}
