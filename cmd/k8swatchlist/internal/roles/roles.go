// Package roles derives the least rights that k8s_watchlist receivers need.
package roles

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Options describe the roles.
type Options struct {
	// Name of every role and binding.
	Name string
	// Subjects receive the rights. Without them there are no bindings.
	Subjects []rbacv1.Subject
	// WatchOnly leaves out the verb list.
	WatchOnly bool
	// Definitions adds the right to watch CRDs and APIServices, which the receiver does if custom resources or patterns
	// are configured.
	Definitions bool
	// Discovery adds the right to read discovery documents, which every authenticated client has by default.
	Discovery bool
}

// Read is a spec of a receiver whose API group is known.
type Read struct {
	catalog.Spec
	Receiver string // named in comments; empty if there is only one
}

// Roles are rights by namespace.
type Roles struct {
	Options
	namespaces map[string]map[key]*rule // "" is the cluster
}

// key identifies a rule of a role.
type key struct {
	last  int // order of the rules for what the receiver does besides reading
	group string
	verbs string // separated by commas
	names string // of objects, separated by commas; "" for all
	paths string // of what is no resource, separated by commas
}

type rule struct {
	resources map[string]bool
	why       []string
}

// New returns the roles for what is read.
func New(reads []Read, o Options) *Roles {
	r := Empty(o)
	for _, read := range reads {
		r.AddRead(read)
	}
	r.dropCovered()
	r.AddClusterUID()
	if o.Definitions {
		r.AddDefinitions()
		r.AddAPIServices()
	}
	if o.Discovery {
		r.add("", key{last: 3, verbs: "get", paths: "/api,/api/*,/apis,/apis/*"}, "", "discovery; every authenticated client has this right by default")
	}
	return r
}

// Empty returns roles without any right.
func Empty(o Options) *Roles { return &Roles{Options: o, namespaces: make(map[string]map[key]*rule)} }

// AddRead adds the rights for what is read.
func (r *Roles) AddRead(read Read) {
	namespaces := read.EachNamespace()
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		r.add(namespace, key{group: read.Group, verbs: r.verbs(read.Group), names: scope.New(read.GroupResource, "", "", read.FieldSelector).OnlyName()}, read.Resource, read.why())
	}
	if read.NamespaceLabels != "" {
		r.add("", key{verbs: r.verbs("")}, "namespaces", read.why()+".namespace_label_selector")
	}
}

// AddClusterUID adds the right to learn the UID of the cluster.
func (r *Roles) AddClusterUID() {
	r.add("", key{last: 1, verbs: "get", names: "kube-system"}, "namespaces", "for k8s.cluster.uid")
}

// AddDefinitions adds the right to watch CRDs.
func (r *Roles) AddDefinitions() {
	r.add("", key{last: 2, group: "apiextensions.k8s.io", verbs: r.verbs("")}, "customresourcedefinitions", "to notice resources that come and go")
}

// AddAPIServices adds the right to watch APIServices.
func (r *Roles) AddAPIServices() {
	r.add("", key{last: 2, group: "apiregistration.k8s.io", verbs: "get,list,watch"}, "apiservices",
		"to notice resources that come and go, and to learn which ones another API server serves")
}

// AddLeaseUse adds the rights to get and update Leases of a namespace.
func (r *Roles) AddLeaseUse(namespace string, names []string) {
	k := key{last: 5, group: "coordination.k8s.io", verbs: "get,update", names: strings.Join(names, ",")}
	r.add(namespace, k, "leases", "to elect the leader, and to publish and read how far records were accepted")
}

// AddLeaseCreation adds the right to create Leases of a namespace. Which one is created cannot be limited.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
func (r *Roles) AddLeaseCreation(namespace string) {
	r.add(namespace, key{last: 4, group: "coordination.k8s.io", verbs: "create"}, "leases", "to create the Leases of the replicas")
}

