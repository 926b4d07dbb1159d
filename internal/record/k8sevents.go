package record

import (
	"go.opentelemetry.io/collector/pdata/plog"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// k8sEventsScopeName is the scope of the records of FormatK8sEvents, whose attributes are among those of Events.
const k8sEventsScopeName = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8seventsreceiver"

// eventResource is the resource of a record of FormatK8sEvents.
type eventResource struct {
	host      string
	regarding redact.Reference // without the namespace, which is an attribute of the record
}

// byRegarded holds the records of FormatK8sEvents. Consecutive Events of one object share a resource.
type byRegarded struct {
	last    eventResource
	records *plog.LogRecordSlice // of the last resource; nil before the first
}

// of returns the records under the resource of an Event.
func (r *byRegarded) of(e *redact.Event, o *output) plog.LogRecordSlice {
	of := eventResource{host: e.Host, regarding: e.Regarding}
	of.regarding.Namespace = ""
	if r.records == nil || r.last != of {
		resource := o.logs.ResourceLogs().AppendEmpty()
		attributes := resource.Resource().Attributes()
		o.putConstants(attributes)
		// The k8s_events receiver sends empty values too.
		attributes.PutStr(string(semconv.K8SNodeNameKey), of.host)
		attributes.PutStr(keyObjectKind, of.regarding.Kind)
		attributes.PutStr(keyObjectName, of.regarding.Name)
		attributes.PutStr(keyObjectUID, of.regarding.UID)
		attributes.PutStr(keyObjectFieldPath, of.regarding.FieldPath)
		attributes.PutStr(keyObjectAPIVersion, of.regarding.APIVersion)
		attributes.PutStr(keyObjectResourceVersion, of.regarding.ResourceVersion)
		putNonEmpty(attributes, string(semconv.K8SClusterNameKey), o.ClusterName)
		scope := resource.ScopeLogs().AppendEmpty()
		scope.Scope().SetName(k8sEventsScopeName)
		scope.Scope().SetVersion(o.ScopeVersion)
		records := scope.LogRecords()
		r.last, r.records = of, &records
	}
	return *r.records
}

// eventOf returns the facts of the Event that the change is about, all of them empty if only its identity is known.
func eventOf(c *watchlist.Change) *redact.Event {
	if c.Object.Event == nil {
		return &redact.Event{}
	}
	return c.Object.Event
}

// fillK8sEvent makes the record that the k8s_events receiver would. What that receiver never sends is marked with our
// attributes.
func fillK8sEvent(record plog.LogRecord, c *watchlist.Change, e *redact.Event) {
	setTimes(record, c)
	record.Body().SetStr(e.Note)
	if severity, ok := eventSeverity(e.Type); ok {
		record.SetSeverityNumber(severity)
		record.SetSeverityText(e.Type)
	}

	attributes := record.Attributes()
	attributes.EnsureCapacity(12)
	attributes.PutStr(keyEventReason, e.Reason)
	attributes.PutStr(keyEventAction, e.Action)
	attributes.PutStr(keyEventStartTime, c.Object.Times.Created.UTC().String())
	attributes.PutStr(keyEventName, c.Object.Name)
	attributes.PutStr(keyEventUID, c.Object.UID)
	attributes.PutStr(string(semconv.K8SNamespaceNameKey), e.Regarding.Namespace)
	attributes.PutStr(keyEventReportingController, e.ReportingController)
	attributes.PutStr(keyEventReportingInstance, e.ReportingInstance)
	if e.Count != 0 {
		attributes.PutInt(keyEventCount, e.Count)
	}
	if c.Origin == watchlist.Recovered {
		attributes.PutStr(keyChangeOrigin, originName(c.Origin))
	}
	if c.Suppressed > 0 {
		attributes.PutInt(keyEventSuppressed, int64(c.Suppressed))
	}
	if c.Object.RedactionFailed {
		attributes.PutBool(keyRedactionFailed, true)
	}
	if len(c.Cut) > 0 {
		putCut(attributes, c.Cut)
	}
}
