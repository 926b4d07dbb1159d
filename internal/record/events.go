package record

import (
	"cmp"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// EventBody is the content of the body of an Event's record.
type EventBody uint8

const (
	EventMessage EventBody = iota // the message
	EventObject                   // the Event, like any other object
)

// Attributes of Events. All but the version, the type and the number of suppressed states are those of the Collector's
// k8s_events receiver. https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/receiver/k8seventsreceiver
const (
	keyObjectFieldPath = "k8s.object.fieldpath"

	keyEventName                = "k8s.event.name"
	keyEventUID                 = "k8s.event.uid"
	keyEventResourceVersion     = "k8s.event.resource_version"
	keyEventType                = "k8s.event.type"
	keyEventReason              = "k8s.event.reason"
	keyEventAction              = "k8s.event.action"
	keyEventCount               = "k8s.event.count"
	keyEventStartTime           = "k8s.event.start_time"
	keyEventReportingController = "k8s.event.reporting_controller"
	keyEventReportingInstance   = "k8s.event.reporting_instance"
	keyEventSuppressed          = "k8s.event.suppressed"
)

// eventAttributesAtMost is the maximum number of attributes of an Event's record.
const eventAttributesAtMost = 30

// kubelet is the reporting controller of kubelets, which report only about their own node.
const kubelet = "kubelet"

// putEvent adds the attributes of an Event: k8s.event.* describes the Event itself; k8s.object.* and all other names
// describe the object that it regards.
func putEvent(m pcommon.Map, c *watchlist.Change) {
	putNonEmpty(m, keyEventName, c.Object.Name)
	putNonEmpty(m, keyEventUID, c.Object.UID)
	putNonEmpty(m, keyEventResourceVersion, c.Object.ResourceVersion)
	putNonEmpty(m, keyKcpCluster, c.Object.Cluster)
	if c.Suppressed > 0 {
		m.PutInt(keyEventSuppressed, int64(c.Suppressed))
	}
	e := c.Object.Event
	if e == nil { // only the Event's identity is known
		putNonEmpty(m, string(semconv.K8SNamespaceNameKey), c.Object.Namespace)
		return
	}
	putNonEmpty(m, keyEventType, e.Type)
	putNonEmpty(m, keyEventReason, e.Reason)
	putNonEmpty(m, keyEventAction, e.Action)
	if e.Count > 0 {
		m.PutInt(keyEventCount, e.Count)
	}
	if isUsable(c.Object.Times.Created) {
		putTime(m, keyEventStartTime, c.Object.Times.Created)
	}
	putNonEmpty(m, keyEventReportingController, e.ReportingController)
	putNonEmpty(m, keyEventReportingInstance, e.ReportingInstance)
	putRegarded(m, c, e)
}

// putRegarded names the object that the Event regards. If there is none, it names the Event's namespace.
func putRegarded(m pcommon.Map, c *watchlist.Change, e *redact.Event) {
	r := &e.Regarding
	if *r == (redact.Reference{}) {
		putNonEmpty(m, string(semconv.K8SNamespaceNameKey), c.Object.Namespace)
		return
	}
	putNonEmpty(m, keyObjectKind, r.Kind)
	putNonEmpty(m, keyObjectAPIVersion, r.APIVersion)
	putNonEmpty(m, keyObjectName, r.Name)
	putNonEmpty(m, keyObjectUID, r.UID)
	putNonEmpty(m, keyObjectResourceVersion, r.ResourceVersion)
	putNonEmpty(m, keyObjectFieldPath, r.FieldPath)
	putNonEmpty(m, string(semconv.K8SNamespaceNameKey), r.Namespace)
	if conventional, ok := conventionOf(r.APIVersion, r.Kind); ok {
		// Kubelets write the name of their node instead of its UID.
		// https://github.com/kubernetes/kubernetes/issues/42701
		uid := r.UID
		if uid == r.Name {
			uid = ""
		}
		conventional.put(m, r.Name, uid)
	}
	if e.ReportingController == kubelet && r.Kind == "Pod" {
		putNonEmpty(m, string(semconv.K8SNodeNameKey), cmp.Or(e.Host, e.ReportingInstance))
	}
}

// setEventSeverity derives the severity from the type of an Event. Unknown types count as Normal.
func setEventSeverity(record plog.LogRecord, o *redact.Object) {
	record.SetSeverityNumber(plog.SeverityNumberInfo)
	if o.Event == nil {
		return
	}
	record.SetSeverityText(o.Event.Type)
	if severity, ok := eventSeverity(o.Event.Type); ok {
		record.SetSeverityNumber(severity)
	}
}

// eventSeverity returns the severity of a known type of Events. Kubernetes defines Normal and Warning; the k8s_events
// receiver also knows error and critical.
func eventSeverity(eventType string) (severity plog.SeverityNumber, ok bool) {
	switch {
	case strings.EqualFold(eventType, "normal"):
		return plog.SeverityNumberInfo, true
	case strings.EqualFold(eventType, "warning"):
		return plog.SeverityNumberWarn, true
	case strings.EqualFold(eventType, "error"):
		return plog.SeverityNumberError, true
	case strings.EqualFold(eventType, "critical"):
		return plog.SeverityNumberFatal, true
	}
	return plog.SeverityNumberUnspecified, false
}