// verbs returns the verbs for reading a resource of a group. What metrics servers serve can only be listed.
func (r *Roles) verbs(group string) string {
	if r.WatchOnly && group != "metrics.k8s.io" && !strings.HasSuffix(group, ".metrics.k8s.io") {
		return "watch"
	}
	return "list,watch"
}

func (r Read) why() string {
	why := r.Key
	if r.Receiver != "" {
		why = r.Receiver + " " + why
	}
	return why
}

func (r *Roles) add(namespace string, k key, resource, why string) {
	of := r.namespaces[namespace]
	if of == nil {
		of = make(map[key]*rule)
		r.namespaces[namespace] = of
	}
	if of[k] == nil {
		of[k] = &rule{resources: make(map[string]bool)}
	}
	of[k].resources[resource] = true
	if !slices.Contains(of[k].why, why) {
		of[k].why = append(of[k].why, why)
	}
}

// dropCovered removes from roles what the cluster role or a rule for all names already grants.
func (r *Roles) dropCovered() {
	for namespace, rules := range r.namespaces {
		for k, of := range rules {
			all := k
			all.names = ""
			for resource := range of.resources {
				if namespace != "" && (r.grants("", k, resource) || r.grants("", all, resource)) || k.names != "" && r.grants(namespace, all, resource) {
					delete(of.resources, resource)
				}
			}
			if len(of.resources) == 0 {
				delete(rules, k)
			}
		}
		if len(rules) == 0 {
			delete(r.namespaces, namespace)
		}
	}
}

func (r *Roles) grants(namespace string, k key, resource string) bool {
	of := r.namespaces[namespace][k]
	return of != nil && of.resources[resource]
}

// Rule is one rule, and what it is for.
type Rule struct {
	rbacv1.PolicyRule
	Why string
}

// Namespaces returns the namespaces with a role, "" for the cluster role, in order.
func (r *Roles) Namespaces() []string { return slices.Sorted(maps.Keys(r.namespaces)) }

// Rules returns the rules of the role in a namespace, or of the cluster role for "".
func (r *Roles) Rules(namespace string) []Rule {
	of := r.namespaces[namespace]
	var rules []Rule
	for _, k := range slices.SortedFunc(maps.Keys(of), compare) {
		policy := rbacv1.PolicyRule{Verbs: strings.Split(k.verbs, ",")}
		if k.paths != "" {
			policy.NonResourceURLs = strings.Split(k.paths, ",")
		} else {
			policy.APIGroups = []string{k.group}
			policy.Resources = slices.Sorted(maps.Keys(of[k].resources))
		}
		if k.names != "" {
			policy.ResourceNames = strings.Split(k.names, ",")
		}
		rules = append(rules, Rule{PolicyRule: policy, Why: strings.Join(of[k].why, ", ")})
	}
	return rules
}

// compare sorts what is read by API group.
func compare(a, b key) int {
	return cmp.Or(
		cmp.Compare(a.last, b.last),
		cmp.Compare(a.group, b.group),
		cmp.Compare(a.names, b.names),
		cmp.Compare(a.verbs, b.verbs),
	)
}

// Summary describes the roles in one line.
func (r *Roles) Summary() string {
	resources := make(map[string]bool)
	groups := 0
	secrets := "no secrets"
	namespaces := make(map[string]bool)
	for namespace, rules := range r.namespaces {
		for k, of := range rules {
			if namespace != "" && k.last == 0 {
				namespaces[namespace] = true
			}
			for resource := range of.resources {
				if k.last > 0 {
					continue
				}
				if resource == "*" {
					groups++
					continue
				}
				resources[resource+"."+k.group] = true
				if resource == "secrets" && k.group == "" {
					secrets = "including secrets, whose values the receiver masks"
				}
			}
		}
	}
	where := "cluster-wide"
	if n := len(namespaces); n > 0 {
		where = fmt.Sprintf("some only in their namespaces (%d)", n)
	}
	what := counted(len(resources), "resource")
	if groups > 0 {
		what += " and everything in " + counted(groups, "API group")
	}
	return fmt.Sprintf("%s, %s, %s.", what, where, secrets)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
