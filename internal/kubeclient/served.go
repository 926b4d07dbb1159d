package kubeclient

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource that an API server serves.
type Resource struct {
	Group      string
	Version    string
	Plural     string
	Kind       string
	Namespaced bool
	Verbs      []string
}

// Can reports whether the server serves the verb.
func (r Resource) Can(verb string) bool {
	return slices.Contains(r.Verbs, verb)
}

// Served holds the resources that an API server served at the time of discovery.
type Served struct {
	// resources by plural name. Those of one group are adjacent, with the server's preferred version first.
	resources map[string][]Resource

	// Failed holds the group versions that could not be discovered, mostly because an aggregated API server is down.
	// Their resources may be missing.
	Failed map[schema.GroupVersion]error

	hidden map[string]error // errors by root, if nothing is known below /api (the core group) or /apis
}

func (s *Served) add(r Resource) {
	if s.resources == nil {
		s.resources = map[string][]Resource{}
	}
	s.resources[r.Plural] = append(s.resources[r.Plural], r)
}

// Has reports whether the server serves the resource in any version.
func (s *Served) Has(resource schema.GroupResource) bool {
	return slices.ContainsFunc(s.resources[resource.Resource], func(r Resource) bool { return r.Group == resource.Group })
}

func (s *Served) fail(gv schema.GroupVersion, err error) {
	if s.Failed == nil {
		s.Failed = map[schema.GroupVersion]error{}
	}
	s.Failed[gv] = err
}

func (s *Served) hide(root string, err error) {
	if s.hidden == nil {
		s.hidden = map[string]error{}
	}
	s.hidden[root] = err
}

var (
	// ErrNotServed means that the server does not serve the resource.
	ErrNotServed = errors.New("not served")

	// ErrAmbiguous means that several API groups have a resource of that name.
	ErrAmbiguous = errors.New("ambiguous")

	// ErrUnknown means that it is unknown whether the server serves the resource.
	ErrUnknown = errors.New("unknown")
)

// Lookup finds a resource in every version that the server serves it in, the preferred one first, or only in the given
// version. Without a known group, the core group's resource of that name is returned, if there is one, else that of the
// only group that has it.
//
// The error wraps ErrNotServed, ErrAmbiguous or ErrUnknown.
func (s *Served) Lookup(group string, groupKnown bool, plural, version string) ([]Resource, error) {
	found := s.resources[plural]
	if groupKnown {
		found = ofGroup(found, group)
	} else if len(found) > 0 {
		var err error
		if found, err = unambiguous(found, plural); err != nil {
			return nil, err
		}
	}
	versions := found
	if version != "" {
		versions = slices.DeleteFunc(slices.Clone(found), func(r Resource) bool { return r.Version != version })
	}
	if len(versions) > 0 {
		return slices.Clone(versions), nil
	}
	return nil, s.missing(found, group, groupKnown, plural, version)
}

// All returns every resource, ordered by group and plural name, in every version that the server serves it in, the
// preferred one first.
func (s *Served) All() iter.Seq[[]Resource] {
	return func(yield func([]Resource) bool) {
		var all [][]Resource
		for _, found := range s.resources {
			for len(found) > 0 {
				versions := ofGroup(found, found[0].Group)
				all = append(all, versions)
				found = slices.DeleteFunc(slices.Clone(found), func(r Resource) bool { return r.Group == versions[0].Group })
			}
		}
		slices.SortFunc(all, func(a, b []Resource) int {
			return cmp.Or(strings.Compare(a[0].Group, b[0].Group), strings.Compare(a[0].Plural, b[0].Plural))
		})
		for _, versions := range all {
			if !yield(versions) {
				return
			}
		}
	}
}

func ofGroup(resources []Resource, group string) []Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r Resource) bool { return r.Group != group })
}

func unambiguous(resources []Resource, plural string) ([]Resource, error) {
	groups := map[string]bool{}
	for _, r := range resources {
		groups[r.Group] = true
	}
	if groups[""] {
		return ofGroup(resources, ""), nil
	}
	if len(groups) == 1 {
		return resources, nil
	}
	var names []string
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		names = append(names, plural+"."+group)
	}
	return nil, fmt.Errorf("%s is %w: write %s", plural, ErrAmbiguous, strings.Join(names, " or "))
}

// missing returns the error for a resource that was not found. found holds its other versions.
func (s *Served) missing(found []Resource, group string, groupKnown bool, plural, version string) error {
	name := plural
	if group != "" {
		name += "." + group
	}
	if version != "" {
		name = fmt.Sprintf("version %s of %s", version, name)
	}
	for _, gv := range slices.SortedFunc(maps.Keys(s.Failed), compareGroupVersions) {
		if groupKnown && gv.Group != group || version != "" && gv.Version != version {
			continue
		}
		return fmt.Errorf("%s is %w: cannot discover %s: %w", name, ErrUnknown, gv, s.Failed[gv])
	}
	for _, root := range slices.Sorted(maps.Keys(s.hidden)) {
		if !groupKnown || (group == "") == (root == "api") {
			return fmt.Errorf("%s is %w: %w", name, ErrUnknown, s.hidden[root])
		}
	}
	switch {
	case len(found) > 0:
		var versions []string
		for _, r := range found {
			versions = append(versions, r.Version)
		}
		return fmt.Errorf("%s is %w, but %s is", name, ErrNotServed, strings.Join(versions, ", "))
	case groupKnown && len(s.resources[plural]) > 0:
		var names []string
		for _, r := range s.resources[plural] {
			names = append(names, schema.GroupResource{Group: r.Group, Resource: plural}.String())
		}
		return fmt.Errorf("%s is %w, but %s is", name, ErrNotServed, strings.Join(slices.Compact(names), ", "))
	default:
		return fmt.Errorf("%s is %w", name, ErrNotServed)
	}
}

func compareGroupVersions(a, b schema.GroupVersion) int {
	return strings.Compare(a.String(), b.String())
}
