package record

import (
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// BodyMode is the form of the object in the body.
type BodyMode uint8

const (
	BodyMap  BodyMode = iota // the object, as a map
	BodyJSON                 // the object, as one JSON string
)

// Options configure the records.
type Options struct {
	ClusterName  string // "" leaves it out
	ClusterUID   string // "" leaves it out; see SetClusterUID
	Body         BodyMode
	EventBody    EventBody
	PodIP        bool // adds k8s.pod.ip to the records of pods
	ProcessKey   bool // the key of fingerprints is lost when the process ends
	ScopeName    string
	ScopeVersion string

	// FormatOf returns the format of the records of a scope. nil: FormatWatchlist for all.
	FormatOf func(*scope.Scope) Format
	// StreamRecords adds records about the stream for scopes whose format is not FormatWatchlist.
	StreamRecords bool
}

// Builder builds log records. It is safe for concurrent use.
type Builder struct {
	options    Options
	clusterUID atomic.Pointer[string]
	workloads  workloads
}

// NewBuilder returns a builder of records.
func NewBuilder(o Options) *Builder {
	b := &Builder{options: o}
	b.SetClusterUID(o.ClusterUID)
	return b
}

// SetClusterUID sets the UID of the cluster for the following records. It is part of k8s.change.id, so it should be set
// before the first record if possible.
func (b *Builder) SetClusterUID(uid string) { b.clusterUID.Store(&uid) }

// ClusterUID returns the UID of the cluster, or "" if it is not known.
func (b *Builder) ClusterUID() string { return *b.clusterUID.Load() }

// Build returns a record for each change for which IsRecord is true. Records of FormatWatchlist are in order under one
// resource (the cluster) and one scope. Records of other formats have their own resources, and only the records of one
// object are in order.
func (b *Builder) Build(changes []watchlist.Change) plog.Logs {
	o := output{Options: &b.options, logs: plog.NewLogs(), clusterUID: b.ClusterUID()}
	for i := range changes {
		c := &changes[i]
		if !b.IsRecord(c) {
			continue
		}
		if c.Type.IsOfObject() {
			b.workloads.learn(c)
		}
		switch b.formatOf(c) {
		case FormatWatchlist:
			b.fill(o.cluster(len(changes)-i).AppendEmpty(), c, o.clusterUID)
		case FormatK8sObjects:
			fillK8sObject(o.k8sObjects.of(c.Object.Namespace, &o).AppendEmpty(), c)
		case FormatK8sEvents:
			e := eventOf(c)
			fillK8sEvent(o.k8sEvents.of(e, &o).AppendEmpty(), c, e)
		}
	}
	return o.logs
}

// output holds the logs of one batch. The slices for records are created when the first record needs them.
type output struct {
	*Options
	logs       plog.Logs
	clusterUID string

	records    *plog.LogRecordSlice // of FormatWatchlist; nil before the first
	k8sObjects byNamespace
	k8sEvents  byRegarded
}

// cluster returns the records of FormatWatchlist, with space for up to n.
func (o *output) cluster(n int) plog.LogRecordSlice {
	if o.records != nil {
		return *o.records
	}
	records := o.appendCluster().LogRecords()
	records.EnsureCapacity(n)
	o.records = &records
	return records
}

// appendCluster appends the cluster as a resource, with the receiver's scope.
func (o *output) appendCluster() plog.ScopeLogs {
	resource := o.logs.ResourceLogs().AppendEmpty()
	resource.SetSchemaUrl(semconv.SchemaURL)
	putNonEmpty(resource.Resource().Attributes(), string(semconv.K8SClusterUIDKey), o.clusterUID)
	putNonEmpty(resource.Resource().Attributes(), string(semconv.K8SClusterNameKey), o.ClusterName)
	if o.ProcessKey {
		resource.Resource().Attributes().PutStr(keyRedactionKey, "process")
	}

	scope := resource.ScopeLogs().AppendEmpty()
	scope.SetSchemaUrl(semconv.SchemaURL)
	scope.Scope().SetName(o.ScopeName)
	scope.Scope().SetVersion(o.ScopeVersion)
	return scope
}

// AppendScope appends the cluster as a resource, with the receiver's scope, for records that Build does not make.
func (b *Builder) AppendScope(logs plog.Logs) plog.ScopeLogs {
	o := output{Options: &b.options, logs: logs, clusterUID: b.ClusterUID()}
	return o.appendCluster()
}

func (b *Builder) fill(record plog.LogRecord, c *watchlist.Change, clusterUID string) {
	record.SetEventName(eventName(c))
	record.SetSeverityNumber(severity(c))
	setTimes(record, c)

	isOfEvents := scope.IsEvents(c.Scope.GroupResource)
	attributes := record.Attributes()
	attributes.EnsureCapacity(capacity(c, isOfEvents))
	attributes.PutStr(keyChangeID, changeID(c, clusterUID))
	putNonEmpty(attributes, keyChangeOrigin, originName(c.Origin))
	putNonEmpty(attributes, keyResourceName, c.Scope.Resource)
	putNonEmpty(attributes, keyResourceGroup, c.Scope.Group)
	if c.Type.IsOfObject() {
		putChange(attributes, c)
		if isOfEvents {
			putEvent(attributes, c)
			setEventSeverity(record, &c.Object)
			b.setEventBody(record, &c.Object)
		} else {
			b.putObject(attributes, c)
			b.setBody(record, c.Object.JSON)
		}
		if c.Object.RedactionFailed {
			attributes.PutBool(keyRedactionFailed, true)
		}
		return
	}
	putScope(attributes, c.Scope)
	switch {
	case c.Type == watchlist.Gap && c.Gap != nil:
		putGap(attributes, c.Gap, isOfEvents)
		record.Body().SetStr(GapSentence(c))
	case c.Snapshot != nil:
		putFrame(attributes, c)
	}
}

// setBody sets the object as the body. The body stays empty if only the object's identity is known.
func (b *Builder) setBody(record plog.LogRecord, json string) {
	if json == "" {
		return
	}
	if b.options.Body == BodyJSON {
		record.Body().SetStr(json)
		return
	}
	if err := bodyMap(record.Body().SetEmptyMap(), json); err != nil {
		// The reader has already decoded this object, so this is a bug. The object did change, but half an object would
		// be misleading.
		pcommon.NewValueEmpty().CopyTo(record.Body())
		record.Attributes().PutStr(keyBodyError, err.Error())
	}
}

func putNonEmpty(m pcommon.Map, key, value string) {
	if value != "" {
		m.PutStr(key, value)
	}
}
