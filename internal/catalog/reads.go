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

// Reads reports whether the specs include a scope for certain. Whether a custom resource is namespaced, so that namespaces
// can be excluded, is known only to discovery; then a scope of all namespaces does not count.
func Reads(specs []Spec, of scope.Scope) bool {
	i := Reading(specs, of)
	if i < 0 {
		return false
	}
	if specs[i].readsOneByOne(of) {
		return false // only as long as rights are missing
	}
	_, isBuiltin := BuiltinNamed(of.Resource, of.Group, true)
	return isBuiltin || of.Namespace+of.Among != "" || len(specs[i].ExcludeNamespaces) == 0
}

// reads reports whether the spec may include the scope.
func (s Spec) reads(of scope.Scope) bool {
	if !s.claims(of.GroupResource) {
		return false
	}
	b, isBuiltin := BuiltinNamed(of.Resource, of.Group, true)
	for _, namespaced := range []bool{true, false} {
		possible := !isBuiltin || namespaced != b.clusterScoped
		if !namespaced {
			possible = possible && !s.inNamespaces()
		}
		if possible && slices.Contains(s.scopes(of.GroupResource, namespaced), of) {
			return true
		}
	}
	return s.readsOneByOne(of)
}

// readsOneByOne reports whether the scope is that of one of the namespaces that are selected of all, which are read one by one
// if the right to read all is missing.
func (s Spec) readsOneByOne(of scope.Scope) bool {
	all := of
	all.Namespace = ""
	return of.Namespace != "" && len(s.EachNamespace()) == 0 && s.among().String() != "" && s.among().Match(of.Namespace) &&
		all == scope.New(of.GroupResource, "", s.LabelSelector, s.FieldSelector).Of(s.Shard)
}
