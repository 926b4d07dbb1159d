package redact

// eventMembers are the members of core/v1 and events.k8s.io/v1 Events that tell what was observed, and when.
func eventMembers(e *everywhere) []member {
	series := e.in.with(member{key: "lastObservedTime", rule: e.in.noted(eventSeriesTime)})
	return []member{
		{key: "type", rule: e.in.noted(eventType)},
		{key: "series", rule: &rule{in: series}},
		{key: "lastTimestamp", rule: e.in.noted(eventLastTime)},
		{key: "deprecatedLastTimestamp", rule: e.in.noted(eventLastTime)},
		{key: "eventTime", rule: e.in.noted(eventTime)},
		{key: "firstTimestamp", rule: e.in.noted(eventFirstTime)},
		{key: "deprecatedFirstTimestamp", rule: e.in.noted(eventFirstTime)},
	}
}
