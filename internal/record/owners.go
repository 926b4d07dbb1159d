package record

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	keyOwnerKind       = "k8s.owner.kind"
	keyOwnerName       = "k8s.owner.name"
	keyOwnerUID        = "k8s.owner.uid"
	keyOwnerAPIVersion = "k8s.owner.api_version"
)

// podAttributesAtMost is the maximum number of attributes that only records of pods have.
const podAttributesAtMost = 6

// capacity returns the maximum number of attributes of a change's record.
func capacity(c *watchlist.Change, isOfEvents bool) int {
	switch {
	case isOfEvents:
		return eventAttributesAtMost
	case c.Object.Pod != nil:
		return attributesAtMost + podAttributesAtMost
	}
	return attributesAtMost
}

// putOwner names the owner. An owner that controls the object also gets the attributes of its kind. Those of the object
// itself are put later and replace them.
func putOwner(m pcommon.Map, o *redact.Owner) {
	putNonEmpty(m, keyOwnerKind, o.Kind)
	putNonEmpty(m, keyOwnerName, o.Name)
	putNonEmpty(m, keyOwnerUID, o.UID)
	putNonEmpty(m, keyOwnerAPIVersion, o.APIVersion)
	if !o.Controls {
		return
	}
	// k8s.namespace.name is the namespace of the object, even if another one owns it.
	if c, ok := conventionOf(o.APIVersion, o.Kind); ok && c.name != string(semconv.K8SNamespaceNameKey) {
		c.put(m, o.Name, o.UID)
	}
}

// putPod adds where a pod runs and the workload that it belongs to.
func (b *Builder) putPod(m pcommon.Map, o *redact.Object) {
	putNonEmpty(m, string(semconv.K8SNodeNameKey), o.Pod.Node)
	putNonEmpty(m, string(semconv.K8SPodStartTimeKey), o.Pod.Started)
	putNonEmpty(m, string(semconv.K8SPodStatusPhaseKey), o.Pod.Phase)
	if b.options.PodIP {
		putNonEmpty(m, string(semconv.K8SPodIPKey), o.Pod.IP)
	}
	if top, convention, ok := b.workloads.ofPod(o); ok {
		convention.put(m, top.name, top.uid)
	}
}
