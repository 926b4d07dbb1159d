package k8swatchlistreceiver

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
)

// overlapErrors finds entries that would read the same objects, each of which would then be emitted twice.
// Two selectors that differ are taken for disjoint, since whether they are is up to the objects.
func overlapErrors(specs []catalog.Spec) []error {
	var errs []error
	for i, b := range specs {
		for _, a := range specs[:i] {
			why := overlap(a, b)
			if why == "" || !namespacesOverlap(a.Namespaces, b.Namespaces) || !selectorsOverlap(a, b) {
				continue
			}
			errs = append(errs, fmt.Errorf("%s: %s %s", b.Key, why, remedy(a, b)))
			break
		}
	}
	return errs
}

// overlap says why two specs name the same resource, or "". Versions do not matter: every version of a
// group serves the same objects.
func overlap(a, b catalog.Spec) string {
	switch {
	case specName(a) == specName(b):
		return fmt.Sprintf("%s is read by %s already", specName(b), a.Key)
	case a.Plural == "events" && b.Plural == "events" && servesEvents(a) && servesEvents(b):
		return fmt.Sprintf("%s and the %s of %s are the same objects", specName(b), specName(a), a.Key)
	case a.Plural == b.Plural && sameIfUnknown(a, b):
		return fmt.Sprintf("%s may be the %s of %s", specName(b), specName(a), a.Key)
	default:
		return ""
	}
}

// servesEvents tells the two groups under which the API server serves Events.
func servesEvents(s catalog.Spec) bool {
	return s.Group == "" || s.Group == "events.k8s.io"
}

// sameIfUnknown reports whether a bare plural name may turn out to be in the other's group.
func sameIfUnknown(a, b catalog.Spec) bool {
	if a.GroupKnown == b.GroupKnown {
		return !a.GroupKnown
	}
	bare, known := a, b
	if a.GroupKnown {
		bare, known = b, a
	}
	builtin, ok := builtinNamed(bare.Plural, "", false)
	return !ok || builtin.group == known.Group
}

func namespacesOverlap(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(namespace string) bool { return slices.Contains(b, namespace) })
}

func selectorsOverlap(a, b catalog.Spec) bool {
	same := func(x, y string) bool { return x == y || x == "" || y == "" }
	return same(canonicalLabels(a.LabelSelector), canonicalLabels(b.LabelSelector)) &&
		same(canonicalFields(a.FieldSelector), canonicalFields(b.FieldSelector))
}

// canonicalLabels brings a label selector into one form of many. A bad one stays as it is: it has its own
// message.
func canonicalLabels(selector string) string {
	if s, err := labels.Parse(selector); err == nil {
		return s.String()
	}
	return selector
}

func canonicalFields(selector string) string {
	if s, err := fields.ParseSelector(selector); err == nil {
		return s.String()
	}
	return selector
}

func remedy(a, b catalog.Spec) string {
	switch {
	case specName(a) != specName(b) && a.Plural == "events":
		return "(keep one of them)"
	case specName(a) != specName(b):
		return fmt.Sprintf("(write its group too: %s.<group>)", b.Plural)
	default:
		return "(put the namespaces and selectors into one entry, or make them disjoint)"
	}
}

// specName is how the configuration names the resource.
func specName(s catalog.Spec) string {
	if s.Group == "" {
		return s.Plural
	}
	return s.Plural + "." + s.Group
}
