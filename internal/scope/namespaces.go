package scope

import (
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
)

// Namespaces selects some of all namespaces. The zero value selects all of them. Objects that are in no namespace are
// always selected.
type Namespaces struct {
	Include []string // names and patterns; none includes all
	Exclude []string // names and patterns; they win over Include
	Labels  string   // a label selector in canonical form that the labels of the namespaces have to match, too; "" is any
}

// ParseNamespaces returns the selection with that text.
func ParseNamespaces(text string) Namespaces {
	var n Namespaces
	text, n.Labels, _ = strings.Cut(text, ";")
	for part := range strings.SplitSeq(text, ",") {
		if name, isExcluded := strings.CutPrefix(part, "!"); isExcluded {
			n.Exclude = append(n.Exclude, name)
		} else if part != "" {
			n.Include = append(n.Include, part)
		}
	}
	return n
}

// String returns the selection in one form for every order of its parts: "pay,team-*,!team-x;env=prod". It is "" if all
// namespaces are selected.
func (n Namespaces) String() string {
	parts := sorted(n.Include)
	for _, name := range sorted(n.Exclude) {
		parts = append(parts, "!"+name)
	}
	text := strings.Join(parts, ",")
	if n.Labels != "" {
		text += ";" + n.Labels
	}
	return text
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// Match reports whether a namespace is selected, if its labels match.
func (n Namespaces) Match(namespace string) bool {
	matches := func(pattern string) bool { return glob.Match(pattern, namespace) }
	return namespace == "" || (len(n.Include) == 0 || slices.ContainsFunc(n.Include, matches)) && !slices.ContainsFunc(n.Exclude, matches)
}

var everyNamespace = []string{"*"}

func (n Namespaces) included() []string {
	if len(n.Include) == 0 {
		return everyNamespace
	}
	return n.Include
}

// excludes reports whether everything that a pattern matches is excluded by one exclusion.
func (n Namespaces) excludes(pattern string) bool {
	return slices.ContainsFunc(n.Exclude, func(excluded string) bool { return glob.Covers(excluded, pattern) })
}

// Overlap reports whether there may be a namespace that both select, whatever its labels. It is false only if that is
// certain.
func (n Namespaces) Overlap(other Namespaces) bool {
	for _, a := range n.included() {
		for _, b := range other.included() {
			excluded := n.excludes(a) || n.excludes(b) || other.excludes(a) || other.excludes(b)
			if !excluded && glob.Overlap(a, b) {
				return true
			}
		}
	}
	return false
}

// Cover reports whether every namespace that another selection selects is certain to be selected.
func (n Namespaces) Cover(other Namespaces) bool {
	if n.Labels != "" && n.Labels != other.Labels {
		return false
	}
	for _, b := range other.included() {
		if other.excludes(b) {
			continue
		}
		if !slices.ContainsFunc(n.included(), func(a string) bool { return glob.Covers(a, b) }) {
			return false
		}
		for _, excluded := range n.Exclude {
			if glob.Overlap(excluded, b) && !other.excludes(excluded) {
				return false
			}
		}
	}
	return true
}
