// Package corpus generates synthetic Kubernetes objects: any number, all different in name, UID and resourceVersion,
// and the same for the same seed. They are written one at a time from templates, so that a million need no more memory
// than one.
package corpus

// Kind is a kind of object, of a certain size.
type Kind struct {
	Group, Version, Plural, Singular, Kind string

	Namespaced bool
	// Custom objects are written like those of a CRD: with sorted keys, and with their kind even in a list.
	Custom bool

	make func(r *source) object
}

// APIVersion of the objects.
func (k *Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// Resource returns the plural, with the group if there is one: pods, deployments.apps.
func (k *Kind) Resource() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// Pods of about 2, 8 and 20 KB, a third of which is managedFields.
var (
	Pods2K  = podKind(small)
	Pods8K  = podKind(medium)
	Pods20K = podKind(large)
)

func podKind(size podSize) *Kind {
	return &Kind{Version: "v1", Plural: "pods", Singular: "pod", Kind: "Pod", Namespaced: true,
		make: func(r *source) object { return pod(r, size) }}
}

// Other kinds.
var (
	Nodes       = &Kind{Version: "v1", Plural: "nodes", Singular: "node", Kind: "Node", make: node}
	Deployments = &Kind{Group: "apps", Version: "v1", Plural: "deployments", Singular: "deployment", Kind: "Deployment", Namespaced: true, make: deployment}
	Events      = &Kind{Version: "v1", Plural: "events", Singular: "event", Kind: "Event", Namespaced: true, make: event}
	Rollouts    = Custom("rollouts", "Rollout")
)

// SmallCustom is a kind of custom objects of about 2 KB.
func SmallCustom(plural, kind string) *Kind {
	k := Custom(plural, kind)
	k.make = func(r *source) object { return rollout(r, kind, 1) }
	return k
}

// Custom is a kind of custom objects with deep specs.
func Custom(plural, kind string) *Kind {
	return &Kind{Group: "bench.example.com", Version: "v1", Plural: plural, Singular: kind, Kind: kind,
		Namespaced: true, Custom: true, make: func(r *source) object { return rollout(r, kind, 12) }}
}
