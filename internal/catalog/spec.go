package catalog

import "strings"

// Spec is one resource that the configuration asks for, after presets are expanded. Whether a server
// serves it, and in which version, is found out at runtime.
type Spec struct {
	// Group is the API group, "" for the core group. It means something only if GroupKnown.
	Group string
	// GroupKnown is false for a bare plural ("pods"), which leaves the group to discovery.
	GroupKnown bool

	Plural  string
	Version string // "" takes the version that the server prefers

	Namespaces    []string // sorted; none reads all namespaces
	LabelSelector string
	FieldSelector string

	// Key names the place in the configuration, for messages: "resources[2]", or "resources[2] (rbac)"
	// of a preset.
	Key string
}

// name is the resource as it stands in the configuration.
func (s Spec) name() string {
	if s.GroupKnown && s.Group != "" {
		return s.Plural + "." + s.Group
	}
	return s.Plural
}

// key is the place in the configuration without the preset's name.
func (s Spec) key() string {
	key, _, _ := strings.Cut(s.Key, " ")
	return key
}
