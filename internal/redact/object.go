package redact

import (
	"strings"
	"time"
)

// Masked stands in the place of every value that may not be seen.
const Masked = "[REDACTED]"

// Identity is what tells one version of an object from every other.
type Identity struct {
	UID             string
	ResourceVersion string
	Namespace       string
	Name            string
	Cluster         string // logical cluster, where a stream shows several (kcp); decoding does not set it
}

// Clone returns an identity that keeps no object alive.
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
}

// Times are the times that an object has. A zero time was absent or not RFC 3339.
type Times struct {
	Created time.Time // metadata.creationTimestamp
	Deleted time.Time // metadata.deletionTimestamp; may lie in the future by the grace period
	Updated time.Time // the newest metadata.managedFields[].time

	// Of core/v1 and events.k8s.io/v1 Events only: the last observation, which is the first of
	// series.lastObservedTime, lastTimestamp (deprecatedLastTimestamp), eventTime,
	// firstTimestamp (deprecatedFirstTimestamp) that is set.
	Observed time.Time
}

// Object is a Kubernetes object after redaction. It shares no memory with the frame it was read from.
type Object struct {
	Identity
	APIVersion string // as in the object; "" where the server left it out (items of a LIST)
	Kind       string
	Generation int64
	Owner      Owner
	Times      Times
	EventType  string // of Events only: the top-level "type" ("Normal", "Warning", …)

	// JSON is the redacted and pruned object, compact, always a complete JSON object.
	// Empty where only the identity is known.
	JSON string

	// RedactionFailed is set where the object could not be walked, so that JSON has its identity and nothing else.
	RedactionFailed bool
}
