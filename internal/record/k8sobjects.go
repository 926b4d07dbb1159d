package record

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Names of the records of FormatK8sObjects.
// https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/receiver/k8sobjectsreceiver
const (
	k8sObjectsScopeName = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sobjectsreceiver"

	keyEventDomain     = "event.domain"
	keyEventObjectName = "event.name" // the attribute, not the record's event name, which stays empty

	keyBodyType   = "type"
	keyBodyObject = "object"
)

// byNamespace holds the records of FormatK8sObjects, whose resource is the namespace.
type byNamespace map[string]plog.LogRecordSlice

// of returns the records of a namespace, or of cluster-scoped objects.
func (n *byNamespace) of(namespace string, o *output) plog.LogRecordSlice {
	records, ok := (*n)[namespace]
	if !ok {
		resource := o.logs.ResourceLogs().AppendEmpty()
		o.putConstants(resource.Resource().Attributes())
		putNonEmpty(resource.Resource().Attributes(), string(semconv.K8SNamespaceNameKey), namespace)
		putNonEmpty(resource.Resource().Attributes(), string(semconv.K8SClusterNameKey), o.ClusterName)
		scope := resource.ScopeLogs().AppendEmpty()
		scope.Scope().SetName(k8sObjectsScopeName)
		scope.Scope().SetVersion(o.ScopeVersion)
		records = scope.LogRecords()
		if *n == nil {
			*n = make(byNamespace)
		}
		(*n)[namespace] = records
	}
	return records
}

// fillK8sObject makes the same record as the k8s_objects receiver: as in its mode watch for a change, and as in its
// mode pull for an object of a snapshot. Records that it never sends are marked with our attributes.
func fillK8sObject(record plog.LogRecord, c *watchlist.Change) {
	setObserved(record, c)
	attributes := record.Attributes()
	attributes.PutStr(keyResourceName, c.Scope.Resource)

	object := record.Body().SetEmptyMap()
	if c.Type != watchlist.Snapshot {
		if c.Object.Name != "" {
			attributes.PutStr(keyEventDomain, "k8s")
			attributes.PutStr(keyEventObjectName, c.Object.Name)
		}
		if c.Origin == watchlist.Recovered {
			attributes.PutStr(keyChangeOrigin, originName(c.Origin))
		}
		if c.Inferred {
			attributes.PutBool(keyChangeInferred, true)
		}
		object.EnsureCapacity(2)
		object.PutStr(keyBodyType, typeName(c.Type))
		object = object.PutEmptyMap(keyBodyObject)
	}
	if c.Object.RedactionFailed {
		attributes.PutBool(keyRedactionFailed, true)
	}
	if len(c.Cut) > 0 {
		putCut(attributes, c.Cut)
	}
	if c.Object.JSON == "" {
		putIdentity(object, &c.Object)
	} else if err := bodyMap(object, c.Object.JSON); err != nil {
		// As in setBody. Users of this format expect an object in every body.
		attributes.PutStr(keyBodyError, err.Error())
		putIdentity(object, &c.Object)
	}
}

// putIdentity fills a map with an object whose identity is all that is known.
func putIdentity(m pcommon.Map, o *redact.Object) {
	putNonEmpty(m, "apiVersion", o.APIVersion)
	putNonEmpty(m, "kind", o.Kind)
	metadata := m.PutEmptyMap("metadata")
	putNonEmpty(metadata, "name", o.Name)
	putNonEmpty(metadata, "namespace", o.Namespace)
	putNonEmpty(metadata, "resourceVersion", o.ResourceVersion)
	putNonEmpty(metadata, "uid", o.UID)
}
