package catalog

import (
	"fmt"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Overlaps finds entries that would read the same objects, each of which would then be emitted twice. Different
// selectors count as disjoint, because only the objects show whether they are.
func Overlaps(specs []Spec) []error {
	var errs []error
	for i, b := range specs {
		for _, a := range specs[:i] {
			why := overlap(a, b)
			if why == "" || b.Pattern == nil && (!a.among().Overlap(b.among()) || !selectorsOverlap(a, b)) {
				continue
			}
			errs = append(errs, fmt.Errorf("%s: %s %s", b.Key, why, remedy(a, b)))
			break
		}
	}
	return errs
}

// overlap describes why two specs name the same resource, or returns "". Versions do not matter: every version of a
// group serves the same objects. A pattern does not select what a name or a more specific pattern claims.
func overlap(a, b Spec) string {
	switch {
	case a.Pattern != nil && b.Pattern != nil && a.Name() == b.Name():
		return fmt.Sprintf("the pattern %s is already in %s", b.Name(), a.Key)
	case a.Pattern != nil || b.Pattern != nil:
		return ""
	case a.Name() == b.Name():
		return fmt.Sprintf("%s is already read by %s", b.Name(), a.Key)
	case scope.IsEvents(a.GroupResource) && scope.IsEvents(b.GroupResource):
		return fmt.Sprintf("%s and the %s of %s are the same objects", b.Name(), a.Name(), a.Key)
	case a.Resource == b.Resource && sameIfUnknown(a, b):
		return fmt.Sprintf("%s may be the %s of %s", b.Name(), a.Name(), a.Key)
	default:
		return ""
	}
}

// sameIfUnknown reports whether a bare plural name may turn out to be in the other's group. The names of built-in
// resources are no longer bare.
func sameIfUnknown(a, b Spec) bool { return !a.GroupKnown || !b.GroupKnown }

func selectorsOverlap(a, b Spec) bool {
	same := func(x, y string) bool { return x == y || x == "" || y == "" }
	return same(a.among().Labels, b.among().Labels) && same(scope.CanonicalLabels(a.LabelSelector), scope.CanonicalLabels(b.LabelSelector)) &&
		same(scope.CanonicalFields(a.FieldSelector), scope.CanonicalFields(b.FieldSelector))
}

func remedy(a, b Spec) string {
	switch {
	case a.Pattern != nil:
		return "(each resource is read as one pattern requires: put everything into one entry)"
	case a.Name() != b.Name() && a.Resource == "events":
		return "(keep one of them)"
	case a.Name() != b.Name():
		return fmt.Sprintf("(write its group too: %s.<group>)", b.Resource)
	default:
		return "(put the namespaces and selectors into one entry, or make them disjoint)"
	}
}
