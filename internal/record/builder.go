package record

import (
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Options configure the records.
type Options struct {
	ClusterName  string // "" leaves it out
	ClusterUID   string // "" leaves it out; see SetClusterUID
	Body         BodyMode
	Object       ObjectMode
	Grouping     Grouping
	Resource     map[string]any // constant resource attributes: strings, integers, floats and booleans
	EventBody    EventBody
	MaxBytes     int  // of a record, see Fit; 0: no limit
	Entities     bool // objects are also made into entity events, see Fit
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

// Build returns a record for each change for which IsRecord is true, under the resource that it belongs to, each with one
// scope. The records of one object are in order. Records of FormatWatchlist are also in order with the records about the
// stream.
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
			b.fill(o.recordsFor(c, len(changes)-i).AppendEmpty(), c, o.clusterUID)
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

	records    *plog.LogRecordSlice // of FormatWatchlist, grouped by cluster; nil before the first
	groups     groups               // of FormatWatchlist, grouped by anything else
	k8sObjects byNamespace
	k8sEvents  byRegarded
}

// recordsFor returns the records of FormatWatchlist to which that of a change belongs, with space for up to n where all of
// the batch are together.
func (o *output) recordsFor(c *watchlist.Change, n int) plog.LogRecordSlice {
	if o.Grouping != ByCluster {
		return o.groupFor(c)
	}
	if o.records == nil {
		records := o.appendResource(place{}).LogRecords()
		records.EnsureCapacity(n)
		o.records = &records
	}
	return *o.records
}

// AppendScope appends the cluster as a resource, with the receiver's scope, for records that Build does not make.
func (b *Builder) AppendScope(logs plog.Logs) plog.ScopeLogs {
	o := output{Options: &b.options, logs: logs, clusterUID: b.ClusterUID()}
	return o.appendResource(place{})
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
		} else {
			b.putObject(attributes, c)
		}
		b.setBody(record, c)
		if c.Object.RedactionFailed {
			attributes.PutBool(keyRedactionFailed, true)
		}
		if len(c.Cut) > 0 {
			putCut(attributes, c.Cut)
		}
		return
	}
	putScope(attributes, c.Scope)
	switch {
	case c.Type == watchlist.Gap && c.Gap != nil:
		putGap(attributes, c.Gap, isOfEvents)
	case c.Snapshot != nil:
		putFrame(attributes, c)
	}
	b.setStreamBody(record, c)
}

func putNonEmpty(m pcommon.Map, key, value string) {
	if value != "" {
		m.PutStr(key, value)
	}
}
