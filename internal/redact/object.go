package redact

import (
	"strings"
	"time"
)

// Masked replaces every value that has to be hidden.
const Masked = "[REDACTED]"

// Identity identifies one version of an object.
type Identity struct {
	UID             string
	ResourceVersion string
	Namespace       string
	Name            string
	Cluster         string // logical cluster, if a stream covers several (kcp); decoding does not set it
}

// Clone returns a copy that does not keep an object in memory.
func (id Identity) Clone() Identity {
	return Identity{
		UID:             strings.Clone(id.UID),
		ResourceVersion: strings.Clone(id.ResourceVersion),
		Namespace:       strings.Clone(id.Namespace),
		Name:            strings.Clone(id.Name),
		Cluster:         strings.Clone(id.Cluster),
	}
}

// Owner is the controlling owner reference of an object (the one with controller: true, else the first).
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controls   bool // controller: true
}

// Times holds the times of an object. A zero time was absent or not RFC 3339.
type Times struct {
	Created time.Time // metadata.creationTimestamp
	Deleted time.Time // metadata.deletionTimestamp; up to the grace period in the future
	Updated time.Time // the newest metadata.managedFields[].time

	// Observed is the last observation of core/v1 and events.k8s.io/v1 Events: the first set time of
	// series.lastObservedTime, lastTimestamp (deprecatedLastTimestamp), eventTime and firstTimestamp
	// (deprecatedFirstTimestamp).
	Observed time.Time
}

// Manager is who wrote an object, as far as its managedFields show.
type Manager struct {
	Name        string
	Operation   string // Apply or Update
	Subresource string // through which it wrote; "" for the object itself
}

// Object is a Kubernetes object after redaction. It shares no memory with the frame it was read from.
type Object struct {
	Identity
	APIVersion string // as in the object; "" if the server omitted it (items of a LIST)
	Kind       string
	Generation int64
	Owner      Owner
	Times      Times
	// Managers holds the manager of the newest entry of managedFields, which is of Times.Updated. If the status and the rest
	// of the object were written in the same second, it holds first the manager of the rest and then that of the status.
	Managers [2]Manager
	// Scaler is who scaled the object through the subresource scale. API servers give that entry of managedFields no time.
	Scaler Manager
	Event  *Event // of core/v1 and events.k8s.io/v1 Events only
	Pod    *Pod   // of pods only

	// Content shows whether this object differs from an earlier one that the same plan decoded.
	Content Content

	// JSON is the redacted and pruned object, always a complete JSON object in compact form. It is empty if only the
	// identity is known.
	JSON string

	// RedactionFailed is set if the object could not be walked. JSON then holds only its identity.
	RedactionFailed bool
}
