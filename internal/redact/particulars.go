package redact

import (
	"strconv"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// Event holds the facts of a Kubernetes Event that was read from either API. The names are those of events.k8s.io/v1. The
// deprecated fields fill in for missing ones.
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
type Event struct {
	Type   string // "Normal", "Warning", …
	Reason string
	Action string
	Note   string // message
	Count  int64  // series.count, or else count; 0 if both are missing

	ReportingController string // reportingComponent, source.component
	ReportingInstance   string // source.host
	Host                string // source.host, deprecatedSource.host

	Regarding Reference // involvedObject
}

// Reference refers to an object or to a part of it. Any field may be empty.
type Reference struct {
	APIVersion      string
	Kind            string
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string
	FieldPath       string
}

// Pod holds the facts of a pod.
type Pod struct {
	Node         string // spec.nodeName
	Phase        string // status.phase
	IP           string // status.podIP
	Started      string // status.startTime, RFC 3339
	TemplateHash string // label pod-template-hash, by which a Deployment tells the pods of its ReplicaSets apart
}

// particulars names the facts that only objects of some resources have.
type particulars uint8

const (
	ofEvents particulars = iota + 1
	ofPods
)

// eventMembers returns the rules for the members of core/v1 and events.k8s.io/v1 Events that hold facts.
func (s *ruleSet) eventMembers() []member {
	series := s.in.with(member{key: "lastObservedTime", rule: s.in.noted(eventSeriesTime)})
	source := s.in.ruleNamed("source")
	return []member{
		{key: "type", rule: s.in.noted(eventType)},
		{key: "series", rule: &rule{note: eventSeries, in: series}},
		{key: "lastTimestamp", rule: s.in.noted(eventLastTime)},
		{key: "deprecatedLastTimestamp", rule: s.in.noted(eventLastTime)},
		{key: "eventTime", rule: s.in.noted(eventTime)},
		{key: "firstTimestamp", rule: s.in.noted(eventFirstTime)},
		{key: "deprecatedFirstTimestamp", rule: s.in.noted(eventFirstTime)},
		{key: "reason", rule: s.in.noted(eventReason)},
		{key: "action", rule: s.in.noted(eventAction)},
		{key: "message", rule: s.in.noted(eventNote)},
		{key: "note", rule: s.in.noted(eventNote)},
		{key: "count", rule: s.in.noted(eventCount)},
		{key: "deprecatedCount", rule: s.in.noted(eventCount)},
		{key: "reportingComponent", rule: s.in.noted(eventController)},
		{key: "reportingController", rule: s.in.noted(eventController)},
		{key: "reportingInstance", rule: s.in.noted(eventInstance)},
		{key: "source", rule: &rule{note: eventSource, mode: source.mode, in: source.in}},
		{key: "deprecatedSource", rule: s.in.noted(eventSource)},
		{key: "involvedObject", rule: s.in.noted(eventRegarding)},
		{key: "regarding", rule: s.in.noted(eventRegarding)},
	}
}

// podObject returns the interior of a pod.
func (s *ruleSet) podObject(root *interior) *interior {
	spec := s.in.with(member{key: "nodeName", rule: s.in.noted(podNode)})
	status := s.in.with(
		member{key: "phase", rule: s.in.noted(podPhase)},
		member{key: "podIP", rule: s.in.noted(podIP)},
		member{key: "startTime", rule: s.in.noted(podStarted)},
	)
	values := s.in.byClass[labelsKey]
	labels := &rule{mode: values.mode}
	labels.in = (&interior{elements: values, others: values}).named(
		member{key: "pod-template-hash", rule: &rule{note: podTemplate, mode: values.mode, in: values.in}},
	)
	metadata := *root.ruleNamed("metadata")
	metadata.in = metadata.in.with(member{key: "labels", rule: labels})
	return root.with(
		member{key: "metadata", rule: &metadata},
		member{key: "spec", rule: &rule{in: spec}},
		member{key: "status", rule: &rule{in: status}},
	)
}

// event returns the facts of an Event. str returns the text of a string.
func (w *walk) event(str func(span) string) *Event {
	f := &w.facts
	e := &Event{
		Type:                str(f.found[eventType]),
		Reason:              str(f.found[eventReason]),
		Action:              str(f.found[eventAction]),
		Note:                str(f.found[eventNote]),
		ReportingController: str(f.found[eventController]),
		ReportingInstance:   str(f.found[eventInstance]),
		Count:               w.number(f.found[eventCount]),
	}
	w.members(f.found[eventSeries], func(key []byte, value span) {
		if string(key) == "count" && eventCount.matches(w.data[value.from]) {
			e.Count = w.number(value)
		}
	})
	var component string
	w.members(f.found[eventSource], func(key []byte, value span) {
		switch string(key) {
		case "component":
			w.setFirst(&component, key, value, str)
		case "host":
			w.setFirst(&e.Host, key, value, str)
		}
	})
	if e.ReportingController == "" {
		e.ReportingController = component
	}
	if e.ReportingInstance == "" {
		e.ReportingInstance = e.Host
	}
	r := &e.Regarding
	w.members(f.found[eventRegarding], func(key []byte, value span) {
		switch string(key) {
		case "apiVersion":
			w.setFirst(&r.APIVersion, key, value, str)
		case "kind":
			w.setFirst(&r.Kind, key, value, str)
		case "namespace":
			w.setFirst(&r.Namespace, key, value, str)
		case "name":
			w.setFirst(&r.Name, key, value, str)
		case "uid":
			w.setFirst(&r.UID, key, value, str)
		case "resourceVersion":
			w.setFirst(&r.ResourceVersion, key, value, str)
		case "fieldPath":
			w.setFirst(&r.FieldPath, key, value, str)
		}
	})
	return e
}

// pod returns the facts of a pod. str returns the text of a string.
func (w *walk) pod(str func(span) string) *Pod {
	f := &w.facts
	p := &Pod{
		Node:         str(f.found[podNode]),
		Phase:        str(f.found[podPhase]),
		IP:           str(f.found[podIP]),
		TemplateHash: str(f.found[podTemplate]),
	}
	if !timeOf(w.data, f.found[podStarted]).IsZero() {
		p.Started = str(f.found[podStarted])
	}
	return p
}

func (w *walk) number(s span) int64 {
	n, _ := strconv.ParseInt(string(w.data[s.from:s.to]), 10, 64)
	return n
}

// setFirst sets the text to the value of a member if that is a string and the text is still empty.
func (w *walk) setFirst(text *string, key []byte, value span, str func(span) string) {
	if w.data[value.from] != '"' || *text != "" {
		return
	}
	if w.plan.fields != nil {
		// If [Fields] drop the member, nothing is masked in it yet.
		w.keepText(w.ruleOf(w.plan.rules.in, key), value.from, value.to)
	}
	*text = str(value)
}

// members calls each for the members of the object at s, if there is one. The object was walked before and is small.
// Reading it a second time leaves the rules for its members as they are for any object.
func (w *walk) members(s span, each func(key []byte, value span)) {
	if s == (span{}) {
		return
	}
	jsonscan.Members(w.data, s.from, func(m jsonscan.Member) bool {
		each(m.Name(w.data), span{m.Value, m.End})
		return true
	})
}
