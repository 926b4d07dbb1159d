package record

import (
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

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
	ProcessKey   bool // the key of fingerprints is lost when the process ends
	ScopeName    string
	ScopeVersion string
}

// Builder builds log records. It is safe for concurrent use.
type Builder struct {
	options    Options
	clusterUID atomic.Pointer[string]
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

// Build returns a record for each change that is one, in order, under one resource (the cluster) and one scope.
func (b *Builder) Build(changes []watchlist.Change) plog.Logs {
	logs := plog.NewLogs()
	if len(changes) == 0 {
		return logs
	}
	clusterUID := b.ClusterUID()

	resource := logs.ResourceLogs().AppendEmpty()
	resource.SetSchemaUrl(semconv.SchemaURL)
	putNonEmpty(resource.Resource().Attributes(), string(semconv.K8SClusterUIDKey), clusterUID)
	putNonEmpty(resource.Resource().Attributes(), string(semconv.K8SClusterNameKey), b.options.ClusterName)
	if b.options.ProcessKey {
		resource.Resource().Attributes().PutStr(keyRedactionKey, "process")
	}

	scope := resource.ScopeLogs().AppendEmpty()
	scope.SetSchemaUrl(semconv.SchemaURL)
	scope.Scope().SetName(b.options.ScopeName)
	scope.Scope().SetVersion(b.options.ScopeVersion)

	records := scope.LogRecords()
	records.EnsureCapacity(len(changes))
	for i := range changes {
		if !changes[i].IsRecord() {
			continue
		}
		b.fill(records.AppendEmpty(), &changes[i], clusterUID)
	}
	return logs
}

func (b *Builder) fill(record plog.LogRecord, c *watchlist.Change, clusterUID string) {
	record.SetEventName(eventName(c))
	record.SetSeverityNumber(severity(c))
	setTimes(record, c)

	attributes := record.Attributes()
	attributes.EnsureCapacity(attributesAtMost)
	attributes.PutStr(keyChangeID, changeID(c, clusterUID))
	putNonEmpty(attributes, keyChangeOrigin, originName(c.Origin))
	putNonEmpty(attributes, keyResourceName, c.Scope.Resource)
	putNonEmpty(attributes, keyResourceGroup, c.Scope.Group)
	if isOfObject(c.Type) {
		putChange(attributes, c)
		putObject(attributes, c)
		b.setBody(record, c.Object.JSON)
		if c.Object.RedactionFailed {
			attributes.PutBool(keyRedactionFailed, true)
		}
		return
	}
	putScope(attributes, c.Scope)
	switch {
	case c.Type == watchlist.Gap && c.Gap != nil:
		putGap(attributes, c.Gap)
		record.Body().SetStr(gapSentence(c))
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
