package record

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Grouping is what the resource of a record is. The record has the same attributes under each of them.
type Grouping uint8

const (
	ByCluster   Grouping = iota
	ByNamespace          // the namespace in the cluster, or the cluster for what is in none
	ByObject             // the object that the record is about
)

// place is the resource of a record within the cluster. What the grouping does not name is empty.
type place struct {
	namespace  string
	kind       string
	apiVersion string
	name       string
	uid        string
	convention nameAndUID // of the kind
}

// placeOf returns the resource of the record of a change: for an Event, that of the object which it regards, as in the
// attributes of its record.
func (g Grouping) placeOf(c *watchlist.Change) place {
	switch {
	case !c.Type.IsOfObject():
		return place{namespace: c.Scope.Namespace}
	case scope.IsEvents(c.Scope.GroupResource):
		return g.placeOfEvent(&c.Object)
	}
	o := &c.Object
	convention := kinds[c.Scope.GroupResource]
	p := place{namespace: o.Namespace}
	if convention.name == string(semconv.K8SNamespaceNameKey) {
		p.namespace = o.Name
	}
	if g == ByObject {
		p.kind, p.apiVersion, p.name, p.uid, p.convention = o.Kind, o.APIVersion, o.Name, o.UID, convention
	}
	return p
}

func (g Grouping) placeOfEvent(o *redact.Object) place {
	if o.Event == nil || o.Event.Regarding == (redact.Reference{}) {
		return place{namespace: o.Namespace}
	}
	r := &o.Event.Regarding
	convention, _ := conventionOf(r.APIVersion, r.Kind)
	p := place{namespace: r.Namespace}
	if convention.name == string(semconv.K8SNamespaceNameKey) {
		p.namespace = r.Name
	}
	if g == ByObject {
		p.kind, p.apiVersion, p.name, p.uid, p.convention = r.Kind, r.APIVersion, r.Name, r.UID, convention
		if r.UID == r.Name { // as in putRegarded
			p.convention.uid = ""
		}
	}
	return p
}

// groups are the resources of a batch whose records are not all under one.
type groups struct {
	records map[place]plog.LogRecordSlice
	places  map[watchlist.Key]place // where the last record of an object is
}

// groupFor returns the records of the resource to which that of a change belongs. Where the order matters, a resource
// comes a second time: after a record of the stream, since the end of a set of snapshots must not overtake these, and where
// the resource of an object changes, as that of an Event of which only the identity is known at the end.
func (o *output) groupFor(c *watchlist.Change) plog.LogRecordSlice {
	g, at := &o.groups, o.Grouping.placeOf(c)
	if !c.Type.IsOfObject() {
		*g = groups{}
		return o.appendResource(at).LogRecords()
	}
	if before, ok := g.places[c.Key]; ok && before != at {
		*g = groups{}
	}
	if g.records == nil {
		g.records, g.places = make(map[place]plog.LogRecordSlice), make(map[watchlist.Key]place)
	}
	g.places[c.Key] = at
	records, ok := g.records[at]
	if !ok {
		records = o.appendResource(at).LogRecords()
		g.records[at] = records
	}
	return records
}

// appendResource appends a resource with the receiver's scope, and returns that.
func (o *output) appendResource(at place) plog.ScopeLogs {
	resource := o.logs.ResourceLogs().AppendEmpty()
	resource.SetSchemaUrl(semconv.SchemaURL)
	attributes := resource.Resource().Attributes()
	o.putConstants(attributes)
	putNonEmpty(attributes, string(semconv.K8SClusterUIDKey), o.clusterUID)
	putNonEmpty(attributes, string(semconv.K8SClusterNameKey), o.ClusterName)
	if o.ProcessKey {
		attributes.PutStr(keyRedactionKey, "process")
	}
	at.put(attributes)

	logs := resource.ScopeLogs().AppendEmpty()
	logs.SetSchemaUrl(semconv.SchemaURL)
	logs.Scope().SetName(o.ScopeName)
	logs.Scope().SetVersion(o.ScopeVersion)
	return logs
}

// putConstants sets the attributes that every resource has.
func (o *Options) putConstants(m pcommon.Map) {
	if len(o.Resource) > 0 {
		_ = m.FromRaw(o.Resource) // cannot fail with such values
	}
}

func (p *place) put(m pcommon.Map) {
	putNonEmpty(m, string(semconv.K8SNamespaceNameKey), p.namespace)
	putNonEmpty(m, keyObjectKind, p.kind)
	putNonEmpty(m, keyObjectAPIVersion, p.apiVersion)
	putNonEmpty(m, keyObjectName, p.name)
	putNonEmpty(m, keyObjectUID, p.uid)
	if p.convention.name != "" {
		p.convention.put(m, p.name, p.uid)
	}
}
