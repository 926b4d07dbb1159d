package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
)

// validateNamespaces returns errors that begin with the key inside the entry.
func (r *ResourceConfig) validateNamespaces() []error {
	errs := append(checkNamespaces("namespaces", r.Namespaces), checkNamespaces("exclude_namespaces", r.ExcludeNamespaces)...)
	if _, err := labels.Parse(r.NamespaceLabelSelector); err != nil {
		errs = append(errs, fmt.Errorf("namespace_label_selector: cannot parse %q: %w (for example env=prod,team in (web,pay))", r.NamespaceLabelSelector, err))
	}
	if len(errs) > 0 || len(r.ExcludeNamespaces) == 0 || len(r.Namespaces) == 0 {
		return errs
	}
	if !slices.ContainsFunc(r.Namespaces, glob.Has) {
		return []error{errors.New("exclude_namespaces: is of no use if namespaces has names only; leave out the names that should not be read")}
	}
	for i, excluded := range r.ExcludeNamespaces {
		overlaps := func(included string) bool { return glob.Overlap(included, excluded) }
		if !slices.ContainsFunc(r.Namespaces, overlaps) {
			errs = append(errs, fmt.Errorf("exclude_namespaces[%d]: %q excludes nothing that namespaces selects", i, excluded))
		}
	}
	for i, included := range r.Namespaces {
		covers := func(excluded string) bool { return glob.Covers(excluded, included) }
		if at := slices.IndexFunc(r.ExcludeNamespaces, covers); at >= 0 {
			errs = append(errs, fmt.Errorf("namespaces[%d]: everything that %q selects is excluded by exclude_namespaces[%d]", i, included, at))
		}
	}
	return errs
}

// checkNamespaces checks a list of names and patterns of namespaces.
func checkNamespaces(key string, list []string) []error {
	var errs []error
	for i, name := range list {
		if err := checkNamespace(key, name); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", key, i, err))
			continue
		}
		for j, other := range list {
			switch {
			case i == j || checkNamespace(key, other) != nil:
				continue
			case name == other && j < i:
				errs = append(errs, fmt.Errorf("%s[%d]: %q is already in %s[%d]", key, i, name, key, j))
			case name != other && glob.Covers(other, name):
				errs = append(errs, fmt.Errorf("%s[%d]: %q is already in the %q of %s[%d]", key, i, name, other, key, j))
			default:
				continue
			}
			break
		}
	}
	return errs
}

// checkNamespace returns what is wrong with the name or pattern of a namespace in the list that key names.
func checkNamespace(key, namespace string) error {
	switch {
	case namespace == "":
		return fmt.Errorf("is empty; leave %s out to read all namespaces", key)
	case strings.Trim(namespace, "*") == "", strings.EqualFold(namespace, "all"):
		return fmt.Errorf("%q means every namespace; leave %s out to read all of them", namespace, key)
	case strings.ContainsAny(namespace, "?[]()^$|\\!,+"), glob.Has(namespace) && strings.Contains(namespace, "."):
		return fmt.Errorf("%q is not a pattern; * is the only wildcard, as in team-*", namespace)
	case glob.Has(namespace):
		if !onlyNameCharacters(namespace) {
			return fmt.Errorf("%q has characters that no namespace has; write lower case letters, digits, - and *", namespace)
		}
		return nil
	}
	if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		return fmt.Errorf("%q is not a namespace: %s", namespace, strings.Join(msgs, "; "))
	}
	return nil
}

// validateScope finds namespaces configured for cluster-scoped resources.
func (r *ResourceConfig) validateScope() []error {
	key := "namespaces"
	switch {
	case len(r.Namespaces) > 0:
	case len(r.ExcludeNamespaces) > 0:
		key = "exclude_namespaces"
	case r.NamespaceLabelSelector != "":
		key = "namespace_label_selector"
	default:
		return nil
	}
	var cluster, namespaced []string
	for _, s := range r.specs(0) {
		b, ok := catalog.BuiltinNamed(s.Resource, s.Group, s.GroupKnown)
		if ok && b.ClusterScoped() {
			cluster = append(cluster, s.Name())
		} else {
			namespaced = append(namespaced, s.Name())
		}
	}
	switch {
	case len(cluster) == 0:
		return nil
	case len(namespaced) == 0:
		return []error{fmt.Errorf("%s: %s is not in any namespace; leave %[1]s out", key, strings.Join(cluster, " and "))}
	default:
		return []error{fmt.Errorf("%s: the preset %s also names %s, which are not in any namespace; name %s instead",
			key, r.Name, strings.Join(cluster, " and "), strings.Join(namespaced, " and "))}
	}
}
