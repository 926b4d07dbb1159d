package redact

// Plan says, for one resource, what is skipped, masked and kept of its objects. It is computed once from
// the configuration and is safe for concurrent use.
type Plan struct {
	root          *interior // of the object itself
	laterMetadata *rule     // of a second metadata, which tells nothing of the object
	secretValues  *rule     // of data and stringData in what turns out to be a Secret
}

// NewPlan returns the plan for a resource, named by its API group ("" for core) and plural name.
func NewPlan(group, resource string) *Plan {
	everywhere := newEverywhere()
	root := everywhere.in.with(ownMembers(everywhere)...)
	if isEvents(group, resource) {
		root = root.with(eventMembers(everywhere)...)
	}
	if group == "" && resource == "secrets" {
		root = secretObject(root)
	}
	return &Plan{root: root, laterMetadata: everywhere.metadata, secretValues: secretValues()}
}

func isEvents(group, resource string) bool {
	return resource == "events" && (group == "" || group == "events.k8s.io")
}
