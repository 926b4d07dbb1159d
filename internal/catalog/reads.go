package catalog

import (
	"slices"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Reads reports whether the spec may include the scope. Without discovery, a bare plural may be in any group.
func (s Spec) Reads(of scope.Scope) bool {
	if s.Resource != of.Resource || s.GroupKnown && s.Group != of.Group {
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
