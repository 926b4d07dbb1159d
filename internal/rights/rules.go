package rights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// lack is what is missing of a scope.
type lack struct {
	of    scope.Scope
	verbs []string
}

// maxNamed bounds how many resources, and how many namespaces, an entry names.
const maxNamed = 20

// remedy returns the rules to add, each list of them as YAML in one line.
func remedy(of []lack) string {
	var order []string                        // of rules
	inNamespaces := make(map[string][]string) // by rules
	for _, namespace := range namespacesOf(of) {
		rules := rulesIn(namespace, of)
		if inNamespaces[rules] == nil {
			order = append(order, rules)
		}
		inNamespaces[rules] = append(inNamespaces[rules], namespace)
	}
	var all []string
	for _, rules := range order {
		role := "Role in each of the namespaces "
		switch namespaces := inNamespaces[rules]; {
		case slices.Contains(namespaces, ""):
			role = "ClusterRole"
		case len(namespaces) == 1:
			role = "Role in namespace " + namespaces[0]
		default:
			role += strings.Join(few(namespaces), ", ")
		}
		all = append(all, fmt.Sprintf("add to the collector's %s: rules: [%s]", role, rules))
	}
	return strings.Join(all, "; ")
}

// namespacesOf returns the namespaces, sorted. "" is all of them, and the first.
func namespacesOf(of []lack) []string {
	var all []string
	for _, l := range of {
		all = append(all, l.of.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rulesIn returns the rules that are missing in a namespace. Resources that differ in nothing else share one.
func rulesIn(namespace string, of []lack) string {
	type rule struct{ group, verbs, name string }
	var order []rule
	resources := make(map[rule][]string)
	for _, l := range of {
		if l.of.Namespace != namespace {
			continue
		}
		r := rule{l.of.Group, strings.Join(l.verbs, ", "), l.of.OnlyName()}
		if resources[r] == nil {
			order = append(order, r)
		}
		if resource := fmt.Sprintf("%q", l.of.Resource); !slices.Contains(resources[r], resource) {
			resources[r] = append(resources[r], resource)
		}
	}
	var all []string
	for _, r := range order {
		all = append(all, scope.Rule(r.group, strings.Join(resources[r], ", "), r.name, r.verbs))
	}
	return strings.Join(all, ", ")
}

// names returns the names of the first scopes, and how many more there are.
func names(of []lack) []string {
	var all []string
	for _, l := range of {
		all = append(all, l.of.String())
	}
	return few(all)
}

func few(names []string) []string {
	if len(names) <= maxNamed {
		return names
	}
	return append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", len(names)-maxNamed))
}
