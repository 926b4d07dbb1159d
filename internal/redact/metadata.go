package redact

// appliedAnnotations repeat a whole manifest, with everything that is redacted elsewhere.
var appliedAnnotations = []string{
	"kubectl.kubernetes.io/last-applied-configuration", // https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration
	"kapp.k14s.io/original",                            // https://carvel.dev/kapp/docs/latest/diff/
	"objectset.rio.cattle.io/applied",                  // https://github.com/rancher/wrangler/tree/master/pkg/apply
	"banzaicloud.com/last-applied",                     // https://github.com/banzaicloud/k8s-objectmatcher
	"consul.hashicorp.com/original-pod",                // https://developer.hashicorp.com/consul/docs/k8s/annotations-and-labels
}

// metadataInterior is what becomes of the parts of a metadata, at any depth. managedFields are the server's
// own book-keeping: bulk, and a list of the keys of every Secret.
func metadataInterior(in *interior) *interior {
	dropped := whole(drop)
	annotations := make([]member, 0, len(appliedAnnotations))
	for _, key := range appliedAnnotations {
		annotations = append(annotations, member{key: key, rule: dropped})
	}
	return in.with(
		member{key: "managedFields", rule: dropped},
		member{key: "annotations", rule: &rule{in: in.with(annotations...)}},
	)
}

// ownMembers are the members of the object itself that tell what it is.
func ownMembers(e *everywhere) []member {
	metadata := e.metadata.in.with(
		member{key: "uid", rule: e.in.noted(uid)},
		member{key: "resourceVersion", rule: e.in.noted(resourceVersion)},
		member{key: "namespace", rule: e.in.noted(namespace)},
		member{key: "name", rule: e.in.noted(name)},
		member{key: "generation", rule: e.in.noted(generation)},
		member{key: "creationTimestamp", rule: e.in.noted(created)},
		member{key: "deletionTimestamp", rule: e.in.noted(deleted)},
		member{key: "ownerReferences", rule: &rule{in: ownersInterior(e.in)}},
		member{key: "managedFields", rule: gleanedManagers()},
	)
	return []member{
		{key: "apiVersion", rule: e.in.noted(ownAPIVersion)},
		{key: "kind", rule: e.in.noted(ownKind)},
		{key: "metadata", rule: &rule{note: ownMetadata, in: metadata}},
	}
}

func ownersInterior(in *interior) *interior {
	owner := in.with(
		member{key: "apiVersion", rule: in.noted(ownerAPIVersion)},
		member{key: "kind", rule: in.noted(ownerKind)},
		member{key: "name", rule: in.noted(ownerName)},
		member{key: "uid", rule: in.noted(ownerUID)},
		member{key: "controller", rule: in.noted(ownerController)},
	)
	owners := in.with()
	owners.elements = &rule{note: ownerEnd, in: owner}
	return owners
}

// gleanedManagers drops the managedFields and takes their times.
func gleanedManagers() *rule {
	entry := (&interior{elements: whole(drop), others: whole(drop)}).named(
		member{key: "time", rule: &rule{note: updated, do: [shapes]verdict{array: drop, object: drop}}},
	)
	entries := &interior{
		elements: &rule{in: entry, do: [shapes]verdict{array: drop}},
		others:   whole(drop),
	}
	return &rule{in: entries, do: [shapes]verdict{glean, glean, glean, glean}}
}
