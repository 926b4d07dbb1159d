package redact

// everywhere holds the rules that apply at any depth of any object, because objects lie inside others: pod
// templates in workloads, whole manifests in custom resources.
type everywhere struct {
	in       *interior
	keep     *rule
	metadata *rule
}

func newEverywhere() *everywhere {
	in := &interior{}
	keep := &rule{in: in}
	in.elements, in.others = keep, keep

	// The interiors of these derive from the one that names them, so they are filled in afterwards.
	metadata, containers := &rule{}, &rule{}
	in.named(
		member{key: "metadata", rule: metadata},
		member{key: "containers", rule: containers},
		member{key: "initContainers", rule: containers},
		member{key: "ephemeralContainers", rule: containers},
		member{key: "kind", rule: in.noted(secretKind)},
		member{key: "data", rule: in.noted(secretData)},
		member{key: "stringData", rule: in.noted(secretData)},
	)
	metadata.in = metadataInterior(in)
	containers.in = containersInterior(in)
	return &everywhere{in: in, keep: keep, metadata: metadata}
}
