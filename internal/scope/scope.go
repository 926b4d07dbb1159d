// Package scope identifies what is read from an API server, in one form for requests, records, storage, status, metrics
// and logs.
package scope

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// Scope is what one reader covers. It holds only what determines which objects are read, so that two spellings of a
// selector, or two versions of an API, are the same scope. It is comparable and can be used as a map key. Create it
// with [New].
type Scope struct {
	schema.GroupResource

	Namespace     string // "" covers all namespaces, and cluster-scoped resources
	Among         string // if Namespace is "": the text of the selected [Namespaces]; "" is all
	LabelSelector string // in canonical form
	FieldSelector string // in canonical form
	Shard         shard.Shard
}

// New returns the scope of a resource with selectors in any spelling. A selector that cannot be parsed is kept as it
// is: the API server will refuse it.
func New(resource schema.GroupResource, namespace, labelSelector, fieldSelector string) Scope {
	return Scope{
		GroupResource: resource,
		Namespace:     namespace,
		LabelSelector: CanonicalLabels(labelSelector),
		FieldSelector: CanonicalFields(fieldSelector),
	}
}

// In returns the scope limited to the objects in some namespaces. All of them are read, and those of others passed over.
func (s Scope) In(n Namespaces) Scope {
	s.Among = n.String()
	return s
}

// Of returns the part of the scope that belongs to a shard.
func (s Scope) Of(part shard.Shard) Scope {
	if s.Shard = part; !part.Divided() {
		s.Shard = shard.Shard{}
	}
	return s
}

// Namespaces returns the namespaces whose objects are in the scope.
func (s Scope) Namespaces() Namespaces {
	if s.Namespace != "" {
		return Namespaces{Include: []string{s.Namespace}}
	}
	return ParseNamespaces(s.Among)
}

// Key returns the scope as text that is the same in every process and unique to the scope.
func (s Scope) Key() string {
	parts := []string{s.Group, s.Resource, s.Namespace, s.Among, s.LabelSelector, s.FieldSelector}
	if s.Shard.Divided() {
		parts = append(parts, s.Shard.String())
	}
	return strings.Join(parts, "\x00")
}

// String names the scope for people: "deployments.apps in namespace shop (team=web)". All scopes of a receiver belong to the
// same shard, which is left out.
func (s Scope) String() string {
	name := s.GroupResource.String()
	if s.Namespace != "" {
		name += " in namespace " + s.Namespace
	}
	if s.Among != "" {
		name += " in namespaces " + s.Among
	}
	if s.Selective() {
		selectors := slices.DeleteFunc([]string{s.LabelSelector, s.FieldSelector}, func(s string) bool { return s == "" })
		name += " (" + strings.Join(selectors, "; ") + ")"
	}
	return name
}

// Selective reports whether selectors limit the objects.
func (s Scope) Selective() bool { return s.LabelSelector != "" || s.FieldSelector != "" }

// InRequiredNamespace returns the scope in the namespace that its field selector requires, if it requires one. It has the same
// objects. A list in pages has to be requested in that form: for a list of all namespaces with such a selector, the continue
// token of kube-apiserver 1.37.2 lacks the namespace ("/web-1" rather than "/default/web-1"). Depending on the names, the
// next page is then empty, without an error, or repeats objects.
func (s Scope) InRequiredNamespace() Scope {
	selector, err := fields.ParseSelector(s.FieldSelector)
	if err != nil || s.Namespace != "" {
		return s
	}
	namespace, ok := selector.RequiresExactMatch("metadata.namespace")
	if ok && len(validation.IsDNS1123Label(namespace)) == 0 { // it becomes part of a path
		s.Namespace = namespace
	}
	return s
}

// OnlyName returns the name of the only object that the field selector can select, or "". Requests with such a selector count as
// requests for that object.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
func (s Scope) OnlyName() string {
	selector, err := fields.ParseSelector(s.FieldSelector)
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	return name
}

// Rule returns the RBAC rule that gives verbs on what is in the scope, as an element of the rules of a role in YAML.
func (s Scope) Rule(verbs ...string) string {
	return "- " + Rule(s.Group, strconv.Quote(s.Resource), s.OnlyName(), strings.Join(verbs, ", "))
}

// Rule returns an RBAC rule as YAML. Resources and verbs are the content of a list, and the name of an object may be "".
func Rule(group, resources, name, verbs string) string {
	if name != "" {
		resources += fmt.Sprintf("], resourceNames: [%q", name)
	}
	return fmt.Sprintf("{apiGroups: [%q], resources: [%s], verbs: [%s]}", group, resources, verbs)
}

// LogFields returns the fields that identify the scope in log entries.
func (s Scope) LogFields() []zap.Field {
	fields := []zap.Field{zap.String("group", s.Group), zap.String("resource", s.Resource)}
	for _, optional := range [...]struct{ key, value string }{
		{"namespace", s.Namespace}, {"namespaces", s.Among}, {"label_selector", s.LabelSelector}, {"field_selector", s.FieldSelector},
		{"shard", s.Shard.String()},
	} {
		if optional.value != "" {
			fields = append(fields, zap.String(optional.key, optional.value))
		}
	}
	return fields
}

// IsEvents reports whether the resource is that of Kubernetes Events. Two groups serve the same objects.
func IsEvents(resource schema.GroupResource) bool {
	return resource.Resource == "events" && (resource.Group == "" || resource.Group == "events.k8s.io")
}

// API is how a server serves the resource of a scope. Unlike the scope it may change while the resource is read.
type API struct {
	Version    string
	Kind       string
	Namespaced bool
}

// APIVersion returns the apiVersion of the group's objects.
func (a API) APIVersion(group string) string {
	return schema.GroupVersion{Group: group, Version: a.Version}.String()
}

// CanonicalLabels returns the canonical form of a label selector, which is the same for every spelling of the same
// requirements. A selector that cannot be parsed is returned as it is.
func CanonicalLabels(selector string) string {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return selector
	}
	requirements, _ := parsed.Requirements()
	texts := make([]string, 0, len(requirements))
	for _, r := range requirements {
		operator := r.Operator()
		switch {
		case operator == selection.DoubleEquals, operator == selection.In && r.Values().Len() == 1:
			operator = selection.Equals
		case operator == selection.NotIn && r.Values().Len() == 1:
			operator = selection.NotEquals
		}
		canonical, err := labels.NewRequirement(r.Key(), operator, r.Values().List()) // sorted
		if err != nil {
			return selector
		}
		texts = append(texts, canonical.String())
	}
	return joinSorted(texts)
}

// CanonicalFields does the same for field selectors.
func CanonicalFields(selector string) string {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return selector
	}
	var texts []string
	for _, r := range parsed.Requirements() {
		operator := "="
		if r.Operator == selection.NotEquals {
			operator = "!="
		}
		texts = append(texts, r.Field+operator+fields.EscapeValue(r.Value))
	}
	return joinSorted(texts)
}

func joinSorted(requirements []string) string {
	slices.Sort(requirements)
	return strings.Join(slices.Compact(requirements), ",")
}
