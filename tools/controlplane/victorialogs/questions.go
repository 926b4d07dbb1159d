package victorialogs

import "strconv"

// Question is something that people want to know of a namespace.
type Question struct {
	Title string
	Query string // in LogsQL

	// Columns are the fields of a row that a person wants to see, in this order, with _time first.
	Columns []string
}

const lastHour = "_time:1h "

// Questions returns what changed in the namespace, who scaled its Deployments, and what disappeared from it, each in the last
// hour. The second needs `diff: true` for deployments. docs/backends.md has the same queries.
func Questions(namespace string) []Question {
	in := " k8s.namespace.name:=" + strconv.Quote(namespace)
	return []Question{{
		Title:   "What changed in the namespace " + namespace + " in the last hour?",
		Query:   lastHour + `{event_name=~"k8s[.]object[.](added|modified|deleted)"}` + in + ` | sort by (_time, k8s.object.resource_version)`,
		Columns: []string{"_time", "k8s.change.type", "k8s.object.kind", "k8s.object.name"},
	}, {
		Title: "Who scaled its Deployments, through which subresource, and from how many replicas to how many?",
		Query: lastHour + `{event_name="k8s.object.modified"}` + in + ` k8s.resource.name:=deployments` +
			` | unroll by (k8s.change.diff) | unpack_json from k8s.change.diff fields (path, old, new)` +
			` | filter path:="spec.replicas" | sort by (_time, k8s.object.resource_version)`,
		Columns: []string{"_time", "k8s.object.name", "k8s.change.manager", "k8s.change.subresource", "old", "new"},
	}, {
		Title:   "What disappeared from it?",
		Query:   lastHour + `{event_name="k8s.object.deleted"}` + in + ` | sort by (_time, k8s.object.resource_version)`,
		Columns: []string{"_time", "k8s.object.kind", "k8s.object.name"},
	}}
}
